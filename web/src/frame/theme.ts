/** Puts the theme of the settings on the page; `auto` follows the system. */
import { effect } from "@preact/signals";
import type { App } from "../app";

export function followTheme(app: App): () => void {
  return effect(() => {
    const theme = app.settings.value.theme;
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
  });
}

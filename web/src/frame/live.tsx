/** The one polite live region of the page. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useApp } from "../app";

const spoken = signal("");

/** Says a sentence to screen readers. The same sentence twice is said twice. */
export function say(text: string): void {
  spoken.value = spoken.value === text ? `${text}\u00a0` : text;
}

export function LiveRegion() {
  const app = useApp();
  const said = app.said.value;
  useEffect(() => {
    if (said !== "") say(said);
  }, [said]);
  return <div class="vh" role="status" aria-live="polite" data-live>{spoken.value}</div>;
}

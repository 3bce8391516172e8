/** Takes a pairing code out of the address. It is imported first: the code is gone from history before anything else runs. */
import { signal } from "@preact/signals";

const CODE_LENGTH = 8;

/** The code of the address that opened the page, for the field of the pairing screen; it never pairs by itself. */
export const codeFromAddress = signal("");

/** Returns the characters of a pairing code in a text that was typed or pasted, such as a whole address. */
export function codeIn(text: string): string {
  const behind = text.slice(text.lastIndexOf("#") + 1);
  return behind.toUpperCase().replace(/[^A-HJ-NP-Z2-9]/g, "").slice(0, CODE_LENGTH);
}

/** Whether the code is complete. */
export function isWholeCode(code: string): boolean {
  return code.length === CODE_LENGTH;
}

/** Removes whatever the fragment has that is not a place of this page. */
export function takeFragment(): void {
  const fragment = location.hash;
  if (fragment === "" || fragment.startsWith("#/")) return;
  history.replaceState(null, "", location.pathname);
  const code = codeIn(fragment);
  if (isWholeCode(code) && /^[#0-9A-Za-z-]+$/.test(fragment) && fragment.length <= CODE_LENGTH + 2) codeFromAddress.value = code;
}

takeFragment();
addEventListener("hashchange", takeFragment);

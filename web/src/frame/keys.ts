/** The keys of the page. Screens register theirs; single letters rest while a field has the focus, or by the settings. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { isModalOpen } from "./dialog";

/** A key such as `j`, `g i`, `mod+k`, `alt+ArrowUp`, `alt+1`; returns false if it was not for this screen. */
export type Keys = Record<string, (event: KeyboardEvent) => unknown>;

const SEQUENCE = 1000; // milliseconds for the second key of `g i`
const isApple = /Mac|iP(hone|ad|od)/.test(navigator.userAgent);
const screens: { current: Keys }[] = [];
let areLettersOn: () => boolean = () => true;
let before = { key: "", at: 0 };

/** Names the modifier as this system does. */
export const modKey = isApple ? "⌘" : "Ctrl";
export const altKey = isApple ? "⌥" : "Alt";

export function useKeys(keys: Keys): void {
  const held = useRef(keys);
  held.current = keys;
  useLayoutEffect(() => {
    screens.push(held);
    return () => {
      const at = screens.indexOf(held);
      if (at >= 0) screens.splice(at, 1);
    };
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input:not([type=checkbox],[type=radio],[type=button]), textarea, select");
}

function named(event: KeyboardEvent): string {
  if (event.altKey && /^Digit[1-9]$/.test(event.code)) return `alt+${event.code.slice(5)}`;
  const mod = (isApple ? event.metaKey : event.ctrlKey) ? "mod+" : "";
  return `${mod}${event.altKey ? "alt+" : ""}${mod === "" ? event.key : event.key.toLowerCase()}`;
}

function onKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.repeat && event.key.length > 1 && event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const key = named(event);
  const isLetter = [...key].length === 1 && key !== " ";
  if (isLetter && (isTyping(event.target) || !areLettersOn() || event.ctrlKey || event.metaKey)) return;
  if (isModalOpen() && key !== "mod+k" && !/^alt\+\d$/.test(key)) return;
  if (!isLetter && !key.includes("+") && key !== "Escape" && isTyping(event.target)) return;
  const sequence = event.timeStamp - before.at < SEQUENCE ? `${before.key} ${key}` : "";
  before = { key: isLetter ? key : "", at: event.timeStamp };
  for (const wanted of sequence === "" ? [key] : [sequence, key]) {
    for (const screen of [...screens].reverse()) {
      const run = screen.current[wanted];
      if (run !== undefined && run(event) !== false) {
        event.preventDefault();
        before = { key: "", at: 0 };
        return;
      }
    }
  }
}

/** Listens for keys; `letters` says whether single letters are switched on. */
export function listenForKeys(letters: () => boolean): () => void {
  areLettersOn = letters;
  addEventListener("keydown", onKey);
  return () => removeEventListener("keydown", onKey);
}

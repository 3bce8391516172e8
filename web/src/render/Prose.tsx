/** One block of Markdown. While it grows it is parsed at most once a frame, and every 100 ms from 4 KB on. */
import { useLayoutEffect, useRef } from "preact/hooks";
import { markdown } from "./markdown";
import { sanitise } from "./sanitise";

const LARGE = 4_096;
const PAUSE_MS = 100;

export function Prose({ text, isOpen }: { text: string; isOpen: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef({ at: 0, timer: 0 });
  useLayoutEffect(() => {
    const state = drawn.current;
    const draw = (): void => {
      state.timer = 0;
      state.at = performance.now();
      if (place.current !== null) fill(place.current, text);
    };
    window.clearTimeout(state.timer);
    const wait = isOpen && text.length > LARGE ? state.at + PAUSE_MS - performance.now() : 0;
    if (wait > 0) state.timer = window.setTimeout(draw, wait);
    else draw();
    return () => window.clearTimeout(state.timer);
  }, [text, isOpen]);
  return <div class="prose" dir="auto" ref={place} />;
}

function fill(place: HTMLElement, text: string): void {
  try {
    place.replaceChildren(sanitise(markdown(text)));
  } catch {
    // A block that cannot be drawn is shown as it was written; the others do not notice.
    place.textContent = text;
  }
}

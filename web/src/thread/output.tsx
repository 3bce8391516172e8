/** Output of a command: the last 200 lines while it runs, at most four paints a second. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ReadonlySignal } from "@preact/signals";
import type { Output } from "../model";
import { lastLines } from "../render/sgr";
import { Terminal } from "../render/Terminal";
import { words } from "../words";

const LIVE_LINES = 200;
const ENDED_LINES = 40;
const MORE_LINES = 5_000;
const PAUSE_MS = 250;

/** Return the value of a signal, at most four times a second. */
function useSlow<T>(source: ReadonlySignal<T>): T {
  const [value, setValue] = useState(() => source.peek());
  useEffect(() => {
    let timer = 0;
    let isFresh = true;
    const stop = source.subscribe((next) => {
      if (isFresh) {
        isFresh = false;
        setValue(() => next);
        return;
      }
      if (timer !== 0) return;
      timer = window.setTimeout(() => {
        timer = 0;
        setValue(() => source.peek());
      }, PAUSE_MS);
    });
    return () => {
      stop();
      window.clearTimeout(timer);
    };
  }, [source]);
  return value;
}

export function LiveOutput({ source, name }: { source: ReadonlySignal<Output | undefined>; name: string }) {
  const output = useSlow(source);
  if (output === undefined || (output.text === "" && !output.isOver)) return null;
  return <OutputText text={output.text} name={name} isLive={!output.isOver} isCut={output.isCut} />;
}

export function OutputText({ text, name, isLive, isCut }: { text: string; name: string; isLive: boolean; isCut: boolean }) {
  const place = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  const [most, setMost] = useState(0);
  const { text: shown, before } = lastLines(text, Math.max(most, isLive ? LIVE_LINES : ENDED_LINES));
  useLayoutEffect(() => {
    const box = place.current;
    if (box !== null && isAtEnd.current && most === 0) box.scrollTop = box.scrollHeight;
  });
  if (text === "") return null;
  return (
    <>
      {(before > 0 || isCut) && (
        <button type="button" class="btn quiet more" disabled={before === 0} onClick={() => setMost(most + MORE_LINES)}>
          {before > 0 ? words.thread.showLines(before) : words.thread.cutOutput}
        </button>
      )}
      <pre
        class={`out${most > 0 ? " whole" : ""}`}
        ref={place}
        tabIndex={0}
        role="region"
        aria-label={words.thread.outputOf(name)}
        dir="ltr"
        onScroll={() => {
          const box = place.current;
          if (box !== null) isAtEnd.current = box.scrollHeight - box.clientHeight - box.scrollTop < 8;
        }}
      ><Terminal text={shown} /></pre>
    </>
  );
}

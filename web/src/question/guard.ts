/** What protects a press: the card was painted at its place long enough, the pointer went down on it, all of it was seen. */
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

const SETTLED = 400; // milliseconds at one place before a press or key counts
const LOOK = 100; // milliseconds between two looks at where a card is

type Interval = [number, number];

/** Adds an interval to others that do not overlap. */
function joined(seen: Interval[], added: Interval): Interval[] {
  let [from, to] = added;
  const apart = seen.filter(([start, end]) => {
    if (end < from - 1 || start > to + 1) return true;
    from = Math.min(from, start);
    to = Math.max(to, end);
    return false;
  });
  return [...apart, [from, to]];
}

/** Returns the part of an element that can be seen, from its own upper edge. */
function visiblePart(element: HTMLElement): Interval | null {
  const own = element.getBoundingClientRect();
  let top = Math.max(0, own.top);
  let bottom = Math.min(innerHeight, own.bottom);
  for (let around = element.parentElement; around !== null; around = around.parentElement) {
    if (getComputedStyle(around).overflowY === "visible") continue;
    const edge = around.getBoundingClientRect();
    top = Math.max(top, edge.top);
    bottom = Math.min(bottom, edge.bottom);
  }
  // What floats above the end of the page, such as the tab bar.
  const bar = document.querySelector(".tabs");
  if (bar !== null && !element.closest("dialog")) bottom = Math.min(bottom, bar.getBoundingClientRect().top);
  return bottom > top ? [top - own.top, bottom - own.top] : null;
}

export interface Guard {
  /** The whole card. */
  card: RefObject<HTMLElement | null>;
  /** What has to be seen before anything is allowed. */
  body: RefObject<HTMLDivElement | null>;
  isSeen: boolean;
  /** How far it was seen without a gap, and how long it is, in lines. */
  seenLines: number;
  allLines: number;
  onPointerDown: (event: PointerEvent) => void;
  /** Whether a press or key counts now. */
  counts: (event: Event) => boolean;
}

/** Watches one card. `what` changes if other content is shown in it. */
export function useGuard(what: string): Guard {
  const card = useRef<HTMLElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const state = useRef({ settledAt: Infinity, where: "", down: null as { target: Element; isGood: boolean } | null, seen: [] as Interval[], height: 0, width: 0, isSeen: false, lines: 0, all: 0 });

  const look = () => {
    const own = state.current;
    if (card.current === null || document.visibilityState !== "visible") return;
    const place = card.current.getBoundingClientRect();
    const where = `${Math.round(place.left)} ${Math.round(place.top)}`;
    if (where !== own.where) {
      own.where = where;
      own.settledAt = performance.now();
      card.current.dataset["painted"] = where;
    }
    const element = body.current;
    if (element === null) return;
    if (element.scrollHeight !== own.height || element.clientWidth !== own.width) {
      own.height = element.scrollHeight;
      own.width = element.clientWidth;
      own.seen = [];
    }
    const part = visiblePart(element);
    if (part !== null) own.seen = joined(own.seen, part);
    const first = own.seen.find(([from]) => from <= 1);
    const isSeen = own.height > 0 && element.querySelector("button.more") === null && first !== undefined && first[1] >= own.height - 2;
    const lineHeight = 20;
    const lines = first === undefined ? 0 : Math.floor(first[1] / lineHeight);
    const all = Math.max(1, Math.round(own.height / lineHeight));
    if (isSeen !== own.isSeen || (!isSeen && (lines !== own.lines || all !== own.all))) {
      Object.assign(own, { isSeen, lines, all });
      draw(0);
    }
  };

  useLayoutEffect(() => {
    Object.assign(state.current, { settledAt: Infinity, where: "", seen: [], isSeen: false, down: null });
  }, [what]);
  useEffect(() => {
    let frame = requestAnimationFrame(look);
    const timer = setInterval(look, LOOK);
    const onScroll = () => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(look);
    };
    const onShown = () => {
      state.current.where = "";
      onScroll();
    };
    addEventListener("scroll", onScroll, { capture: true, passive: true });
    document.addEventListener("visibilitychange", onShown);
    return () => {
      cancelAnimationFrame(frame);
      clearInterval(timer);
      removeEventListener("scroll", onScroll, { capture: true });
      document.removeEventListener("visibilitychange", onShown);
    };
  }, [what]);

  const isSettled = () => {
    look();
    return performance.now() - state.current.settledAt >= SETTLED;
  };
  return {
    card,
    body,
    // As it is now: a press may come before the card is drawn again.
    get isSeen() {
      return state.current.isSeen;
    },
    seenLines: state.current.lines,
    allLines: state.current.all,
    onPointerDown: (event) => {
      const target = event.target instanceof Element ? event.target.closest("button, a") : null;
      state.current.down = target === null ? null : { target, isGood: isSettled() };
    },
    counts: (event) => {
      if (!event.isTrusted || !isSettled()) return false;
      if (!(event instanceof MouseEvent) || event.detail === 0) return true; // a key, or a screen reader
      const down = state.current.down;
      state.current.down = null;
      return down !== null && down.isGood && event.target instanceof Node && down.target.contains(event.target);
    },
  };
}

/** Keeps the places in a list while a pointer or a finger is on it: nothing moves under what is about to be pressed. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const REST = 3000; // milliseconds without a move after which a pointer no longer aims

/** Returns `wanted`, or what it was when the pointer came, for as long as it is there. What the user does himself (`by`) counts at once. */
export function useSteady<T>(wanted: T, list: RefObject<HTMLElement | null>, by = ""): T {
  const [isHeld, hold] = useState(false);
  const kept = useRef(wanted);
  const done = useRef(by);
  if (!isHeld || done.current !== by) kept.current = wanted;
  done.current = by;
  useEffect(() => {
    const element = list.current;
    if (element === null) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const release = () => {
      clearTimeout(timer);
      hold(false);
    };
    const onMove = () => {
      clearTimeout(timer);
      timer = setTimeout(release, REST);
      hold(true);
    };
    const onEnd = (event: PointerEvent) => {
      // A finger is gone when it is lifted; what it pressed has been handled by then.
      if (event.pointerType !== "mouse") timer = setTimeout(release, 400);
    };
    element.addEventListener("pointermove", onMove, { passive: true });
    element.addEventListener("pointerdown", onMove, { passive: true });
    element.addEventListener("pointerleave", release);
    element.addEventListener("pointerup", onEnd);
    element.addEventListener("pointercancel", onEnd);
    return () => {
      clearTimeout(timer);
      element.removeEventListener("pointermove", onMove);
      element.removeEventListener("pointerdown", onMove);
      element.removeEventListener("pointerleave", release);
      element.removeEventListener("pointerup", onEnd);
      element.removeEventListener("pointercancel", onEnd);
    };
  }, []);
  return kept.current;
}

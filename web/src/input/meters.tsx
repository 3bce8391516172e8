/** How full the context is, and what the session cost. What is not known is left out. */
import { money } from "../frame/times";
import type { Thread } from "../model";
import { words } from "../words";

/** Return how full the context is in percent, or null. */
export function fullness(thread: Thread): number | null {
  const usage = thread.usage.value;
  return usage?.used === undefined || !usage.size ? null : Math.min(100, Math.round((100 * usage.used) / usage.size));
}

export function Meters({ thread }: { thread: Thread }) {
  const full = fullness(thread);
  const cost = thread.usage.value?.cost;
  const look = full === null || full < 80 ? "" : full < 95 ? " warm" : " hot";
  return (
    <>
      {full !== null && (
        <span class={`pick meter2${look}`} title={words.input.context(full)}>
          <svg class="ring" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="6" />
            <circle cx="8" cy="8" r="6" pathLength={100} stroke-dasharray={`${full} 100`} />
          </svg>
          <span class="vh">{words.input.context(full)}</span>
          <span class="num" aria-hidden="true">{full} %</span>
        </span>
      )}
      {cost !== undefined && <span class="pick num" title={words.input.cost}>{money(cost)}</span>}
    </>
  );
}

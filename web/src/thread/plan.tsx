/** The entries of a plan, done or not. */
import { Icon } from "../frame/icon";
import type { PlanEntry } from "../model";
import { Plain } from "../render/Plain";
import { words } from "../words";

const LOOKS = {
  completed: { icon: "done", tone: "done", look: "was" },
  in_progress: { icon: "run", tone: "run", look: "now" },
  pending: { icon: "idle", tone: "idle", look: "" },
} as const;

export function PlanList({ entries }: { entries: readonly PlanEntry[] }) {
  return (
    <ol class="plan">
      {entries.map((entry) => {
        const look = LOOKS[entry.status] ?? LOOKS.pending;
        return (
          <li class={look.look}>
            <Icon name={look.icon} tone={look.tone} label={words.thread.planStates[entry.status] ?? ""} />
            <span dir="auto">{entry.content.split(/(`[^`]+`)/).map((part, at) => (at % 2 === 1 ? <code><Plain text={part.slice(1, -1)} /></code> : <Plain text={part} />))}</span>
          </li>
        );
      })}
    </ol>
  );
}

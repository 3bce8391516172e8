/** Mode, model and the other options of a session. They are the session's: a change is seen by every client. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Option, Thread } from "../model";
import { Plain } from "../render/Plain";
import { reachOf, type Reach } from "../state/settings";
import { words } from "../words";
import { Menu } from "./menu";

export function Pickers({ thread }: { thread: Thread }) {
  const modes = thread.modes.value;
  const options = thread.options.value;
  const hasModeOption = options.some((option) => option.category === "mode");
  return (
    <>
      {modes !== null && !hasModeOption && modes.modes.length > 1 && <ModePicker thread={thread} />}
      {options.map((option) => (option.kind === "boolean" ? <Switch key={option.id} thread={thread} option={option} /> : <Select key={option.id} thread={thread} option={option} />))}
    </>
  );
}

function useBusy(): [boolean, (run: () => Promise<void>) => void] {
  const [isBusy, setBusy] = useState(false);
  const run = (work: () => Promise<void>): void => {
    setBusy(true);
    work().catch(toastFailure).finally(() => setBusy(false));
  };
  return [isBusy, run];
}

const side = (): string => (isPhone.value ? "above sheet" : "above");

function ModePicker({ thread }: { thread: Thread }) {
  const app = useApp();
  const [isBusy, run] = useBusy();
  const modes = thread.modes.value;
  if (modes === null) return null;
  const current = modes.modes.find((mode) => mode.id === modes.current);
  const reach = (id: string): Reach => reachOf(thread.reaches.value, "", id);
  return (
    <Menu
      label={words.input.mode}
      text={current?.name ?? modes.current}
      look="pick"
      side={side()}
      isAmber={reach(modes.current) === "unlimited"}
      isBusy={isBusy}
      choices={modes.modes.map((mode) => ({
        id: mode.id,
        name: mode.name,
        description: mode.description,
        isCurrent: mode.id === modes.current,
        ...warning(reach(mode.id), mode.id === modes.current),
      }))}
      onChoose={(id) => run(() => app.setMode(thread.sessionId, id))}
    />
  );
}

function Select({ thread, option }: { thread: Thread; option: Option }) {
  const app = useApp();
  const [isBusy, run] = useBusy();
  if (option.choices.length < 2) return null;
  const isMode = option.category === "mode";
  const current = option.choices.find((choice) => choice.value === option.value);
  // Of an option that is not a mode the host names only what permits everything.
  const reach = (value: string): Reach => (isMode || thread.reaches.value[option.id]?.[value] !== undefined ? reachOf(thread.reaches.value, option.id, value) : "limited");
  return (
    <Menu
      label={option.name}
      text={current?.name ?? String(option.value)}
      look="pick"
      side={side()}
      isAmber={reach(String(option.value)) === "unlimited"}
      isBusy={isBusy}
      choices={option.choices.map((choice) => ({
        id: choice.value,
        name: choice.name,
        description: choice.description,
        group: choice.group,
        isCurrent: choice.value === option.value,
        ...warning(reach(choice.value), choice.value === option.value),
      }))}
      onChoose={(value) => run(() => app.setOption(thread.sessionId, option.id, value))}
    />
  );
}

function Switch({ thread, option }: { thread: Thread; option: Option }) {
  const app = useApp();
  const [isBusy, run] = useBusy();
  const isOn = option.value === true;
  const isAmber = reachOf(thread.reaches.value, option.id, String(isOn)) === "unlimited";
  return (
    <button type="button" class={`pick switch${isAmber ? " amber" : ""}`} role="switch" aria-checked={isOn} aria-busy={isBusy} title={option.description} onClick={() => run(() => app.setOption(thread.sessionId, option.id, !isOn))}>
      <span class="cut"><Plain text={option.name} /></span>: {isOn ? words.input.on : words.input.off}
    </button>
  );
}

/** What a choice says before it is chosen: of an agent that acts without asking in it, and of one that may. */
function warning(reach: Reach, isCurrent: boolean): { warning?: string; isAmber?: boolean } {
  if (reach === "unlimited") return { warning: isCurrent ? words.input.unasked : words.input.unaskedSure, isAmber: true };
  return reach === "unknown" && !isCurrent ? { warning: words.input.unknownSure } : {};
}

/** Return the mode behind the current one that is known to ask, or null. */
export function nextMode(thread: Thread): (() => [kind: "mode" | "option", id: string, value: string]) | null {
  const option = thread.options.peek().find((found) => found.category === "mode" && found.kind === "select");
  const modes = thread.modes.peek();
  const all = option !== undefined ? option.choices.map((choice) => ({ id: choice.value })) : (modes?.modes ?? []);
  const current = option !== undefined ? option.value : modes?.current;
  const at = all.findIndex((mode) => mode.id === current);
  const next = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at))].find((mode) => reachOf(thread.reaches.peek(), option?.id ?? "", mode.id) === "limited");
  if (next === undefined || next.id === current) return null;
  return () => (option !== undefined ? ["option", option.id, next.id] : ["mode", "", next.id]);
}

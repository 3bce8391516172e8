/** Mode, model and the other options of a session. They are the session's: a change is seen by every client. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Option, Thread } from "../model";
import { words } from "../words";
import { Menu } from "./menu";
import { asksNothing } from "./reach";

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
  const warns = (mode: { id: string; name: string; description?: string } | undefined): boolean => mode !== undefined && asksNothing(mode.id, mode.name, mode.description);
  return (
    <Menu
      label={words.input.mode}
      text={current?.name ?? modes.current}
      look="pick"
      side={side()}
      isAmber={warns(current)}
      isBusy={isBusy}
      choices={modes.modes.map((mode) => ({
        id: mode.id,
        name: mode.name,
        description: mode.description,
        isCurrent: mode.id === modes.current,
        warning: warns(mode) ? (mode.id === modes.current ? words.input.unasked : words.input.unaskedSure) : undefined,
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
  const warns = (choice: Option["choices"][number] | undefined): boolean => isMode && choice !== undefined && asksNothing(choice.value, choice.name, choice.description);
  return (
    <Menu
      label={option.name}
      text={current?.name ?? String(option.value)}
      look="pick"
      side={side()}
      isAmber={warns(current)}
      isBusy={isBusy}
      choices={option.choices.map((choice) => ({
        id: choice.value,
        name: choice.name,
        description: choice.description,
        group: choice.group,
        isCurrent: choice.value === option.value,
        warning: warns(choice) ? (choice.value === option.value ? words.input.unasked : words.input.unaskedSure) : undefined,
      }))}
      onChoose={(value) => run(() => app.setOption(thread.sessionId, option.id, value))}
    />
  );
}

function Switch({ thread, option }: { thread: Thread; option: Option }) {
  const app = useApp();
  const [isBusy, run] = useBusy();
  const isOn = option.value === true;
  const isAmber = isOn && asksNothing(option.id, option.name, option.description);
  return (
    <button type="button" class={`pick${isAmber ? " amber" : ""}`} role="switch" aria-checked={isOn} aria-busy={isBusy} title={option.description} onClick={() => run(() => app.setOption(thread.sessionId, option.id, !isOn))}>
      {option.name}: {isOn ? words.input.on : words.input.off}
    </button>
  );
}

/** Return the mode behind the current one that asks, or null. */
export function nextMode(thread: Thread): (() => [kind: "mode" | "option", id: string, value: string]) | null {
  const option = thread.options.peek().find((found) => found.category === "mode" && found.kind === "select");
  const modes = thread.modes.peek();
  const all = option !== undefined ? option.choices.map((choice) => ({ id: choice.value, name: choice.name, description: choice.description })) : (modes?.modes ?? []);
  const current = option !== undefined ? option.value : modes?.current;
  const at = all.findIndex((mode) => mode.id === current);
  const next = [...all.slice(at + 1), ...all.slice(0, Math.max(0, at))].find((mode) => !asksNothing(mode.id, mode.name, mode.description));
  if (next === undefined || next.id === current) return null;
  return () => (option !== undefined ? ["option", option.id, next.id] : ["mode", "", next.id]);
}

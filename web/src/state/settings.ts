/** Modes, options and commands of a session: two views of the mode are kept in step, and the option is the newer one. */
import type { Command, Option } from "../model";
import { list, object, present, text, type Json } from "./read";

export interface Modes {
  current: string;
  modes: { id: string; name: string; description?: string }[];
}

export type Reach = "limited" | "unlimited" | "unknown";
/** By the id of an option, and its value; modes by an empty id. */
export type Reaches = Readonly<Record<string, Readonly<Record<string, Reach>>>>;

/** How far a mode or a value reaches. Of one that the host has not judged it is not known. */
export function reachOf(reaches: Reaches, option: string, value: string): Reach {
  return reaches[option]?.[value] ?? "unknown";
}

export class Settings {
  reach: Reaches = {};
  mode: string | null = null;
  modes: Modes | null = null;
  options: Option[] = [];
  commands: Command[] = [];

  /** Takes what the host says of modes and values; what it said before of others stays. */
  setReach(value: unknown): void {
    const found: Record<string, Record<string, Reach>> = { ...this.reach };
    for (const [option, values] of Object.entries(object(value))) found[option] = { ...found[option], ...(object(values) as Record<string, Reach>) };
    this.reach = found;
  }

  setModes(value: unknown): void {
    const found = object(value);
    const current = text(found["currentModeId"]);
    if (current === undefined) return;
    const modes = list(found["availableModes"]).map((one) => {
      const mode = object(one);
      const id = text(mode["id"]) ?? "";
      return present<Modes["modes"][number]>({ id, name: text(mode["name"]) ?? id, description: text(mode["description"]) });
    });
    this.modes = { current, modes };
    this.mode = current;
  }

  setOptions(value: unknown): void {
    this.options = list(value).flatMap((one) => optionOf(object(one)));
    const option = this.modeOption();
    if (option === undefined || typeof option.value !== "string") return;
    if (this.modes === null || this.modes.modes.some((mode) => mode.id === option.value)) this.#setMode(option.value);
  }

  foldMode(id: string): void {
    this.#setMode(id);
    const option = this.modeOption();
    if (option !== undefined && option.choices.some((choice) => choice.value === id)) {
      this.options = this.options.map((one) => (one === option ? { ...one, value: id } : one));
    }
  }

  foldCommands(value: unknown): void {
    this.commands = list(value).map((one) => {
      const found = object(one);
      return present<Command>({
        name: text(found["name"]) ?? "",
        description: text(found["description"]) ?? "",
        hint: text(object(found["input"])["hint"]),
      });
    });
  }

  modeOption(): Option | undefined {
    return this.options.find((option) => option.kind === "select" && option.category === "mode");
  }

  #setMode(id: string): void {
    this.mode = id;
    if (this.modes !== null) this.modes = { ...this.modes, current: id };
  }
}

function optionOf(found: Json): Option[] {
  const id = text(found["id"]);
  const value = found["currentValue"];
  if (id === undefined) return [];
  const common = {
    id,
    name: text(found["name"]) ?? id,
    category: text(found["category"]),
    description: text(found["description"]),
  };
  if (found["type"] === "boolean") {
    return [present<Option>({ ...common, kind: "boolean", value: value === true, choices: [] })];
  }
  if (found["type"] !== "select") return [];
  const choices = list(found["options"]).flatMap((one) => {
    const choice = object(one);
    const group = text(choice["name"]);
    if (Array.isArray(choice["options"])) return choice["options"].map((leaf) => choiceOf(object(leaf), group));
    return [choiceOf(choice, undefined)];
  });
  return [present<Option>({ ...common, kind: "select", value: text(value) ?? "", choices })];
}

function choiceOf(found: Json, group: string | undefined): Option["choices"][number] {
  const value = text(found["value"]) ?? "";
  return present<Option["choices"][number]>({
    value,
    name: text(found["name"]) ?? value,
    description: text(found["description"]),
    group,
  });
}

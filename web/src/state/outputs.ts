/** The output of commands, from the places in which agents and the host report it. */
import type { Output } from "../model";
import { number, object, text } from "./read";

const KEPT = 512 * 1024;

export class Outputs {
  readonly byId = new Map<string, Output>();
  readonly changed = new Set<string>();

  /** Takes what the `_meta` of an update has of a terminal. */
  fold(meta: unknown): void {
    const found = object(meta);
    const info = object(found["terminal_info"]);
    const piece = object(found["terminal_output_delta"] ?? found["terminal_output"]);
    const end = object(found["terminal_exit"]);
    const data = text(piece["data"]);
    if (typeof info["terminal_id"] === "string") {
      const cwd = text(info["cwd"]);
      this.#change(info["terminal_id"], (output) => (cwd === undefined ? output : { ...output, cwd }));
    }
    if (typeof piece["terminal_id"] === "string" && data !== undefined) {
      this.#change(piece["terminal_id"], (output) => {
        const whole = output.text + data;
        const isCut = whole.length > KEPT * 2;
        return { ...output, text: isCut ? whole.slice(-KEPT) : whole, isCut: output.isCut || isCut };
      });
    }
    if (typeof end["terminal_id"] === "string") {
      const exitCode = number(end["exit_code"]) ?? null;
      const signal = text(end["signal"]) ?? null;
      this.#change(end["terminal_id"], (output) => ({ ...output, isOver: true, exitCode, signal }));
    }
  }

  #change(id: string, step: (output: Output) => Output): void {
    const before = this.byId.get(id) ?? { terminalId: id, text: "", isCut: false, isOver: false };
    this.byId.set(id, step(before));
    this.changed.add(id);
  }
}

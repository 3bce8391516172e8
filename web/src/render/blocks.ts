/**
 * Cuts a text that grows into blocks: at blank lines outside of fences and lists.
 *
 * A finished block never changes again, so it is parsed once; only the last one is parsed while text streams. A block
 * is finished by the line behind it, so what decides about a line is what stands before it. Everything is linear in
 * the text: a line is looked at once.
 */

export interface Block {
  kind: "prose" | "code";
  text: string;
  lang: string;
  isOpen: boolean;
}

const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})\s*([^\s`]*)/;
const ITEM = /^ {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)/;
// Above this a list is cut between two of its items, and a paragraph at any line: parsing stays short.
const MOST = 8_000;

export class Cutter {
  readonly done: Block[] = [];
  #lines = "";
  #tail = "";
  #isList = false;
  #isBlank = false;
  #fence = "";
  #lang = "";
  // A fence within a list: its lines neither end the list nor begin a block.
  #inner = "";

  push(text: string): void {
    let from = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", from)) {
      const line = this.#shortened(this.#tail + text.slice(from, end));
      this.#tail = "";
      from = end + 1;
      this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
    this.#tail += text.slice(from);
    this.#tail = this.#shortened(this.#tail);
  }

  /** The block that may still grow, if it has any text. */
  get open(): Block | null {
    const text = this.#lines + this.#tail;
    if (this.#fence !== "") return { kind: "code", text, lang: this.#lang, isOpen: true };
    return text.trim() === "" ? null : { kind: "prose", text, lang: "", isOpen: true };
  }

  #line(line: string): void {
    if (this.#fence !== "") {
      if (closes(line, this.#fence)) this.#finish();
      else this.#lines += `${line}\n`;
      return;
    }
    if (this.#inner !== "") {
      if (closes(line.trimStart(), this.#inner)) this.#inner = "";
      this.#lines += `${line}\n`;
      return;
    }
    if (line.trim() === "") {
      if (this.#lines === "") return;
      if (!this.#isList) return this.#finish();
      this.#isBlank = true;
      this.#lines += "\n";
      return;
    }
    const isItem = ITEM.test(line);
    const isIndented = /^(?: {2}|\t)/.test(line);
    if (this.#isList && this.#isBlank && !isItem && !isIndented) this.#finish();
    if (this.#lines.length > MOST && (isItem || !this.#isList)) this.#finish();
    this.#isBlank = false;
    const fence = FENCE.exec(this.#isList ? line.trimStart() : line);
    if (fence !== null) {
      const mark = fence[2] ?? "";
      if (this.#isList && isIndented) this.#inner = mark;
      else {
        this.#finish();
        this.#fence = mark;
        this.#lang = (fence[3] ?? "").toLowerCase().slice(0, 24);
        return;
      }
    }
    this.#isList ||= isItem;
    this.#lines += `${line}\n`;
  }

  #finish(): void {
    const isCode = this.#fence !== "";
    const text = isCode ? this.#lines.replace(/\n$/, "") : this.#lines.trimEnd();
    if (isCode || text !== "") {
      this.done.push({ kind: isCode ? "code" : "prose", text, lang: this.#lang, isOpen: false });
    }
    this.#lines = this.#fence = this.#lang = this.#inner = "";
    this.#isList = this.#isBlank = false;
  }

  // A line without an end is cut between two words, so that no block is parsed again and again as it grows.
  #shortened(line: string): string {
    let from = 0;
    while (this.#fence === "" && line.length - from > 2 * MOST) {
      const space = line.lastIndexOf(" ", from + MOST) + 1;
      const end = space > from ? space : from + MOST;
      this.#lines += line.slice(from, end);
      this.#finish();
      from = end;
    }
    return from === 0 ? line : line.slice(from);
  }
}

function closes(line: string, fence: string): boolean {
  const found = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(line)?.[1];
  return found !== undefined && found[0] === fence[0] && found.length >= fence.length;
}

/** Return all blocks of a text that is whole. */
export function cut(text: string): Block[] {
  const cutter = new Cutter();
  cutter.push(`${text}\n`);
  const open = cutter.open;
  return open === null ? cutter.done : [...cutter.done, { ...open, text: open.text.trimEnd(), isOpen: false }];
}

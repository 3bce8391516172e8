/**
 * The thread as one flat list of cells, what the virtual list draws: a block of a message, a tool call, a notice.
 *
 * A cell is the same object as long as it is in the list, and keeps its measured height. A message that grows changes
 * the list only when it gets another block; what is in a cell is read by the component that draws it.
 */
import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Item, LiveItem, MessageItem, Part, ToolItem } from "../model";
import { Cutter, type Block } from "../render/blocks";

/** The keys of thoughts and outputs, which one press unfolds together. */
const LONG = /\/(?:thought|out)$/;

export interface Cell {
  readonly key: string;
  readonly kind: "block" | "part" | "you" | "thought" | "tool" | "note";
  readonly live: LiveItem;
  /** What is drawn: the item of `live`, or one inside of it. */
  readonly item: Item;
  readonly depth: number;
  /** Which part of the message, and which block of that part. */
  readonly part: number;
  readonly block: number;
  isFirst: boolean;
  isLast: boolean;
  /** In pixels; negative until it was measured. */
  height: number;
}

type View = { kind: "text"; blocks: readonly Block[] } | { kind: "part"; part: Part };

/** The parts of a message, text in blocks. Parsing of blocks is left to who draws them. */
class Message {
  readonly views: ReadonlySignal<readonly View[]>;
  readonly shape: ReadonlySignal<string>;
  readonly #cuts: GrowingText[] = [];

  constructor(live: LiveItem, item: MessageItem) {
    this.views = computed(() => {
      void live.revision.value;
      return item.parts.map((part, at): View => {
        if (part.kind !== "text") return { kind: "part", part };
        const cut = (this.#cuts[at] ??= new GrowingText());
        return { kind: "text", blocks: cut.take(part.text) };
      });
    });
    this.shape = computed(() => this.views.value.map((view) => (view.kind === "text" ? view.blocks.length : "p")).join());
  }
}

class GrowingText {
  #cutter = new Cutter();
  #text = "";

  take(text: string): readonly Block[] {
    // Most of the time a text only grows: its old end is looked at, not all of it.
    const end = this.#text.length;
    const isLonger = text.length >= end && text.startsWith(this.#text.slice(0, 64));
    if (!isLonger || text.slice(Math.max(0, end - 64), end) !== this.#text.slice(-64)) {
      this.#cutter = new Cutter();
      this.#text = "";
    }
    this.#cutter.push(text.slice(this.#text.length));
    this.#text = text;
    const open = this.#cutter.open;
    return open === null ? this.#cutter.done.slice() : [...this.#cutter.done, open];
  }
}

export class Cells {
  readonly list: ReadonlySignal<readonly Cell[]>;
  readonly #messages = new WeakMap<Item, Message>();
  readonly #perItem = new WeakMap<LiveItem, ReadonlySignal<readonly Cell[]>>();
  readonly #cells = new WeakMap<Item, Map<string, Cell>>();
  readonly #open = new Map<string, Signal<boolean>>();
  #areAllOpen: boolean | null = null;

  constructor(items: ReadonlySignal<readonly LiveItem[]>) {
    this.list = computed(() => {
      const all: Cell[] = [];
      for (const live of items.value) for (const cell of this.#of(live).value) all.push(cell);
      return all;
    });
  }

  /** The block or part that a cell shows, drawn again only if that one changed. */
  view(cell: Cell): Block | Part | undefined {
    const view = this.#message(cell.live, cell.item as MessageItem).views.value[cell.part];
    if (view === undefined) return undefined;
    return view.kind === "text" ? view.blocks[cell.block] : view.part;
  }

  /** Whether an item is unfolded; what the page thought first holds until the user presses. */
  isOpen(key: string, first: () => boolean): Signal<boolean> {
    let found = this.#open.get(key);
    if (found === undefined) {
      found = signal(LONG.test(key) ? (this.#areAllOpen ?? first()) : first());
      this.#open.set(key, found);
    }
    return found;
  }

  /** Unfolds thoughts and outputs, also those that are not drawn yet; folds them if all are open. */
  toggleAll(): void {
    const all = [...this.#open].filter(([key]) => LONG.test(key)).map(([, open]) => open);
    const areOpen = !all.every((open) => open.peek());
    this.#areAllOpen = areOpen;
    batch(() => {
      for (const open of all) open.value = areOpen;
    });
  }

  #of(live: LiveItem): ReadonlySignal<readonly Cell[]> {
    let cells = this.#perItem.get(live);
    if (cells === undefined) {
      cells = computed(() => this.#make(live, live.item, 0));
      this.#perItem.set(live, cells);
    }
    return cells;
  }

  #make(live: LiveItem, item: Item, depth: number): readonly Cell[] {
    if (item.kind === "message") return this.#messageCells(live, item, depth + (item.parent === undefined ? 0 : 1));
    const own = this.#cell(live, item, item.kind === "tool" ? "tool" : "note", depth);
    if (item.kind === "tool") {
      void live.revision.value;
      if (item.children.length === 0) return [own];
      const isOpen = this.isOpen(`${item.key}/in`, () => isRunning(item)).value;
      return isOpen ? [own, ...item.children.flatMap((child) => this.#make(live, child, depth + 1))] : [own];
    }
    if (item.kind === "subagent") {
      void live.revision.value;
      const isOpen = this.isOpen(`${item.key}/in`, () => item.state === "running").value;
      return isOpen ? [own, ...item.children.flatMap((child) => this.#make(live, child, depth + 1))] : [own];
    }
    return [own];
  }

  #messageCells(live: LiveItem, item: MessageItem, depth: number): readonly Cell[] {
    if (item.role !== "agent") return [this.#cell(live, item, item.role === "user" ? "you" : "thought", depth)];
    const shape = this.#message(live, item).shape.value;
    const made: Cell[] = [];
    shape.split(",").forEach((count, part) => {
      if (count === "p") made.push(this.#cell(live, item, "part", depth, part));
      else for (let block = 0; block < Number(count); block++) made.push(this.#cell(live, item, "block", depth, part, block));
    });
    made.forEach((cell, at) => {
      cell.isFirst = at === 0;
      cell.isLast = at === made.length - 1;
    });
    return made;
  }

  #message(live: LiveItem, item: MessageItem): Message {
    let found = this.#messages.get(item);
    if (found === undefined) {
      found = new Message(live, item);
      this.#messages.set(item, found);
    }
    return found;
  }

  #cell(live: LiveItem, item: Item, kind: Cell["kind"], depth: number, part = 0, block = 0): Cell {
    let known = this.#cells.get(item);
    if (known === undefined) {
      known = new Map();
      this.#cells.set(item, known);
    }
    const name = `${part}.${block}`;
    let cell = known.get(name);
    if (cell === undefined || cell.depth !== depth || cell.live !== live || cell.kind !== kind) {
      cell = { key: `${item.key}.${name}`, kind, live, item, depth, part, block, isFirst: true, isLast: true, height: -1 };
      known.set(name, cell);
    }
    return cell;
  }
}

export function isRunning(item: ToolItem): boolean {
  return item.status === "pending" || item.status === "in_progress";
}

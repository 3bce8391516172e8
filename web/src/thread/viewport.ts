/**
 * What of a long list is in the document, and where it stands.
 *
 * Rows are in normal flow between two spaces as high as what is left out. One row is the anchor: the first that
 * reaches into view. Whatever changes above or below it (history in front, heights that were guessed, pictures,
 * folding), the anchor is put back to its pixel before the frame is painted. Near the end the end itself is kept.
 */
import { signal, type ReadonlySignal } from "@preact/signals";
import type { Cell } from "./cells";

/** In the document at most; the design's limit is 150. */
const MOST = 120;
const NEAR_END = 32;
const AHEAD = 900;
const GUESSES: Record<Cell["kind"], number> = { block: 56, part: 200, you: 96, thought: 28, tool: 44, note: 36 };

export interface Range {
  from: number;
  to: number;
  above: number;
  below: number;
}

export class Viewport {
  /** Grows when other rows have to be drawn. */
  readonly version = signal(0);
  readonly #isAtEnd = signal(true);
  readonly isAtEnd: ReadonlySignal<boolean> = this.#isAtEnd;
  /** Called when the first rows come near. */
  onTop: () => void = () => undefined;

  #scroller: HTMLElement | null = null;
  #rows = new Map<Cell, HTMLElement>();
  #byElement = new WeakMap<Element, Cell>();
  #cells: readonly Cell[] = [];
  #range: Range = { from: 0, to: 0, above: 0, below: 0 };
  #anchor: { cell: Cell; offset: number } | null = null;
  #isTouched = false;
  #lastTop = 0;
  readonly #observer = new ResizeObserver((entries) => this.#onResize(entries));

  /** Return which cells to draw. Called while drawing, so it reads no layout. */
  range(cells: readonly Cell[]): Range {
    void this.version.value;
    this.#cells = cells;
    const height = this.#scroller?.clientHeight ?? 800;
    if (cells.length === 0) return (this.#range = { from: 0, to: 0, above: 0, below: 0 });
    let from = cells.length - 1;
    let to = cells.length;
    const anchored = this.#isAtEnd.peek() || this.#anchor === null ? -1 : cells.indexOf(this.#anchor.cell);
    if (anchored >= 0) {
      from = anchored;
      to = anchored + 1;
      let below = (this.#anchor?.offset ?? 0) + heightOf(cells[anchored]);
      while (to < cells.length && below < height + AHEAD && to - anchored < MOST / 2) below += heightOf(cells[to++]);
    }
    let above = anchored >= 0 ? -(this.#anchor?.offset ?? 0) : 0;
    const wanted = anchored >= 0 ? AHEAD : height + AHEAD;
    while (from > 0 && above < wanted && to - from < MOST) above += heightOf(cells[--from]);
    return (this.#range = { from, to, above: sum(cells, 0, from), below: sum(cells, to, cells.length) });
  }

  connect(scroller: HTMLElement): () => void {
    this.#scroller = scroller;
    const onScroll = (): void => this.#onScroll();
    const onTouch = (event: TouchEvent): void => {
      this.#isTouched = event.touches.length > 0;
      if (!this.#isTouched) this.settle();
    };
    scroller.addEventListener("scroll", onScroll, { passive: true });
    for (const name of ["touchstart", "touchend", "touchcancel"] as const) scroller.addEventListener(name, onTouch, { passive: true });
    this.#observer.observe(scroller);
    return () => {
      scroller.removeEventListener("scroll", onScroll);
      for (const name of ["touchstart", "touchend", "touchcancel"] as const) scroller.removeEventListener(name, onTouch);
      this.#observer.disconnect();
      this.#scroller = null;
    };
  }

  add(cell: Cell, element: HTMLElement): () => void {
    this.#rows.set(cell, element);
    this.#byElement.set(element, cell);
    this.#observer.observe(element);
    return () => {
      if (this.#rows.get(cell) === element) this.#rows.delete(cell);
      this.#observer.unobserve(element);
    };
  }

  /** Put the view back where it was, after anything was drawn and before it is painted. */
  settle(): void {
    const scroller = this.#scroller;
    if (scroller === null) return;
    if (this.#isAtEnd.peek()) {
      // Nothing scrolls under a finger; the end is caught up with when it is lifted.
      if (!this.#isTouched) scroller.scrollTop = scroller.scrollHeight;
    } else if (this.#anchor !== null) {
      const row = this.#rows.get(this.#anchor.cell);
      if (row !== undefined) {
        const moved = row.getBoundingClientRect().top - scroller.getBoundingClientRect().top - this.#anchor.offset;
        if (Math.abs(moved) >= 0.5) scroller.scrollTop += moved;
      }
    }
    this.#lastTop = scroller.scrollTop;
    if (scroller.scrollHeight - scroller.clientHeight - this.#lastTop <= NEAR_END) this.#isAtEnd.value = true;
    this.#look();
  }

  toEnd(): void {
    this.#isAtEnd.value = true;
    this.#anchor = null;
    this.version.value++;
    queueMicrotask(() => this.settle());
  }

  /** Show a cell below the top edge. */
  show(cell: Cell): void {
    this.#isAtEnd.value = false;
    this.#anchor = { cell, offset: 24 };
    this.version.value++;
  }

  /** Keep what was pressed at its pixel while it is folded, wherever the view was. */
  hold(element: Element): void {
    const row = element.closest("[data-row]");
    const cell = row === null ? undefined : this.#byElement.get(row);
    if (row === null || cell === undefined || this.#scroller === null) return;
    this.#anchor = { cell, offset: row.getBoundingClientRect().top - this.#scroller.getBoundingClientRect().top };
    this.#isAtEnd.value = false;
  }

  #onScroll(): void {
    const scroller = this.#scroller;
    if (scroller === null) return;
    const top = scroller.scrollTop;
    const left = scroller.scrollHeight - scroller.clientHeight - top;
    // Only a move upward leaves the end: text that came in between is not one.
    if (left <= NEAR_END) this.#isAtEnd.value = true;
    else if (top < this.#lastTop - 1) this.#isAtEnd.value = false;
    this.#lastTop = top;
    if (!this.#isAtEnd.peek()) this.#pickAnchor(scroller);
    this.#look();
  }

  #pickAnchor(scroller: HTMLElement): void {
    const edge = scroller.getBoundingClientRect().top;
    let best: { cell: Cell; offset: number } | null = null;
    for (const [cell, row] of this.#rows) {
      const box = row.getBoundingClientRect();
      if (box.bottom <= edge + 1 || (best !== null && box.top - edge >= best.offset)) continue;
      best = { cell, offset: box.top - edge };
    }
    if (best !== null && best.offset < scroller.clientHeight) {
      this.#anchor = best;
      return;
    }
    // Far from everything that is drawn (a drag of the scroll bar): the heights say what should be here.
    let above = 0;
    for (const cell of this.#cells) {
      const height = heightOf(cell);
      if (above + height > scroller.scrollTop) {
        this.#anchor = { cell, offset: above - scroller.scrollTop };
        return;
      }
      above += height;
    }
  }

  // Draw other rows if what is drawn does not reach beyond the edges any more.
  #look(): void {
    const scroller = this.#scroller;
    if (scroller === null) return;
    const before = this.#range;
    const next = this.range(this.#cells);
    const isNear = next.from === 0 && scroller.scrollTop < scroller.clientHeight;
    if (next.from !== before.from || next.to !== before.to) {
      this.#range = before;
      const slack = Math.abs(next.from - before.from) + Math.abs(next.to - before.to);
      const hasGap = next.from < before.from || next.to > before.to;
      if (hasGap || slack > 20) this.version.value++;
    }
    if (isNear) this.onTop();
  }

  #onResize(entries: ResizeObserverEntry[]): void {
    for (const entry of entries) {
      const cell = this.#byElement.get(entry.target);
      if (cell !== undefined) cell.height = entry.borderBoxSize[0]?.blockSize ?? entry.contentRect.height;
    }
    this.settle();
  }
}

function heightOf(cell: Cell | undefined): number {
  return cell === undefined ? 0 : cell.height < 0 ? GUESSES[cell.kind] : cell.height;
}

function sum(cells: readonly Cell[], from: number, to: number): number {
  let height = 0;
  for (let at = from; at < to; at++) height += heightOf(cells[at]);
  return height;
}

/** The thread: rows of the cells that are in view, and the button that goes back to the end. */
import { useComputed } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { words } from "../words";
import type { Cell } from "./cells";
import { useTalk } from "./context";
import { BlockRow, PartRow, Thought, You } from "./message";
import { Note } from "./notes";
import { Tool } from "./tool";

export function ThreadList({ aim, children }: { aim: Cell | null; children: ComponentChildren }) {
  const app = useApp();
  const { sessionId, thread, cells, viewport } = useTalk();
  const scroller = useRef<HTMLDivElement>(null);
  const above = useRef<HTMLDivElement>(null);
  const below = useRef<HTMLDivElement>(null);
  const list = cells.list.value;
  const range = viewport.range(list);
  useLayoutEffect(() => (scroller.current === null ? undefined : viewport.connect(scroller.current)), []);
  viewport.onTop = () => {
    if (thread.hasOlder.peek() && !thread.isLoading.peek()) void app.older(sessionId).catch(() => undefined);
  };
  useLayoutEffect(() => {
    // No style attribute under the page's policy: heights are set by script.
    if (above.current !== null) above.current.style.blockSize = `${range.above}px`;
    if (below.current !== null) below.current.style.blockSize = `${range.below}px`;
    viewport.settle();
  });
  return (
    <div class="around">
      <div class="thread" ref={scroller} role="log" aria-live="off" aria-label={words.thread.conversation} tabIndex={0}>
        <div class="col">
          <h2 class="vh">{words.thread.conversation}</h2>
          <div ref={above} />
          {list.slice(range.from, range.to).map((cell) => <Row key={cell.key} cell={cell} isAimed={cell === aim} />)}
          <div ref={below} />
          {children}
        </div>
      </div>
      <ToEnd />
    </div>
  );
}

function Row({ cell, isAimed }: { cell: Cell; isAimed: boolean }) {
  const { viewport } = useTalk();
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => (element.current === null ? undefined : viewport.add(cell, element.current)), [cell]);
  const look = `cell${cell.depth > 0 ? ` in${Math.min(cell.depth, 4)}` : ""}${isAimed ? " aimed" : ""}${cell.isFirst ? " begins" : ""}`;
  return (
    <div class={look} data-row={cell.live.item.seq} ref={element}>
      <Safe cell={cell}><Content cell={cell} /></Safe>
    </div>
  );
}

function Content({ cell }: { cell: Cell }) {
  const { cells } = useTalk();
  const view = useComputed(() => (cell.kind === "block" || cell.kind === "part" ? cells.view(cell) : undefined)).value;
  switch (cell.kind) {
    case "block":
      return view !== undefined && "lang" in view ? <BlockRow block={view} cell={cell} /> : null;
    case "part":
      return view !== undefined && !("lang" in view) ? <PartRow part={view} /> : null;
    case "you":
      return <You cell={cell} />;
    case "thought":
      return <Thought cell={cell} />;
    case "tool":
      return <Tool cell={cell} />;
    default:
      return <Note cell={cell} />;
  }
}

/** A row that cannot be drawn is shown as the text that it has; the others stay. */
class Safe extends Component<{ cell: Cell; children: ComponentChildren }, { isBroken: boolean }> {
  override state = { isBroken: false };

  override componentDidCatch(): void {
    this.setState({ isBroken: true });
  }

  render() {
    return this.state.isBroken ? <pre class="raw">{JSON.stringify(this.props.cell.item, null, 1).slice(0, 20_000)}</pre> : this.props.children;
  }
}

function ToEnd() {
  const { thread, viewport } = useTalk();
  const isAtEnd = viewport.isAtEnd.value;
  const [last, setLast] = useState<string | null>(null);
  useEffect(() => setLast(isAtEnd ? null : (thread.items.peek().at(-1)?.item.key ?? null)), [isAtEnd]);
  if (isAtEnd) return null;
  const items = thread.items.value;
  const at = last === null ? -1 : items.findLastIndex((live) => live.item.key === last);
  const count = at < 0 ? 0 : items.length - 1 - at;
  return (
    <button type="button" class="btn toend" onClick={() => viewport.toEnd()}>
      <Icon name="down" />
      {count === 0 ? words.thread.toEnd : words.thread.fresh(count)}
    </button>
  );
}

/** Messages: the user's own, the agent's in blocks, and thoughts, which are folded. */
import { Icon } from "../frame/icon";
import { pathOf } from "../frame/router";
import { toast } from "../frame/toasts";
import type { MessageItem, Part } from "../model";
import { cut, type Block } from "../render/blocks";
import { Code } from "../render/Code";
import { copy } from "../render/copy";
import { Plain } from "../render/Plain";
import { Prose } from "../render/Prose";
import { words } from "../words";
import type { Cell } from "./cells";
import { useFold, useTalk } from "./context";
import { PartView } from "./parts";
import { spell } from "./spans";

export function textOf(item: MessageItem): string {
  return item.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}

export function BlockRow({ block, cell }: { block: Block; cell: Cell }) {
  return (
    <>
      <BlockView block={block} />
      {cell.isLast && <Acts text={() => textOf(cell.item as MessageItem)} seq={cell.item.seq} />}
    </>
  );
}

export function BlockView({ block }: { block: Block }) {
  return block.kind === "code" ? <Code text={block.text} lang={block.lang} isOpen={block.isOpen} /> : <Prose text={block.text} isOpen={block.isOpen} />;
}

export function PartRow({ part }: { part: Part }) {
  return <PartView part={part} />;
}

/** Copy, and a link to this place: seen where the pointer or the focus is. */
export function Acts({ text, seq }: { text: () => string; seq: number }) {
  const { sessionId } = useTalk();
  const copied = (isDone: boolean): void => toast(isDone ? words.thread.copied : words.thread.notCopied);
  const address = (): string => `${location.origin}${location.pathname}#${pathOf(sessionId, String(seq))}`;
  return (
    <div class="acts2">
      <button type="button" class="btn quiet icon" aria-label={words.thread.copyMessage} onClick={() => void copy(text()).then(copied)}><Icon name="copy" /></button>
      {seq > 0 && <button type="button" class="btn quiet icon" aria-label={words.thread.copyLink} onClick={() => void copy(address()).then(copied)}><Icon name="clip" /></button>}
    </div>
  );
}

export function You({ cell }: { cell: Cell }) {
  void cell.live.revision.value;
  const item = cell.item as MessageItem;
  const [isOpen, press] = useFold(`${item.key}/long`, () => false);
  const text = textOf(item);
  const isLong = text.length > 4_000 || text.split("\n").length > 40;
  const shown = isLong && !isOpen ? text.slice(0, 2_000).split("\n").slice(0, 20).join("\n") : text;
  return (
    <div class="you">
      <span class="vh">{words.thread.youSaid} </span>
      <div class="own" dir="auto"><Plain text={shown} /></div>
      {isLong && <button type="button" class="btn quiet more" aria-expanded={isOpen} onClick={press}>{isOpen ? words.thread.less : words.thread.all}</button>}
      {item.parts.filter((part) => part.kind !== "text").map((part) => <PartView part={part} />)}
      <Acts text={() => text} seq={item.seq} />
    </div>
  );
}

export function Thought({ cell }: { cell: Cell }) {
  void cell.live.revision.value;
  const item = cell.item as MessageItem;
  const { thread } = useTalk();
  const [isOpen, press] = useFold(`${item.key}/thought`, () => false);
  const isLast = thread.items.value.at(-1)?.item === item && thread.turn.value !== null;
  const seconds = item.at !== undefined && item.endedAt !== undefined ? (item.endedAt - item.at) / 1_000 : undefined;
  const label = isLast ? words.thread.thinking : seconds === undefined || seconds < 1 ? words.thread.thought : words.thread.thoughtFor(spell(seconds));
  return (
    <>
      <button type="button" class="fold" aria-expanded={isOpen} data-fold="thought" onClick={press}>
        <Icon name={isOpen ? "down" : "right"} /><Icon name="thought" />{label}
      </button>
      {isOpen && <div class="thoughts" dir="auto">{cut(textOf(item)).map((block) => <BlockView block={block} />)}</div>}
    </>
  );
}

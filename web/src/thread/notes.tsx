/** Rows that are neither messages nor tool calls: notices, ends of turns, failures, plans, subagents. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { toast, toastFailure } from "../frame/toasts";
import type { Item, MessageItem, Part, TurnEndItem } from "../model";
import { cut } from "../render/blocks";
import { Plain } from "../render/Plain";
import { words } from "../words";
import type { Cell } from "./cells";
import { useFold, useTalk } from "./context";
import { Acts, BlockView, textOf } from "./message";
import { PlanList } from "./plan";
import { PartView } from "./parts";
import { spell } from "./spans";

export function Note({ cell }: { cell: Cell }) {
  void cell.live.revision.value;
  const item = cell.item;
  switch (item.kind) {
    case "notice":
      return <Notice text={item.text} level={item.level} />;
    case "turn":
      return <TurnEnd item={item} />;
    case "plan":
      return <PlanNote item={item} />;
    case "compaction":
      return <Compaction item={item} />;
    case "subagent":
      return <Subagent item={item} />;
    case "between":
      return (
        <section class="between" aria-label={words.thread.between}>
          <p class="xs faint"><Plain text={words.thread.fromTo(item.sender ?? "", item.recipient ?? "")} /></p>
          <Parts parts={item.parts} />
        </section>
      );
    case "unknown":
      return <Unknown update={item.update} itemKey={item.key} />;
    default:
      return null;
  }
}

function Notice({ text, level }: { text: string; level: "info" | "warning" | "error" }) {
  const icon = level === "info" ? "bell" : level === "warning" ? "alert" : "fail";
  return (
    <p class={`notice ${level}`} dir="auto">
      <Icon name={icon} {...(level === "error" ? { tone: "fail" } : level === "warning" ? { tone: "need" } : {})} label={words.thread.levels[level]} />
      <span><Plain text={text} /></span>
    </p>
  );
}

// A turn that ended by itself is a faint line; anything else says what happened.
function TurnEnd({ item }: { item: TurnEndItem }) {
  const { thread } = useTalk();
  const items = thread.items.value;
  if (item.error !== undefined) return <Fault text={item.error} isLast={items.at(-1)?.item === item} />;
  const said = words.thread.ends[item.stopReason];
  const took = item.seconds === undefined ? "" : spell(item.seconds);
  if (said === undefined && took === "") return null;
  return (
    <div class="turnend xs faint">
      {said !== undefined && <span class={item.stopReason === "end_turn" ? "vh" : ""}>{said}</span>}
      <span class="num">{took}</span>
      <Acts text={() => answerBefore(items.map((live) => live.item), item)} seq={item.seq} />
    </div>
  );
}

function answerBefore(items: readonly Item[], end: TurnEndItem): string {
  const texts: string[] = [];
  for (let at = items.indexOf(end) - 1; at >= 0; at--) {
    const item = items[at];
    if (item?.kind === "message" && item.role === "user") break;
    if (item?.kind === "message" && item.role === "agent") texts.unshift(textOf(item as MessageItem));
  }
  return texts.join("\n\n");
}

/** A card with the cause of a failure and what can be done. */
export function Fault({ text, isLast }: { text: string; isLast: boolean }) {
  const app = useApp();
  const { sessionId, agent } = useTalk();
  const [isBusy, setBusy] = useState(false);
  const host = app.host.value;
  const restart = (): void => {
    setBusy(true);
    app.restartAgent(sessionId)
      .then(() => toast(words.thread.restarted(agent)), toastFailure)
      .finally(() => setBusy(false));
  };
  const [cause = "", ...rest] = text.split("\n");
  const canRestart = isLast && host !== null && host.methods.includes("_dragoman/restart_agent") && host.rights.includes("prompt");
  return (
    <div role="group" class="fault" aria-label={words.thread.faultOf(agent)}>
      <Icon name="fail" tone="fail" />
      <div class="grow">
        <b class="strong">{words.thread.faultOf(agent)}</b>
        <p class="s soft" dir="auto"><Plain text={cause} /></p>
        {rest.length > 0 && <pre class="out tailx" tabIndex={0} role="region" aria-label={words.thread.lastLines}><Plain text={rest.slice(-12).join("\n")} /></pre>}
        {isLast && (
          <div class="row wrap">
            {canRestart && <button type="button" class="btn solid" aria-disabled={isBusy} onClick={() => isBusy || restart()}>{words.thread.restart}</button>}
            <a class="btn" href="#/new">{words.thread.otherAgent}</a>
          </div>
        )}
      </div>
    </div>
  );
}

function PlanNote({ item }: { item: Extract<Item, { kind: "plan" }> }) {
  const [isOpen, press] = useFold(item.key, () => false);
  const { thread } = useTalk();
  const done = item.entries.filter((entry) => entry.status === "completed").length;
  // The current plan is in the panel; an earlier one stays where it was made.
  const isCurrent = item.entries.length > 0 && thread.items.value.findLast((live) => live.item.kind === "plan")?.item === item;
  if (isCurrent) return null;
  return (
    <>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={press}>
        <Icon name={isOpen ? "down" : "right"} /><Icon name="plan" />
        {item.isRemoved ? words.thread.planGone : item.entries.length > 0 ? words.thread.planOf(done, item.entries.length) : words.thread.plan}
      </button>
      {isOpen && item.entries.length > 0 && <PlanList entries={item.entries} />}
      {isOpen && item.text !== undefined && cut(item.text).map((block) => <BlockView block={block} />)}
      {isOpen && item.uri !== undefined && <p class="s faint"><Plain text={item.uri} care="exact" /></p>}
    </>
  );
}

function Compaction({ item }: { item: Extract<Item, { kind: "compaction" }> }) {
  const [isOpen, press] = useFold(item.key, () => false);
  const said = item.error !== undefined ? words.thread.notCompacted : (words.thread.compactions[item.status] ?? words.thread.compacted);
  return (
    <>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={press}>
        <Icon name={isOpen ? "down" : "right"} /><Icon name="pause" />{said}
      </button>
      {isOpen && <div class="thoughts">{item.error !== undefined && <p><Plain text={item.error} /></p>}<Parts parts={item.parts} /></div>}
    </>
  );
}

function Subagent({ item }: { item: Extract<Item, { kind: "subagent" }> }) {
  const [isOpen, press] = useFold(`${item.key}/in`, () => item.state === "running");
  return (
    <button type="button" class="fold sub" aria-expanded={isOpen} onClick={press}>
      <Icon name={isOpen ? "down" : "right"} /><Icon name="branch" />
      <span class="cut" dir="auto"><Plain text={item.title ?? item.description ?? words.thread.subagent} /></span>
      <span class="faint">{item.state ?? ""} · {words.thread.steps(item.children.length)}</span>
    </button>
  );
}

function Parts({ parts }: { parts: readonly Part[] }) {
  return <>{parts.map((part) => (part.kind === "text" ? cut(part.text).map((block) => <BlockView block={block} />) : <PartView part={part} />))}</>;
}

function Unknown({ update, itemKey }: { update: unknown; itemKey: string }) {
  const [isOpen, press] = useFold(itemKey, () => false);
  const name = typeof update === "object" && update !== null && "sessionUpdate" in update ? String((update as { sessionUpdate: unknown }).sessionUpdate) : "";
  return (
    <>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={press}>
        <Icon name={isOpen ? "down" : "right"} />{words.thread.unknownUpdate} <code><Plain text={name} care="exact" /></code>
      </button>
      {isOpen && <pre class="raw" tabIndex={0} role="region" aria-label={words.thread.unknownUpdate}><Plain text={JSON.stringify(update, null, 1).slice(0, 20_000)} care="exact" /></pre>}
    </>
  );
}

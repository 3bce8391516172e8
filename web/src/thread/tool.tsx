/** A tool call: flat if it only looks (read, search, think, fetch), with a body if it changes something or runs. */
import { useMemo } from "preact/hooks";
import { Icon } from "../frame/icon";
import type { ToolItem, ToolPart } from "../model";
import { cut } from "../render/blocks";
import { DiffView, useDiff } from "../render/DiffView";
import type { Diff } from "../render/diff";
import { Plain } from "../render/Plain";
import { plain } from "../render/visible";
import { words } from "../words";
import { isRunning, type Cell } from "./cells";
import { useFold, useTalk } from "./context";
import { BlockView } from "./message";
import { LiveOutput, OutputText } from "./output";
import { PartView } from "./parts";
import { spell, useSeconds } from "./spans";

const ICONS: Record<string, string> = {
  read: "eye",
  search: "search",
  edit: "pencil",
  delete: "x",
  move: "right",
  execute: "terminal",
  think: "thought",
  fetch: "globe",
  switch_mode: "sliders",
};
const FLAT = new Set(["read", "search", "think", "fetch"]);
type DiffPart = Extract<ToolPart, { kind: "diff" }>;

export function Tool({ cell }: { cell: Cell }) {
  void cell.live.revision.value;
  const item = cell.item as ToolItem;
  const diffs = item.content.filter((part): part is DiffPart => part.kind === "diff");
  const isFlat = FLAT.has(item.toolKind) && diffs.length === 0;
  const hasBody = item.content.length > 0 || item.toolKind === "execute" || (item.toolKind === "other" && item.rawInput !== undefined);
  // What changes something or runs is open; what was only looked at is not. A history of many calls is not unfolded.
  const key = item.toolKind === "execute" ? `${item.key}/out` : item.key;
  const [isOpen, press] = useFold(key, () => !isFlat && (item.toolKind === "execute" || diffs.length > 0));
  const [isInside, pressInside] = useFold(`${item.key}/in`, () => isRunning(item));
  return (
    <section class={`tool ${isFlat ? "flat" : ""}`} aria-label={plain(item.title) || words.thread.toolCall} data-status={item.status}>
      <header>
        <Icon name={ICONS[item.toolKind] ?? "sliders"} />
        {hasBody ? (
          <button type="button" class="head" aria-expanded={isOpen} onClick={press}><Title item={item} diffs={diffs} /></button>
        ) : (
          <span class="head"><Title item={item} diffs={diffs} /></span>
        )}
        <span class="end">
          {item.children.length > 0 && (
            <button type="button" class="btn quiet calls" aria-expanded={isInside} onClick={pressInside}>
              <Icon name={isInside ? "down" : "right"} />{words.thread.calls(item.children.length)}
            </button>
          )}
          <Facts item={item} diffs={diffs} />
          <State item={item} />
        </span>
      </header>
      {isOpen && hasBody && <Body item={item} diffs={diffs} />}
    </section>
  );
}

function nameOf(path: string): { name: string; folder: string } {
  const at = Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"));
  return { name: path.slice(at + 1) || path, folder: at > 0 ? path.slice(0, at) : "" };
}

function commandOf(item: ToolItem): string {
  const input = item.rawInput;
  const command = typeof input === "object" && input !== null && "command" in input ? (input as { command: unknown }).command : undefined;
  if (typeof command === "string" && command !== "") return command;
  if (Array.isArray(command) && command.every((word) => typeof word === "string")) return command.join(" ");
  return item.title.replace(/^`([^`]+)`$/, "$1");
}

function Title({ item, diffs }: { item: ToolItem; diffs: DiffPart[] }) {
  const [first] = diffs;
  if (item.toolKind === "execute") return <code class="cut" dir="ltr"><Plain text={commandOf(item).split("\n", 1)[0] ?? ""} care="exact" /></code>;
  if (first !== undefined && diffs.length === 1) {
    const { name, folder } = nameOf(first.path);
    return <><span class="strong cut" dir="ltr"><Plain text={name} care="exact" /></span><span class="faint cut" dir="ltr"><Plain text={folder} care="exact" /></span></>;
  }
  const [place] = item.locations;
  const title = item.title || words.thread.kinds[item.toolKind] || words.thread.toolCall;
  const isNamed = place === undefined || title.includes(nameOf(place.path).name);
  return (
    <>
      <span class="cut" dir="auto"><Titled text={title} /></span>
      {!isNamed && <span class="faint cut where" dir="ltr"><Plain text={nameOf(place.path).name} care="exact" /></span>}
    </>
  );
}

// Titles of agents have names in backticks.
function Titled({ text }: { text: string }) {
  return <>{text.split(/(`[^`]+`)/).map((part, at) => (at % 2 === 1 ? <code><Plain text={part.slice(1, -1)} care="exact" /></code> : <Plain text={part} />))}</>;
}

/** Of the name of a signal, which an agent gives: there are none as long as this. */
const LONGEST_SIGNAL = 12;

function Facts({ item, diffs }: { item: ToolItem; diffs: DiffPart[] }) {
  const { thread } = useTalk();
  const running = isRunning(item);
  const terminal = item.content.find((part) => part.kind === "terminal");
  const output = terminal?.kind === "terminal" ? thread.outputs(terminal.terminalId).value : undefined;
  const seconds = useSeconds(item.at, running);
  const took = running ? (seconds >= 2 ? seconds : undefined) : (item.seconds ?? (item.at !== undefined && item.endedAt !== undefined ? (item.endedAt - item.at) / 1_000 : undefined));
  const code = output?.isOver ? (output.signal ? output.signal.slice(0, LONGEST_SIGNAL) : output.exitCode != null ? words.thread.exit(output.exitCode) : "") : "";
  const time = took !== undefined && (running || item.toolKind === "execute" || took >= 2) && took >= 0.1 ? spell(running ? Math.floor(took) : took) : "";
  const shown = [code, time].filter(Boolean).join(" · ");
  return (
    <>
      {diffs.length > 0 && <Counts diffs={diffs} />}
      {shown !== "" && <span class="num">{shown}</span>}
    </>
  );
}

function Counts({ diffs }: { diffs: DiffPart[] }) {
  const first = diffs[0];
  const one = useDiff(first?.oldText ?? null, first?.newText ?? "");
  if (diffs.length > 1) return <span>{words.thread.files(diffs.length)}</span>;
  return <LineCounts added={one.added} removed={one.removed} />;
}

export function LineCounts({ added, removed }: { added: number; removed: number }) {
  return (
    <span class="num">
      {added > 0 && <span class="plus"><span class="vh">{words.thread.added} </span>+{added}</span>}
      {added > 0 && removed > 0 && " "}
      {removed > 0 && <span class="minus"><span class="vh">{words.thread.removed} </span>−{removed}</span>}
    </span>
  );
}

const STATES: Record<ToolItem["status"], { icon: string; tone: string }> = {
  pending: { icon: "idle", tone: "idle" },
  in_progress: { icon: "run", tone: "run" },
  completed: { icon: "done", tone: "done" },
  failed: { icon: "fail", tone: "fail" },
  cancelled: { icon: "x", tone: "idle" },
};

function State({ item }: { item: ToolItem }) {
  const state = STATES[item.status] ?? STATES.pending;
  if (item.status === "completed" && FLAT.has(item.toolKind)) return <span class="vh">{words.thread.states.completed}</span>;
  return <Icon name={state.icon} tone={state.tone} label={words.thread.states[item.status] ?? item.status} />;
}

function Body({ item, diffs }: { item: ToolItem; diffs: DiffPart[] }) {
  const { thread } = useTalk();
  const command = item.toolKind === "execute" ? commandOf(item) : "";
  return (
    <div class="inner">
      {command.includes("\n") && <code class="cmd" dir="ltr"><Plain text={command} care="exact" /></code>}
      {item.content.map((part) => {
        if (part.kind === "diff") return <OneDiff part={part} item={item} isAlone={diffs.length === 1} />;
        if (part.kind === "terminal") return <LiveOutput source={thread.outputs(part.terminalId)} name={plain(command || item.title)} />;
        return <ToolContent part={part.part} item={item} name={plain(command || item.title)} />;
      })}
      {item.content.length === 0 && item.toolKind === "other" && item.rawInput !== undefined && (
        <pre class="out" tabIndex={0} role="region" aria-label={words.thread.input} dir="ltr"><Plain text={JSON.stringify(item.rawInput, null, 2).slice(0, 20_000)} care="exact" /></pre>
      )}
    </div>
  );
}

function OneDiff({ part, item, isAlone }: { part: DiffPart; item: ToolItem; isAlone: boolean }) {
  const first = item.locations.find((place) => place.path === part.path)?.line ?? 1;
  const diff: Diff = useDiff(part.oldText, part.newText, Math.max(1, first));
  const { name, folder } = nameOf(part.path);
  return (
    <>
      {!isAlone && (
        <div class="row s filehead" dir="ltr">
          <span class="strong cut"><Plain text={name} care="exact" /></span>
          <span class="faint cut"><Plain text={folder} care="exact" /></span>
          <span class="grow" />
          <LineCounts added={diff.added} removed={diff.removed} />
        </div>
      )}
      {diff.rows.length === 0 ? <p class="s faint pad2">{words.thread.sameText}</p> : <DiffView diff={diff} path={part.path} />}
    </>
  );
}

function ToolContent({ part, item, name }: { part: Extract<ToolPart, { kind: "content" }>["part"]; item: ToolItem; name: string }) {
  const text = part.kind === "text" ? part.text : "";
  const blocks = useMemo(() => cut(text), [text]);
  if (part.kind !== "text") return <div class="pad2"><PartView part={part} /></div>;
  const [only] = blocks;
  // Output comes as text or inside one fence.
  if (item.toolKind === "execute" && only !== undefined) {
    const output = blocks.length === 1 && only.kind === "code" ? only.text : text;
    return <OutputText text={output} name={name} isLive={isRunning(item)} isCut={false} />;
  }
  if (text.length > 20_000) return <OutputText text={text} name={name} isLive={false} isCut={false} />;
  return <div class="pad2" dir="auto">{blocks.map((block) => <BlockView block={block} />)}</div>;
}

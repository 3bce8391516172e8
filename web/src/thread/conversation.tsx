/** One session: header, thread, dock with question and input, panel. */
import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useApp } from "../app";
import { folderName, titleOf } from "../board/facts";
import { Icon } from "../frame/icon";
import { useKeys } from "../frame/keys";
import { go, pathOf, place } from "../frame/router";
import { MenuButton, MoodIcon } from "../frame/side";
import { money, now } from "../frame/times";
import { toastFailure } from "../frame/toasts";
import { isPhone, isWide } from "../frame/width";
import { Dock } from "../input/dock";
import type { Row, Thread } from "../model";
import { Panel, PanelSheet } from "../panel/panel";
import { Plain } from "../render/Plain";
import { words } from "../words";
import { Cells, type Cell } from "./cells";
import { TalkContext, useTalk, type Talk } from "./context";
import { ThreadList } from "./list";
import { MoreMenu } from "./more";
import { Fault } from "./notes";
import { Search } from "./search";
import { Viewport } from "./viewport";

const QUIET_MS = 180_000;

export function Conversation({ sessionId }: { sessionId: string }) {
  const app = useApp();
  const [thread, setThread] = useState<Thread | null>(null);
  useEffect(() => {
    setThread(app.open(sessionId));
    return () => app.close(sessionId);
  }, [sessionId]);
  return thread === null ? null : <Opened key={sessionId} thread={thread} />;
}

function Opened({ thread }: { thread: Thread }) {
  const app = useApp();
  const { sessionId } = thread;
  const row = useComputed(() => app.rows.value.find((found) => found.sessionId === sessionId)).value;
  const agent = row?.own.agent ?? words.thread.theAgent;
  const talk = useMemo((): Talk => ({ sessionId, agent, thread, cells: new Cells(thread.items), viewport: new Viewport() }), [thread, agent === ""]);
  talk.agent = agent;
  const isPanelHidden = useSignal(false);
  const isSheetOpen = useSignal(false);
  const isSearching = useSignal(false);
  const aim = useAim(talk);
  const hasPanel = isWide.value && !isPanelHidden.value;
  const togglePanel = (): void => {
    if (isWide.value) isPanelHidden.value = !isPanelHidden.value;
    else isSheetOpen.value = !isSheetOpen.value;
  };
  useKeys({
    "mod+.": togglePanel,
    "/": () => (isSearching.value = true),
    t: () => talk.cells.toggleAll(),
  });
  const parts = {
    list: (
      <ThreadList aim={aim}>
        <Foot row={row} />
      </ThreadList>
    ),
    more: <MoreMenu row={row} onSearch={() => (isSearching.value = true)} />,
    over: (
      <>
        {isSheetOpen.value && !hasPanel && <PanelSheet row={row} onClose={() => (isSheetOpen.value = false)} />}
        {isSearching.value && <Search onClose={() => (isSearching.value = false)} />}
      </>
    ),
  };
  return (
    <TalkContext.Provider value={talk}>
      {isPhone.value ? (
        <>
          <PhoneHeader row={row} onPanel={togglePanel} more={parts.more} />
          <main class="body talkbody">{parts.list}</main>
          <Dock row={row} />
        </>
      ) : (
        <div class={`talk${hasPanel ? " three" : ""}`}>
          <main class="main">
            <header class="bar">
              <MenuButton />
              {row !== undefined && <MoodIcon row={row} />}
              <h1 class="cut" dir="auto"><Plain text={titleFor(thread, row)} /></h1>
              {row !== undefined && <Where row={row} />}
              <span class="grow" />
              <button type="button" class="btn quiet icon" aria-label={words.thread.search} onClick={() => (isSearching.value = true)}><Icon name="search" /></button>
              <button type="button" class="btn quiet icon" aria-label={words.thread.panel} aria-pressed={hasPanel} onClick={togglePanel}><Icon name="plan" /></button>
              {parts.more}
            </header>
            {parts.list}
            <Dock row={row} />
          </main>
          {hasPanel && <Panel row={row} />}
        </div>
      )}
      {parts.over}
    </TalkContext.Provider>
  );
}

function titleFor(thread: Thread, row: Row | undefined): string {
  return thread.title.value || (row === undefined ? words.thread.conversation : titleOf(row));
}

function Where({ row }: { row: Row }) {
  const { branch, worktree } = row.own;
  return (
    <span class="row s faint where" dir="auto">
      <Icon name="folder" /><span class="cut" title={row.cwd}><Plain text={folderName(row.cwd)} care="exact" /></span>
      {branch && <><Icon name="branch" /><span class="cut"><Plain text={branch} care="exact" /></span></>}
      {worktree && <span class="chip">{words.thread.worktree}</span>}
    </span>
  );
}

function PhoneHeader({ row, onPanel, more }: { row: Row | undefined; onPanel: () => void; more: preact.ComponentChildren }) {
  const { thread, agent } = useTalk();
  const usage = thread.usage.value;
  const full = usage?.used !== undefined && usage.size ? `${Math.round((100 * usage.used) / usage.size)} %` : "";
  const facts = [agent, row === undefined ? "" : folderName(row.cwd), usage?.cost ? money(usage.cost) : "", full].filter(Boolean).join(" · ");
  const plan = thread.plan.value;
  const done = plan.filter((entry) => entry.status === "completed").length;
  return (
    <header class="top">
      <a class="tap" href="#/" aria-label={words.thread.back}><Icon name="back" /></a>
      <div class="grow">
        <h1 class="cut" dir="auto"><Plain text={titleFor(thread, row)} /></h1>
        <p class="cut" dir="auto"><Plain text={facts} /></p>
      </div>
      <button type="button" class="tap" aria-label={plan.length > 0 ? words.thread.planOf(done, plan.length) : words.thread.panel} onClick={onPanel}><Icon name="plan" /></button>
      {more}
    </header>
  );
}

/** What stands behind the last item: a problem, an agent that is quiet, a turn that has not said anything yet. */
function Foot({ row }: { row: Row | undefined }) {
  const app = useApp();
  const { sessionId, thread, agent } = useTalk();
  const problem = thread.problem.value;
  const turn = thread.turn.value;
  const items = thread.items.value;
  const last = items.at(-1);
  void last?.revision.value;
  if (problem !== null) return <Fault text={problem} isLast={true} />;
  // An agent that ended between two turns; the next prompt starts it, and so does the button.
  const lost = row?.own.state === "lost" ? row.own.error : undefined;
  if (turn === null && lost != null && !(last?.item.kind === "turn" && last.item.error !== undefined)) return <Fault text={lost.message} isLast={true} />;
  if (turn === null) return items.length === 0 && !thread.isLoading.value ? <p class="empty s soft">{words.thread.empty(agent)}</p> : null;
  if (thread.questions.value.length > 0) return null;
  const quiet = now.value - Math.max(thread.heardAt, turn.startedAt);
  if (quiet < QUIET_MS) return <p class="working xs faint"><Icon name="run" tone="run" />{words.thread.working(agent)}</p>;
  const host = app.host.value;
  return (
    <p class="working s soft">
      <Icon name="clock" />{words.thread.quiet(Math.floor(quiet / 60_000))}
      <button type="button" class="btn" onClick={() => void app.stop(sessionId).catch(toastFailure)}>{words.input.stop}</button>
      {host?.methods.includes("_dragoman/restart_agent") && (
        <button type="button" class="btn" onClick={() => void app.restartAgent(sessionId).catch(toastFailure)}>{words.thread.restartAgent}</button>
      )}
    </p>
  );
}

/** Return the first cell of the item that an event belongs to: the last one that began before it. */
function cellAt(cells: readonly Cell[], seq: number): Cell | null {
  let best: Cell | null = null;
  for (const cell of cells) {
    const at = cell.item.seq;
    // The end of a turn of the history has no number.
    if (cell.isFirst && at > 0 && at <= seq && (best === null || at > best.item.seq)) best = cell;
  }
  return best;
}

/** Goes to the place that the address names: `#/s/ID/SEQ`. */
function useAim({ sessionId, thread, cells, viewport }: Talk): Cell | null {
  const app = useApp();
  const where = place.value;
  const seq = where.name === "session" && where.id === sessionId ? Number(where.rest[0] ?? "") : 0;
  const isReady = !thread.isLoading.value && thread.items.value.length > 0;
  const [aim, setAim] = useState<Cell | null>(null);
  useEffect(() => {
    if (!isReady || !Number.isInteger(seq) || seq <= 0) return;
    let isGone = false;
    void app
      .goTo(sessionId, seq)
      .catch(toastFailure)
      .then(() => {
        if (isGone) return;
        const found = cellAt(cells.list.peek(), seq);
        if (found === null) return;
        setAim(found);
        viewport.show(found);
        // The place stays in the address until the view is moved on: a second press on the same link works.
        go(pathOf(sessionId), true);
      });
    return () => {
      isGone = true;
    };
  }, [seq, isReady]);
  return aim;
}

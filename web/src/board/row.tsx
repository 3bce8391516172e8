/** One session in the list: what it needs, does and costs, and what can be done about it. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { pathOf } from "../frame/router";
import { MoodIcon } from "../frame/side";
import { age, money } from "../frame/times";
import { toast, toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Row } from "../model";
import { QuestionCard } from "../question/card";
import type { Shown } from "../question/lasting";
import { words } from "../words";
import { folderName, lastLineOf, moodOf, sinceOf, titleOf } from "./facts";

const MOST_STEPS = 10;

function Progress({ row }: { row: Row }) {
  const mood = moodOf(row);
  const { steps, changes, queued } = row.own;
  const waiting = queued ?? row.own.waiting?.length ?? 0;
  if (mood === "queued" && waiting > 0) return <span class="chip"><Icon name="clock" />{words.board.queued(waiting)}</span>;
  if (mood === "done" || (steps == null && changes != null)) {
    if (changes == null) return null;
    if (changes.files === 0) return <span class="xs faint">{words.board.noChanges}</span>;
    return (
      <span class="xs num" >
        <span aria-hidden="true"><span class="plus">+{changes.added}</span> <span class="minus">−{changes.removed}</span></span>
        <span class="vh">{words.board.changes(changes.added, changes.removed)}</span>
        {changes.files <= (changes.reviewed ?? 0) && <> <span class="faint">{words.board.isReviewed}</span></>}
      </span>
    );
  }
  if (steps == null || steps.total === 0) return null;
  const bars = steps.total <= MOST_STEPS ? Array.from({ length: steps.total }, (_, at) => (at < steps.done ? "on" : at === steps.done && mood !== "fail" ? "now" : "")) : [];
  return (
    <>
      <span class="steps" aria-hidden="true">{bars.map((look, at) => <i key={at} class={look} />)}</span>{" "}
      <span class="xs faint num" aria-hidden="true">{steps.done}/{steps.total}</span><span class="vh">{words.board.steps(steps.done, steps.total)}</span>
    </>
  );
}

/** Renames a session. */
function Rename({ row, onClose }: { row: Row; onClose: () => void }) {
  const app = useApp();
  const [title, setTitle] = useState(titleOf(row));
  const save = (event: Event) => {
    event.preventDefault();
    onClose();
    app.setTitle(row.sessionId, title.trim()).catch(toastFailure);
  };
  return (
    <Dialog label={words.board.rename} look="boxed" onClose={onClose}>
      <form onSubmit={save}>
        <label class="label" for="new-title">{words.board.newName}</label>
        <input class="input" id="new-title" dir="auto" value={title} maxLength={200} onInput={(event) => setTitle(event.currentTarget.value)} />
        <div class="row foot"><span class="grow" /><button type="button" class="btn quiet" onClick={onClose}>{words.frame.cancel}</button><button type="submit" class="btn solid">{words.board.save}</button></div>
      </form>
    </Dialog>
  );
}

/** Puts a session away, or back; the note has the way back. */
export function archive(app: ReturnType<typeof useApp>, row: Row, isArchived: boolean): void {
  app.archive(row.sessionId, isArchived).then(() => {
    if (isArchived) toast(words.board.archived(titleOf(row)), { label: words.frame.undo, run: () => archive(app, row, false) });
  }, toastFailure);
}

function Actions({ row, onRename }: { row: Row; onRename: () => void }) {
  const app = useApp();
  const mood = moodOf(row);
  const title = titleOf(row);
  const rights = app.host.value?.rights ?? [];
  const canPrompt = rights.includes("prompt");
  const [isOpen, setOpen] = useState(false);
  const menu = (run: () => void) => () => { setOpen(false); run(); };
  return (
    <div class="act">
      {canPrompt && (mood === "run" || mood === "queued" || mood === "need") && <button type="button" class="btn quiet icon" aria-label={words.board.stop(title)} onClick={() => void app.stop(row.sessionId).catch(toastFailure)}><Icon name="stop" /></button>}
      {canPrompt && mood === "fail" && <button type="button" class="btn" onClick={() => app.restartAgent(row.sessionId).then(() => toast(words.board.restarted(row.own.agent ?? "")), toastFailure)}>{words.board.restart}</button>}
      {canPrompt && <button type="button" class="btn quiet icon" aria-label={words.board.more(title)} aria-haspopup="dialog" onClick={() => setOpen(true)}><Icon name="more" /></button>}
      {!isPhone.value && <a class="btn quiet icon" href={`#${pathOf(row.sessionId)}`} aria-label={words.board.open(title)}><Icon name="right" /></a>}
      {isOpen && (
        <Dialog label={words.board.more(title)} look={isPhone.value ? "sheetp" : "boxed small"} onClose={() => setOpen(false)}>
          <p class="strong cut" dir="auto">{title}</p>
          <div class="choices">
            <button type="button" class="btn" onClick={menu(onRename)}>{words.board.rename}</button>
            <button type="button" class="btn" onClick={menu(() => archive(app, row, row.own.archivedAt == null))}>{row.own.archivedAt == null ? words.board.archive : words.board.unarchive}</button>
            <button type="button" class="btn quiet" onClick={() => setOpen(false)}>{words.frame.cancel}</button>
          </div>
        </Dialog>
      )}
    </div>
  );
}

export function SessionRow({ row, questions }: { row: Row; questions: readonly Shown[] }) {
  const [isRenaming, setRenaming] = useState(false);
  const mood = moodOf(row);
  const title = titleOf(row);
  const last = lastLineOf(row, mood);
  const isReadOnly = row.own.state === "readOnly";
  const cards = questions.map((shown) => <QuestionCard key={shown.question.questionId} question={shown.question} place="list" isGone={shown.isGone} />);
  const rename = isRenaming && <Rename row={row} onClose={() => setRenaming(false)} />;
  if (isPhone.value) {
    return (
      <li class="line" data-row={row.sessionId}>
        <MoodIcon row={row} />
        <a class="cut open" href={`#${pathOf(row.sessionId)}`}><span class="strong" dir="auto">{title}</span></a>
        <span class="when num s faint">{age(sinceOf(row))}</span>
        <small class="cut"><bdi>{row.own.agent}</bdi> · <bdi>{folderName(row.cwd)}</bdi>{row.own.cost != null && <> · <span class="num">{money(row.own.cost)}</span></>}{last !== "" && <> · <bdi>{last}</bdi></>}</small>
        <Actions row={row} onRename={() => setRenaming(true)} />
        {cards.length > 0 && <div class="cards">{cards}</div>}
        {rename}
      </li>
    );
  }
  return (
    <li class="sess" data-row={row.sessionId}>
      <MoodIcon row={row} />
      <div class="cut"><a class={`t cut open${mood === "done" && row.own.changes != null && row.own.changes.files > (row.own.changes.reviewed ?? 0) ? " unread" : ""}`} href={`#${pathOf(row.sessionId)}`} dir="auto">{title}</a><div class="last cut" dir="auto">{last}</div></div>
      <div class="row s soft"><span class="ava" aria-hidden="true">{(row.own.agent ?? "?").slice(0, 1).toUpperCase()}</span><span class="cut" dir="auto">{row.own.agent}</span></div>
      <div class="row s soft g4" title={row.cwd}><span class="cut" dir="auto">{folderName(row.own.worktree?.project ?? row.cwd)}</span>{row.own.branch != null && <><Icon name="branch" tone="idle" /><span class="cut faint" dir="auto">{row.own.branch}</span></>}</div>
      <div>{isReadOnly ? <span class="xs faint">{words.board.readOnly}</span> : <Progress row={row} />}</div>
      <div class="s num soft">{row.own.cost != null ? money(row.own.cost) : ""}</div>
      <div class="s num faint">{age(sinceOf(row))}</div>
      <Actions row={row} onRename={() => setRenaming(true)} />
      {cards.length > 0 && <div class="cards">{cards}</div>}
      {rename}
    </li>
  );
}

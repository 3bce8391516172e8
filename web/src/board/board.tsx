/** All sessions of all agents and folders, by what they need; questions are answered from the list. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { useKeys } from "../frame/keys";
import { go } from "../frame/router";
import { MenuButton } from "../frame/side";
import { useSteady } from "../frame/steady";
import { money } from "../frame/times";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Row } from "../model";
import { shownQuestions } from "../question/lasting";
import { words } from "../words";
import { costOfToday, folderName, grouped, isFound, type GroupName } from "./facts";
import { agent, clearFilter, folder, text } from "./filter";
import { SessionRow } from "./row";
import { moveInRows, openRow } from "./moving";

const MOST_AT_ONCE = 200;
const GROUPS: GroupName[] = ["need", "run", "fail", "done", "idle"];

function Choice({ label, icon, all, value, values, onChange }: { label: string; icon?: string; all: string; value: string; values: [string, string][]; onChange: (value: string) => void }) {
  return (
    <label class="pick">
      {icon !== undefined && <Icon name={icon} />}
      <span class="vh">{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{all}</option>
        {values.map(([found, name]) => <option key={found} value={found}>{name}</option>)}
      </select>
      <Icon name="down" />
    </label>
  );
}

function Find() {
  return (
    <label class="field find">
      <Icon name="search" />
      <input type="search" aria-label={words.board.find} placeholder={words.board.find} value={text.value} onInput={(event) => (text.value = event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Escape") { text.value = ""; event.currentTarget.blur(); } }} />
      {!isPhone.value && <kbd aria-hidden="true">/</kbd>}
    </label>
  );
}

/** Returns folders or agents that occur in more than no row, with their names. */
function namesOf(rows: readonly Row[], of: (row: Row) => string, name: (value: string) => string): [string, string][] {
  return [...new Set(rows.map(of))].filter((value) => value !== "").map((value): [string, string] => [value, name(value)]).sort((one, other) => one[1].localeCompare(other[1]));
}

export const projectOf = (row: Row): string => row.own.worktree?.project ?? row.cwd;

export function Board() {
  const app = useApp();
  const list = useRef<HTMLDivElement>(null);
  const [isArchiveOpen, openArchive] = useState(false);
  const [most, setMost] = useState(MOST_AT_ONCE);
  const all = app.rows.value;
  const rows = all.filter((row) => row.own.archivedAt == null);
  const archived = all.filter((row) => row.own.archivedAt != null);
  const fits = (row: Row) => (folder.value === "" || projectOf(row) === folder.value) && (agent.value === "" || row.own.agent === agent.value) && (text.value.trim() === "" || isFound(row, text.value.trim()));
  const found = rows.filter(fits);
  const groups = grouped(found);
  const shown = shownQuestions.value;
  const places = GROUPS.map((name) => ({
    name,
    ids: (groups.get(name) ?? []).map((row) => ({ id: row.sessionId, questions: shown.filter((own) => own.question.sessionId === row.sessionId).map((own) => own.question.questionId) })),
  }));
  // A question that has gone keeps its row where it is until its place is empty.
  for (const own of shown.filter((one) => one.isGone)) keepInNeed(places, own.question.sessionId);
  const steady = useSteady(places, list, `${folder.value}\n${agent.value}\n${text.value}`);
  const byId = useRef(new Map<string, Row>());
  for (const row of all) byId.current.set(row.sessionId, row);
  const questionById = useRef(new Map(shown.map((own) => [own.question.questionId, own])));
  for (const own of questionById.current.values()) if (!shown.some((one) => one.question.questionId === own.question.questionId)) questionById.current.set(own.question.questionId, { ...own, isGone: true });
  for (const own of shown) questionById.current.set(own.question.questionId, own);
  const today = costOfToday(rows, new Date().toDateString());
  const filter = useRef<HTMLElement>(null);
  useKeys({
    j: () => moveInRows(list.current, 1),
    k: () => moveInRows(list.current, -1),
    Enter: () => openRow(),
    "/": () => filter.current?.querySelector<HTMLInputElement>(".find input")?.focus(),
  });
  useEffect(() => {
    if (rows.length === 0 && app.line.value.state === "connected" && app.hasRows.value && archived.length === 0 && app.host.value?.rights.includes("prompt")) go("/new", true);
  }, [rows.length === 0, app.hasRows.value, app.line.value.state, app.host.value]);

  let count = 0;
  const content = steady.map(({ name, ids }) => {
    if (ids.length === 0) return null;
    const cut = ids.slice(0, Math.max(0, most - count));
    count += ids.length;
    const heading = <h2 class="group" id={`group-${name}`}><Icon name={name} tone={name} />{words.board.groups[name]}<span class="faint num">{groups.get(name)?.length ?? 0}</span><span class="grow" /><span class="xs faint">{words.board.orders[name]}</span></h2>;
    return (
      <section key={name} aria-labelledby={`group-${name}`}>
        {heading}
        <ul>
          {cut.map(({ id, questions }) => {
            const row = byId.current.get(id);
            if (row === undefined) return null;
            return <SessionRow key={id} row={row} questions={questions.map((found) => questionById.current.get(found)).filter((own) => own !== undefined)} />;
          })}
        </ul>
      </section>
    );
  });
  const narrowed = folder.value !== "" || agent.value !== "" || text.value.trim() !== "";
  const empty = found.length === 0 && app.hasRows.value && (
    <div class="empty">
      <span class="faint"><Icon name="board" /></span>
      <b class="strong">{text.value.trim() !== "" ? words.board.noneFound : folder.value !== "" ? words.board.noneIn(folderName(folder.value)) : words.board.none}</b>
      <p class="s soft">{text.value.trim() !== "" ? words.board.noneFoundMore : <>{words.board.noneMore}<code>{words.board.noneMoreCommand}</code>.</>}</p>
      {narrowed ? <button type="button" class="btn" onClick={clearFilter}>{words.board.clear}</button> : <a class="btn solid" href="#/new"><Icon name="plus" />{words.frame.newSession}</a>}
    </div>
  );
  const choices = (
    <>
      <Choice label={words.board.folder} icon="folder" all={words.board.allFolders} value={folder.value} values={namesOf(rows, projectOf, folderName)} onChange={(value) => (folder.value = value)} />
      <Choice label={words.board.agent} all={words.board.allAgents} value={agent.value} values={namesOf(rows, (row) => row.own.agent ?? "", (value) => value)} onChange={(value) => (agent.value = value)} />
    </>
  );
  const cost = today.length > 0 && <span class="s faint num">{words.board.today(today.map(money).join(" + "))}</span>;
  const rest = (
    <>
      {count > most && <button type="button" class="btn quiet more-rows" onClick={() => setMost(most + MOST_AT_ONCE)}>{words.board.loadMore}</button>}
      {count <= most && app.hasMoreRows.value && <button type="button" class="btn quiet more-rows" onClick={() => void app.moreRows().catch(toastFailure)}>{words.board.loadMore}</button>}
      {archived.length > 0 && <button type="button" class="btn quiet more-rows" aria-expanded={isArchiveOpen} onClick={() => openArchive(!isArchiveOpen)}>{isArchiveOpen ? words.board.hideArchived : words.board.showArchived(archived.length)}</button>}
      {isArchiveOpen && archived.length > 0 && <section aria-label={words.board.archiveTitle}><ul>{archived.filter(fits).map((row) => <SessionRow key={row.sessionId} row={row} questions={[]} />)}</ul></section>}
    </>
  );
  if (isPhone.value) {
    return (
      <main class="grow" ref={filter}>
        <header class="big"><h1>{words.frame.sessions}</h1><a class="tap" href="#/new" aria-label={words.frame.newSession}><Icon name="plus" /></a></header>
        <div class="filters"><Find /><div class="row">{choices}<span class="grow" />{cost}</div></div>
        <div class="list" ref={list}>{content}{empty}{rest}</div>
      </main>
    );
  }
  return (
    <main class="main" ref={filter}>
      <header class="bar wraps"><MenuButton /><h1>{words.frame.sessions}</h1>{choices}<span class="grow" />{cost}<Find /><a class="btn solid" href="#/new"><Icon name="plus" />{words.frame.newSession}</a></header>
      <div class="list" ref={list}>{content}{empty}{rest}</div>
    </main>
  );
}

function keepInNeed(places: { name: GroupName; ids: { id: string; questions: string[] }[] }[], sessionId: string): void {
  const need = places[0];
  for (const group of places.slice(1)) {
    const at = group.ids.findIndex((entry) => entry.id === sessionId);
    const entry = group.ids[at];
    if (entry !== undefined && need !== undefined) {
      group.ids.splice(at, 1);
      need.ids.push(entry);
    }
  }
}


/** Every open question, oldest first; and on phones what runs and what is done. */
import { useRef, useState } from "preact/hooks";
import { useApp } from "../app";
import { folderName, grouped, titleOf } from "../board/facts";
import { moveInRows, openRow } from "../board/moving";
import { SessionRow } from "../board/row";
import { Icon } from "../frame/icon";
import { useKeys } from "../frame/keys";
import { pathOf } from "../frame/router";
import { MenuButton } from "../frame/side";
import { useSteady } from "../frame/steady";
import { age } from "../frame/times";
import { isPhone } from "../frame/width";
import { QuestionCard } from "../question/card";
import { shownQuestions, type Shown } from "../question/lasting";
import { words } from "../words";

function Entry({ shown }: { shown: Shown }) {
  const app = useApp();
  const row = app.rows.value.find((found) => found.sessionId === shown.question.sessionId);
  const agent = row?.own.agent ?? "";
  return (
    <li class="card" data-row={shown.question.sessionId}>
      <div>
        <div class="row top"><h2 class="t grow"><a class="open" href={`#${pathOf(shown.question.sessionId)}`} dir="auto">{row === undefined ? shown.question.title : titleOf(row)}</a></h2><span class="m num">{age(shown.question.askedAt)}</span></div>
        <p class="m"><span class="ava" aria-hidden="true">{(agent || "?").slice(0, 1).toUpperCase()}</span><bdi>{agent}</bdi>{row !== undefined && <> · <bdi>{folderName(row.cwd)}</bdi></>}</p>
      </div>
      <QuestionCard question={shown.question} place="list" isGone={shown.isGone} />
    </li>
  );
}

type Part = "need" | "run" | "done";

export function Inbox() {
  const app = useApp();
  const list = useRef<HTMLDivElement>(null);
  const [part, setPart] = useState<Part>("need");
  const groups = grouped(app.rows.value.filter((row) => row.own.archivedAt == null));
  const running = groups.get("run")?.length ?? 0;
  const order = useSteady(shownQuestions.value.map((shown) => shown.question.questionId), list);
  const known = useRef(new Map<string, Shown>());
  for (const [id, shown] of known.current) known.current.set(id, { ...shown, isGone: true });
  for (const shown of shownQuestions.value) known.current.set(shown.question.questionId, shown);
  useKeys({ j: () => moveInRows(list.current, 1), k: () => moveInRows(list.current, -1), Enter: () => openRow() });
  const none = (text: string, more: string) => <div class="empty"><Icon name="done" tone="done" /><b class="strong">{text}</b>{more !== "" && <p class="s soft">{more}</p>}</div>;
  const rows = (name: Part) => {
    const found = groups.get(name) ?? [];
    if (found.length === 0) return none(name === "run" ? words.inbox.noneRunning : words.inbox.noneDone, "");
    return <ul class="list">{found.map((row) => <SessionRow key={row.sessionId} row={row} questions={[]} />)}</ul>;
  };
  const questions = order.length === 0 ? none(words.inbox.none, words.inbox.running(running)) : (
    <ul class="stack">{order.map((id) => known.current.get(id)).map((shown) => shown !== undefined && <Entry key={shown.question.questionId} shown={shown} />)}</ul>
  );
  const count = app.questions.value.length;
  const host = app.host.value;
  if (!isPhone.value) {
    return (
      <main class="main">
        <header class="bar"><MenuButton /><h1>{words.inbox.title}</h1><span class="faint num">{count > 0 ? count : ""}</span><span class="grow" /><span class="xs faint">{count > 1 ? words.board.orders.need : ""}</span></header>
        <div class="list inbox" ref={list}>{questions}</div>
      </main>
    );
  }
  const segment = (name: Part, label: string, found: number) => <button type="button" aria-pressed={part === name} onClick={() => setPart(name)}>{label} <span class="num">{found}</span></button>;
  return (
    <main class="grow">
      <header class="big"><h1>{words.inbox.title}</h1>{host !== null && <span class="m row s faint"><Icon name={app.line.value.state === "connected" ? "done" : "off"} tone={app.line.value.state === "connected" ? "done" : "idle"} />{host.name}</span>}</header>
      <div class="seg" role="group" aria-label={words.inbox.show}>{segment("need", words.board.groups.need, count)}{segment("run", words.board.groups.run, running)}{segment("done", words.board.groups.done, groups.get("done")?.length ?? 0)}</div>
      <div ref={list}>{part === "need" ? questions : rows(part)}</div>
    </main>
  );
}

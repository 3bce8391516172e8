/** What stands below the thread: the question, prompts that wait, and the input. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Question, Row, Unsent, WaitingPrompt } from "../model";
import { SessionQuestions } from "../question/questions";
import { readQuestion } from "../question/reading";
import { lookedAt } from "../question/looking";
import { Plain } from "../render/Plain";
import { useTalk } from "../thread/context";
import { words } from "../words";
import { Box } from "./box";

export function Dock({ row }: { row: Row | undefined }) {
  const app = useApp();
  const { thread } = useTalk();
  const questions = thread.questions.value;
  const host = app.host.value;
  const canPrompt = host === null || host.rights.includes("prompt");
  const inner = (
    <>
      <Questions questions={questions} />
      {thread.waiting.value.map((prompt) => <Waiting key={prompt.promptId} prompt={prompt} />)}
      {thread.unsent.value.map((prompt) => <NotSent key={prompt.promptId} prompt={prompt} />)}
      {canPrompt ? <Box row={row} /> : <p class="readonly s soft"><Icon name="lock" />{words.input.readOnly}</p>}
    </>
  );
  if (isPhone.value) return <section class="dockp" aria-label={words.input.dock}>{inner}</section>;
  return <section class="dock col" aria-label={words.input.dock}>{inner}</section>;
}

function Questions({ questions }: { questions: readonly Question[] }) {
  const { agent, sessionId } = useTalk();
  const [first] = questions;
  if (!isPhone.value) return <SessionQuestions sessionId={sessionId} />;
  if (first === undefined) return null;
  return (
    <div class="pill">
      <Icon name="need" />
      <div class="grow">
        <div class="strong s">{readQuestion(first, agent).title}</div>
        <code class="cut xs"><Plain text={first.title} care="exact" /></code>
      </div>
      <button type="button" class="btn wide solid" onClick={() => (lookedAt.value = first.questionId)}>{words.input.answer}</button>
    </div>
  );
}

function Waiting({ prompt }: { prompt: WaitingPrompt }) {
  const app = useApp();
  const { sessionId } = useTalk();
  const [isEditing, setEditing] = useState(false);
  const whole = app.sentText(prompt.promptId);
  const text = whole ?? prompt.text;
  // The row has the beginning of another client's prompt: what is not known whole is not written over.
  const canEdit = whole !== undefined || prompt.text.length < 200;
  if (isEditing) return <EditWaiting text={text} onDone={(made) => { setEditing(false); if (made !== null) void app.editWaiting(sessionId, prompt.promptId, made).catch(toastFailure); }} />;
  return (
    <div class="queued">
      <Icon name={prompt.steers ? "steer" : "queue"} />
      <span class="faint">{prompt.steers ? words.input.steers : words.input.next}</span>
      <span class="cut grow" dir="auto"><Plain text={text.replace(/\s+/g, " ")} /></span>
      {whole === undefined && prompt.who !== "" && <span class="chip"><Plain text={prompt.who} /></span>}
      {canEdit && <button type="button" class="btn quiet icon" aria-label={words.input.editWaiting} onClick={() => setEditing(true)}><Icon name="pencil" /></button>}
      <button type="button" class="btn quiet icon" aria-label={words.input.removeWaiting} onClick={() => void app.removeWaiting(sessionId, prompt.promptId).catch(toastFailure)}><Icon name="x" /></button>
    </div>
  );
}

function EditWaiting({ text, onDone }: { text: string; onDone: (text: string | null) => void }) {
  const [made, setMade] = useState(text);
  return (
    <form class="editing" onSubmit={(event) => { event.preventDefault(); onDone(made.trim() === "" ? null : made); }}>
      <textarea
        class="input"
        value={made}
        aria-label={words.input.editWaiting}
        dir="auto"
        rows={2}
        autoFocus
        onInput={(event) => setMade(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            event.preventDefault();
            onDone(null);
          } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            onDone(made.trim() === "" ? null : made);
          }
        }}
      />
      <button type="submit" class="btn solid">{words.thread.save}</button>
      <button type="button" class="btn" onClick={() => onDone(null)}>{words.frame.cancel}</button>
    </form>
  );
}

function NotSent({ prompt }: { prompt: Unsent }) {
  const app = useApp();
  const { sessionId } = useTalk();
  if (prompt.state === "sending") return null;
  const hasFailed = prompt.state === "failed";
  return (
    <div class="queued">
      <Icon name={hasFailed ? "fail" : "clock"} {...(hasFailed ? { tone: "fail" } : {})} />
      <span class="cut grow" dir="auto" title={prompt.problem}><Plain text={prompt.text.replace(/\s+/g, " ")} />{hasFailed && prompt.problem ? <> · <Plain text={prompt.problem} /></> : null}</span>
      <span class="chip">{hasFailed ? words.input.failed : words.input.notSent}</span>
      {hasFailed && <button type="button" class="btn quiet" onClick={() => void app.retry(sessionId, prompt.promptId).catch(toastFailure)}>{words.input.again}</button>}
      <button type="button" class="btn quiet icon" aria-label={words.input.discard} onClick={() => void app.discard(sessionId, prompt.promptId).catch(toastFailure)}><Icon name="x" /></button>
    </div>
  );
}

/** A question of an agent: what is asked, why, and the answers with what each does. One card for all screens. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { altKey } from "../frame/keys";
import { say } from "../frame/live";
import { age } from "../frame/times";
import { isPhone } from "../frame/width";
import type { Question } from "../model";
import { words } from "../words";
import { useAnswering } from "./answering";
import { Body, Grounds, hidesSomething } from "./body";
import { answeredLine } from "./ending";
import { Elicitation } from "./elicitation";
import { useGuard, type Guard } from "./guard";
import { endOf } from "./lasting";
import { lookedAt } from "./looking";
import { readQuestion, type Answer, type Asked, type Effect } from "./reading";
import { Reason } from "./reason";
import { addCard } from "./sight";
import { Words } from "./visible";

/** Where a card stands: in a list, in the dock of a conversation, or alone above the screen. */
export type CardPlace = "list" | "thread" | "page";

export interface CardProps {
  question: Question;
  place: CardPlace;
  /** Its number among those of its session. */
  at?: number;
  all?: number;
  /** It is no longer open, and its place stays empty for a moment. */
  isGone?: boolean;
}

export function agentOf(app: ReturnType<typeof useApp>, question: Question): string {
  return app.rows.value.find((row) => row.sessionId === question.sessionId)?.own.agent || words.question.agent;
}

/** Keeps the height that an element had while it was full. */
function useHeld(isGone: boolean) {
  const element = useRef<HTMLElement>(null);
  const height = useRef(0);
  useLayoutEffect(() => {
    const own = element.current;
    if (own === null) return;
    if (isGone) own.style.minBlockSize = `${height.current}px`;
    else height.current = own.offsetHeight;
  });
  return element;
}

export function QuestionCard(props: CardProps) {
  const app = useApp();
  const { question, place } = props;
  const agent = agentOf(app, question);
  const isGone = props.isGone ?? false;
  const held = useHeld(isGone);
  const end = app.ends.value.get(question.questionId);
  const text = endOf(question.questionId) ?? (end === undefined ? "" : end.how === "withdrawn" ? words.question.withdrawn(agent) : answeredLine(question, end));
  const isForm = question.method === "elicitation/create";
  const title = isForm ? (question.kind === "url" ? words.question.titles.url : words.question.titles.form(agent)) : readQuestion(question, agent).title;
  return (
    <div ref={held as { current: HTMLDivElement | null }} role="group" class={`qplace at-${place}`} aria-label={words.question.label(title)} data-question={question.questionId}>
      {isGone ? (
        <p class="qend s soft" dir="auto">{text}</p>
      ) : isForm ? (
        <Elicitation key={question.digest ?? question.questionId} {...props} agent={agent} />
      ) : (
        <Permission key={question.digest ?? question.questionId} {...props} agent={agent} />
      )}
    </div>
  );
}

/** Says why nothing can be answered here; null if it can. */
export function useObstacle(question: Question): string | null {
  const app = useApp();
  const rights = app.host.value?.rights;
  if (question.digest === undefined || (rights !== undefined && !rights.includes("answer"))) return words.question.viewOnly;
  return app.line.value.state === "connected" ? null : words.question.noLine;
}

export function CardHead({ question, agent, title, heading, at, all, isOdd, place }: { question: Question; agent: string; title: string; heading: { current: HTMLHeadingElement | null }; at?: number | undefined; all?: number | undefined; isOdd?: boolean; place: CardPlace }) {
  const Heading = place === "page" ? "h2" : "h3";
  return (
    <header role="presentation">
      <Icon name={isOdd ? "alert" : "need"} />
      <Heading ref={heading} tabIndex={-1} class="grow">{title}</Heading>
      <span class="xs soft num">{words.question.asks(agent, age(question.askedAt))}</span>
      {all !== undefined && all > 1 && <span class="chip need num">{words.question.of(at ?? 1, all)}</span>}
    </header>
  );
}

function EffectLine({ effect }: { effect: Effect }) {
  return <>{effect.before}{effect.rule !== undefined && <code dir="ltr"><Words line={effect.rule} /></code>}{effect.after}</>;
}

function Permission({ question, place, at, all, agent }: CardProps & { agent: string }) {
  const app = useApp();
  const asked = readQuestion(question, agent);
  const guard = useGuard(question.digest ?? question.questionId);
  const heading = useRef<HTMLHeadingElement>(null);
  const sending = useAnswering(question, agent, () => guard.card.current);
  const obstacle = useObstacle(question);
  const [isRefusing, setRefusing] = useState(false);
  const [hint, setHint] = useState("");
  const isTooLong = useTooLong(guard, asked, place);

  const choose = (answer: Answer, reason: string) => {
    const done = words.question.done[answer.allows ? (answer.isAlways ? "always" : "allow") : answer.isAlways ? "never" : "reject"];
    const outcome = { outcome: "selected" as const, optionId: answer.id, ...(reason === "" ? {} : { _meta: { dragoman: { reason } } }) };
    void sending.send(outcome, done);
  };
  /** Presses an answer: whether it counts is decided here and nowhere else. */
  const press = (answer: Answer, event: Event) => {
    if (obstacle !== null || sending.isBusy || sending.ended !== "" || !answer.isClear) return;
    if (!guard.counts(event)) return;
    if (place === "list" && (answer.isAlways || (answer.allows && isTooLong))) lookedAt.value = question.questionId;
    else if (answer.allows && !guard.isSeen) setHint(words.question.unseen(guard.seenLines, guard.allLines));
    else if (answer.kind === "reject_once" && !(event instanceof MouseEvent && (event.currentTarget as Element | null)?.hasAttribute("data-plain"))) setRefusing(true);
    else choose(answer, "");
  };
  const pressed = useRef(press);
  pressed.current = press;
  useEffect(
    () =>
      addCard({
        element: () => guard.card.current,
        heading: () => heading.current,
        press: (number, event) => {
          const answer = asked.answers[number - 1];
          if (answer !== undefined) pressed.current(answer, event);
        },
      }),
    [question.digest],
  );
  const onKeyDown = (event: KeyboardEvent) => {
    const button = (event.target as Element).closest("[data-allows]");
    if (event.key !== "Enter" || button === null) return;
    // Enter is what one presses to send a prompt: it never allows anything.
    event.preventDefault();
    const text = words.question.enter(`${altKey} ${button.getAttribute("data-allows") ?? ""}`);
    setHint(text);
    say(text);
  };
  const note = sending.problem !== "" ? sending.problem : hint !== "" ? hint : place !== "list" && !guard.isSeen && obstacle === null ? words.question.unseen(guard.seenLines, guard.allLines) : "";
  const isList = place === "list";
  return (
    <div ref={guard.card as { current: HTMLDivElement | null }} class={isList ? "q ask" : "q"} onPointerDown={guard.onPointerDown} onKeyDown={onKeyDown}>
      {isList ? <h3 class="vh" ref={heading} tabIndex={-1}>{asked.title}</h3> : <CardHead question={question} agent={agent} title={asked.title} heading={heading} at={at} all={all} isOdd={hidesSomething(asked)} place={place} />}
      <div class="body" {...(isList ? {} : { tabIndex: 0, role: "region", "aria-label": asked.title })}>
        <div class="whole" ref={guard.body}>
          <Body asked={asked} agent={agent} isShort={isList} />
          <Grounds asked={asked} />
        </div>
      </div>
      {sending.ended !== "" ? (
        <p class="qnote s" dir="auto">{sending.ended}</p>
      ) : obstacle !== null ? (
        <p class="qnote s soft">{obstacle}</p>
      ) : isRefusing ? (
        <Reason agent={agent} readsReasons={asked.readsReasons} isBusy={sending.isBusy} onCancel={() => { setRefusing(false); heading.current?.focus(); }} onReject={(reason, event) => {
          const answer = asked.answers.find((found) => found.kind === "reject_once");
          if (answer !== undefined && guard.counts(event)) choose(answer, reason);
        }} />
      ) : isList ? (
        <ListAnswers asked={asked} isTooLong={isTooLong} isBusy={sending.isBusy} press={press} look={() => (lookedAt.value = question.questionId)} />
      ) : (
        <Answers asked={asked} place={place} isBusy={sending.isBusy} isSeen={guard.isSeen} press={press} stop={() => void app.stop(question.sessionId)} />
      )}
      {note !== "" && sending.ended === "" && <p class="qnote s is-need" role="status" dir="auto">{note}</p>}
      {place === "page" && sending.ended === "" && <p class="qnote xs faint">{words.question.waitingNote}</p>}
    </div>
  );
}

/** Whether a question does not fit into a list: a change, paths outside, or more than four lines. */
function useTooLong(guard: Guard, asked: Asked, place: CardPlace): boolean {
  const isLong = place === "list" && (asked.diffs.length > 0 || asked.texts.length > 0 || asked.outside.length > 0 || asked.input !== "" || !asked.isWhole || asked.rows.some((row) => row.lines.length > 4 || row.note !== "") || asked.kind === "switch_mode");
  const [isHigh, setHigh] = useState(false);
  useLayoutEffect(() => {
    if (place !== "list" || guard.body.current === null) return;
    const codes = [...guard.body.current.querySelectorAll<HTMLElement>(".cmd")];
    const style = codes[0] === undefined ? null : getComputedStyle(codes[0]);
    const most = style === null ? 0 : 4.5 * parseFloat(style.lineHeight) + parseFloat(style.paddingTop) + parseFloat(style.paddingBottom);
    setHigh(codes.some((code) => code.offsetHeight > most));
  });
  return isLong || isHigh;
}

interface AnswersProps {
  asked: Asked;
  isBusy: boolean;
  press: (answer: Answer, event: Event) => void;
}

function ListAnswers({ asked, isTooLong, isBusy, press, look }: AnswersProps & { isTooLong: boolean; look: () => void }) {
  const once = asked.answers.find((answer) => answer.kind === "allow_once" && answer.isClear);
  const always = asked.answers.find((answer) => answer.kind === "allow_always" && answer.isClear);
  const reject = asked.answers.find((answer) => answer.kind === "reject_once" && answer.isClear);
  const canAllow = once !== undefined && !isTooLong;
  return (
    <div class={isPhone.value ? "pair" : "row act"}>
      {canAllow ? (
        <button type="button" class="btn solid" data-allows={asked.answers.indexOf(once) + 1} aria-disabled={isBusy} onClick={(event) => press(once, event)}>{isBusy ? words.question.sending : words.question.answers.once}</button>
      ) : (
        <button type="button" class="btn" onClick={look}>{words.question.lookFirst}</button>
      )}
      {canAllow && always !== undefined && !isPhone.value && <button type="button" class="btn" onClick={look}>{words.question.alwaysMore}</button>}
      {reject !== undefined && <button type="button" class="btn" aria-disabled={isBusy} onClick={(event) => press(reject, event)}>{words.question.rejectMore}</button>}
      {canAllow && isPhone.value && <button type="button" class="btn quiet more-answers" onClick={look}>{words.question.alwaysMore}</button>}
    </div>
  );
}

function Answers({ asked, place, isBusy, isSeen, press, stop }: AnswersProps & { place: CardPlace; isSeen: boolean; stop: () => void }) {
  const clear = asked.answers.filter((answer) => answer.isClear);
  const unclear = asked.answers.filter((answer) => !answer.isClear);
  const isPage = place === "page" || isPhone.value;
  const button = (answer: Answer) => {
    const number = asked.answers.indexOf(answer) + 1;
    const isOff = isBusy || (answer.allows && !isSeen);
    const allows = answer.allows ? { "data-allows": number } : {};
    if (isPage && answer.isAlways) {
      return (
        <button key={answer.id} type="button" class="always" aria-disabled={isOff} {...allows} onClick={(event) => press(answer, event)}>
          <b dir="auto">{answer.label}</b><small><EffectLine effect={answer.effect} /></small><Icon name="right" />
        </button>
      );
    }
    if (isPage && answer.kind === "reject_once") {
      return (
        <div key={answer.id} class="pair">
          <p class="xs soft"><EffectLine effect={answer.effect} /></p>
          <button type="button" class="btn" data-plain aria-disabled={isBusy} onClick={(event) => press(answer, event)}>{answer.label}</button>
          <button type="button" class="btn" aria-disabled={isBusy} onClick={(event) => press(answer, event)}>{words.question.rejectWhy}</button>
        </div>
      );
    }
    const look = answer.kind === "allow_once" ? "solid" : answer.allows ? "" : "bad";
    const label = isBusy && answer.kind === "allow_once" ? words.question.sending : answer.kind === "reject_once" ? `${answer.label}…` : answer.label;
    return (
      <div key={answer.id}>
        <button type="button" class={`btn ${look} ${isPage ? "wide" : ""}`} aria-disabled={isOff} {...allows} aria-describedby={`${place}-effect-${number}`} onClick={(event) => press(answer, event)}>
          <span dir="auto">{label}</span>{!isPage && <kbd aria-hidden="true">{altKey} {number}</kbd>}
        </button>
        <p id={`${place}-effect-${number}`} class={isPage ? "vh" : ""}><EffectLine effect={answer.effect} /></p>
      </div>
    );
  };
  return (
    <div class={isPage ? "acts one" : `acts of${Math.min(clear.length, 4)}`}>
      {clear.map(button)}
      {clear.length === 0 && <p class="s">{words.question.noneClear}</p>}
      {!clear.some((answer) => !answer.allows) && <div><button type="button" class="btn bad" onClick={stop}>{words.question.stopTurn}</button><p>{words.question.stopTurnMore}</p></div>}
      {unclear.map((answer) => <p key={answer.id} class="s faint" dir="auto">{answer.label}</p>)}
    </div>
  );
}

/** A question with fields, or with a page to open. Sending, declining and cancelling are three answers. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Plain } from "../render/Plain";
import { words } from "../words";
import { useAnswering } from "./answering";
import { CardHead, useObstacle, type CardProps } from "./card";
import { contentOf, faultOf, fieldsOf, type Field, type Value } from "./fields";
import { useGuard } from "./guard";
import { lookedAt } from "./looking";
import { addCard } from "./sight";
import { Address, canOpen } from "./visible";

function FieldInput({ field, value, fault, onValue }: { field: Field; value: Value; fault: string; onValue: (value: Value) => void }) {
  const id = `field-${field.name}`;
  const form = words.question.form;
  const described = { "aria-describedby": `${id}-more`, "aria-invalid": fault !== "", "aria-required": field.isRequired };
  const label = <><span dir="auto"><Plain text={field.title} /></span>{field.isRequired && <span class="faint xs"> {form.required}</span>}</>;
  const more = (
    <div id={`${id}-more`} class="xs">
      {field.description !== "" && <p class="faint" dir="auto"><Plain text={field.description} /></p>}
      {field.pattern !== "" && <p class="faint">{form.pattern(field.pattern)}</p>}
      {field.isSecret && <p class="is-need">{form.secret}</p>}
      {fault !== "" && <p class="is-fail">{fault}</p>}
    </div>
  );
  if (field.type === "unknown") return <p class="s is-need">{faultOf(field, "") || field.title}</p>;
  if (field.type === "boolean") {
    return <div class="formfield"><label class="check"><input type="checkbox" id={id} checked={value === true} {...described} onChange={(event) => onValue(event.currentTarget.checked)} />{label}</label>{more}</div>;
  }
  if (field.type === "array") {
    const chosen = Array.isArray(value) ? value : [];
    return (
      <fieldset class="formfield" aria-describedby={`${id}-more`}>
        <legend class="label">{label}</legend>
        {field.choices.map((choice) => (
          <label class="check" key={choice.value}>
            <input type="checkbox" checked={chosen.includes(choice.value)} onChange={(event) => onValue(event.currentTarget.checked ? [...chosen, choice.value] : chosen.filter((other) => other !== choice.value))} />
            <span dir="auto"><Plain text={choice.title} /></span>
          </label>
        ))}
        {more}
      </fieldset>
    );
  }
  const typed = typeof value === "string" ? value : "";
  return (
    <div class="formfield">
      <label class="label" for={id}>{label}</label>
      {field.choices.length > 0 ? (
        <select id={id} class="input" value={typed} {...described} onChange={(event) => onValue(event.currentTarget.value)}>
          <option value="">{form.choose}</option>
          {field.choices.map((choice) => <option key={choice.value} value={choice.value}>{choice.title}</option>)}
        </select>
      ) : (
        <input id={id} class="input" dir="auto" autocomplete="off" placeholder={field.format === "date" ? "2026-01-31" : ""} inputMode={field.type === "string" ? "text" : "decimal"} value={typed} {...described} onInput={(event) => onValue(event.currentTarget.value)} />
      )}
      {more}
    </div>
  );
}

export function Elicitation({ question, place, at, all, agent }: CardProps & { agent: string }) {
  const form = words.question.form;
  const isUrl = question.params["mode"] === "url";
  const address = typeof question.params["url"] === "string" ? question.params["url"] : "";
  const message = typeof question.params["message"] === "string" ? question.params["message"] : "";
  const fields = isUrl ? [] : fieldsOf(question.params["requestedSchema"]);
  const [values, setValues] = useState<Record<string, Value>>({});
  const [areFaultsShown, showFaults] = useState(false);
  const guard = useGuard(question.digest ?? question.questionId);
  const heading = useRef<HTMLHeadingElement>(null);
  const sending = useAnswering(question, agent, () => guard.card.current);
  const obstacle = useObstacle(question);
  const title = isUrl ? words.question.titles.url : words.question.titles.form(agent);
  const fault = (field: Field) => faultOf(field, values[field.name] ?? field.first);
  const isList = place === "list";

  const answer = (action: "accept" | "decline" | "cancel", event: Event): boolean => {
    if (obstacle !== null || sending.isBusy || sending.ended !== "" || !guard.counts(event)) return false;
    if (action !== "accept") {
      void sending.send({ action }, action === "decline" ? words.question.done.declined : words.question.done.cancelled);
      return true;
    }
    if (isList) {
      lookedAt.value = question.questionId;
      return false;
    }
    if (fields.some((field) => fault(field) !== "")) {
      showFaults(true);
      guard.card.current?.querySelector<HTMLElement>(`#field-${CSS.escape(fields.find((field) => fault(field) !== "")?.name ?? "")}`)?.focus();
      return false;
    }
    if (isUrl && !guard.isSeen) return false;
    void sending.send(isUrl ? { action } : { action, content: contentOf(fields, values) }, words.question.done.sent);
    return true;
  };
  const answered = useRef(answer);
  answered.current = answer;
  useEffect(() => addCard({ element: () => guard.card.current, heading: () => heading.current, press: (number, event) => {
    // A page is opened by a press on its link only.
    const action = ([isUrl ? null : "accept", "decline", "cancel"] as const)[number - 1];
    if (action != null) answered.current(action, event);
  } }), [question.digest]);

  const accept = isUrl && !isList ? (
    canOpen(address) && (
      <a class="btn solid" href={address} target="_blank" rel="noopener noreferrer" aria-disabled={!guard.isSeen} onClick={(event) => { if (!answer("accept", event)) event.preventDefault(); }}>{form.open}</a>
    )
  ) : (
    <button type="button" class={isList ? "btn" : "btn solid"} aria-disabled={sending.isBusy} onClick={(event) => (isList ? (lookedAt.value = question.questionId) : answer("accept", event))}>{isList ? (isUrl ? words.question.lookFirst : words.question.answerMore) : sending.isBusy ? words.question.sending : form.send}</button>
  );
  return (
    <div ref={guard.card as { current: HTMLDivElement | null }} class={isList ? "q ask" : "q"} onPointerDown={guard.onPointerDown}>
      {isList ? <h3 class="vh" ref={heading} tabIndex={-1}>{title}</h3> : <CardHead question={question} agent={agent} title={title} heading={heading} at={at} all={all} place={place} />}
      <div class="body" {...(isList ? {} : { tabIndex: 0, role: "region", "aria-label": title })}>
        <div class="whole" ref={guard.body}>
          {message !== "" && <p class="agentwords" dir="auto"><Plain text={message} /></p>}
          {isUrl && <Address address={address} />}
          {isUrl && !isList && <p class="s is-need">{canOpen(address) ? form.warning(agent) : form.notOpen}</p>}
          {!isList && fields.map((field) => <FieldInput key={field.name} field={field} value={values[field.name] ?? field.first} fault={areFaultsShown ? fault(field) : ""} onValue={(value) => setValues((before) => ({ ...before, [field.name]: value }))} />)}
          {!isList && !isUrl && <p class="xs faint">{form.from(agent)}</p>}
        </div>
      </div>
      {sending.ended !== "" ? <p class="qnote s" dir="auto">{sending.ended}</p> : obstacle !== null ? <p class="qnote s soft">{obstacle}</p> : (
        <div class={isList ? "row act" : "row act formacts"}>
          {accept}
          <button type="button" class="btn" aria-disabled={sending.isBusy} onClick={(event) => answer("decline", event)}>{form.decline}</button>
          {!isList && <button type="button" class="btn quiet" aria-disabled={sending.isBusy} onClick={(event) => answer("cancel", event)}>{form.cancel}</button>}
        </div>
      )}
      {sending.problem !== "" && <p class="qnote s is-need" role="status">{sending.problem}</p>}
    </div>
  );
}

/** Why something is refused: a field that may stay empty. */
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../words";

interface Props {
  agent: string;
  readsReasons: boolean;
  isBusy: boolean;
  onCancel: () => void;
  onReject: (reason: string, event: Event) => void;
}

export function Reason({ agent, readsReasons, isBusy, onCancel, onReject }: Props) {
  const [reason, setReason] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <div class="reason" onKeyDown={(event) => { if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); onCancel(); } }}>
      <label class="s">
        {words.question.reason} <span class="faint">{words.question.reasonLine(agent, readsReasons)}</span>
        <textarea ref={field} rows={2} dir="auto" value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
      <div class="row act">
        <button type="button" class="btn bad" aria-disabled={isBusy} onClick={(event) => onReject(reason.trim(), event)}>{isBusy ? words.question.sending : words.question.answers.reject}</button>
        <button type="button" class="btn quiet" onClick={onCancel}>{words.question.keep}</button>
      </div>
    </div>
  );
}

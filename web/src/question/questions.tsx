/** The questions of one session, one at a time; and one question whole, above the screen. */
import { useEffect } from "preact/hooks";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { isPhone } from "../frame/width";
import { words } from "../words";
import { QuestionCard, type CardPlace } from "./card";
import { shownQuestions } from "./lasting";
import { lookedAt } from "./looking";

/** The oldest question of a session with its number; the next one comes after the place was empty for a moment. */
export function SessionQuestions({ sessionId, place = "thread" }: { sessionId: string; place?: CardPlace }) {
  const shown = shownQuestions.value.filter((found) => found.question.sessionId === sessionId);
  const first = shown[0];
  if (first === undefined) return null;
  return <QuestionCard key={first.question.questionId} question={first.question} place={place} isGone={first.isGone} at={1} all={shown.filter((found) => !found.isGone).length} />;
}

/** The question that is looked at. Closing answers nothing. */
export function LookedAt() {
  const id = lookedAt.value;
  const shown = shownQuestions.value.find((found) => found.question.questionId === id);
  useEffect(() => {
    // This runs after the screen was painted without it: by then another one may have been pressed.
    if (id !== null && shown === undefined && lookedAt.peek() === id) lookedAt.value = null;
  }, [id, shown === undefined]);
  if (id === null || shown === undefined) return null;
  const same = shownQuestions.value.filter((found) => found.question.sessionId === shown.question.sessionId && !found.isGone);
  const close = () => (lookedAt.value = null);
  return (
    <Dialog label={words.question.whole} look={isPhone.value ? "sheetp" : "boxed wide"} onClose={close}>
      {isPhone.value && <span class="grab" />}
      <QuestionCard key={id} question={shown.question} place="page" isGone={shown.isGone} at={same.indexOf(shown) + 1} all={same.length} />
      <div class="row foot">
        <a class="link s" href={`#/s/${encodeURIComponent(shown.question.sessionId)}`} onClick={close}>{words.question.openSession}</a>
        <span class="grow" />
        <button type="button" class="btn quiet" onClick={close}><Icon name="x" />{words.frame.close}</button>
      </div>
    </Dialog>
  );
}

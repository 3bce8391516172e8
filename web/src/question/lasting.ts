/** Questions that are gone keep their place for a second, and say how they ended. */
import { signal, untracked, effect, type ReadonlySignal } from "@preact/signals";
import type { App } from "../app";
import type { Question } from "../model";

/** How long the place of a question that is gone stays. */
const EMPTY = 1000; // milliseconds
/** A question that ended with words of its own is shown a little longer. */
const READ = 4000;

export interface Shown {
  question: Question;
  isGone: boolean;
}

const all = signal<readonly Shown[]>([]);
/** What this page did about a question, by its id. */
const ends = new Map<string, { text: string; isLong: boolean }>();

/** Every open question and those that just ended, oldest first. */
export const shownQuestions: ReadonlySignal<readonly Shown[]> = all;

/** Notes how a question ended for this page; `isLong` if there has to be time to read it. */
export function noteEnd(questionId: string, text: string, isLong: boolean): void {
  ends.set(questionId, { text, isLong });
}

export function endOf(questionId: string): string | undefined {
  return ends.get(questionId)?.text;
}

/** Follows the open questions of the app; returns what ends that. */
export function followQuestions(app: App): () => void {
  return effect(() => {
    const open = app.questions.value;
    untracked(() => {
      const ids = new Set(open.map((question) => question.questionId));
      const gone = all.value.filter((shown) => !ids.has(shown.question.questionId));
      for (const shown of gone) {
        if (!shown.isGone) setTimeout(() => leave(shown.question.questionId), ends.get(shown.question.questionId)?.isLong ? READ : EMPTY);
      }
      const next = [...open.map((question) => ({ question, isGone: false })), ...gone.map((shown) => ({ ...shown, isGone: true }))];
      all.value = next.sort((one, other) => one.question.askedAt - other.question.askedAt || (one.question.questionId < other.question.questionId ? -1 : 1));
    });
  });
}

function leave(questionId: string): void {
  all.value = all.value.filter((shown) => !(shown.isGone && shown.question.questionId === questionId));
  ends.delete(questionId);
}

/** One answer on its way: what is sent, and what became of it. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { say } from "../frame/live";
import type { Outcome, Question } from "../model";
import { words } from "../words";
import { refusal } from "./ending";
import { noteEnd } from "./lasting";
import { focusAfter } from "./sight";

export interface Sending {
  isBusy: boolean;
  /** How it ended, if it did by this answer. */
  ended: string;
  problem: string;
  send: (answer: Outcome | { action: string; content?: unknown }, done: string) => Promise<void>;
}

/** Sends answers to a question; `card` is what the focus leaves afterwards. */
export function useAnswering(question: Question, agent: string, card: () => HTMLElement | null): Sending {
  const app = useApp();
  const [isBusy, setBusy] = useState(false);
  const [ended, setEnded] = useState("");
  const [problem, setProblem] = useState("");
  const send: Sending["send"] = async (answer, done) => {
    if (isBusy || ended !== "") return;
    setBusy(true);
    setProblem("");
    const hadFocus = card()?.contains(document.activeElement) ?? false;
    try {
      const answered = await app.answer(question, answer);
      const refused = refusal(question, answered, agent);
      if (refused !== null && !refused.isOver) {
        setProblem(refused.text);
        say(refused.text);
        return;
      }
      const text = refused?.text ?? done;
      noteEnd(question.questionId, text, refused !== null);
      setEnded(text);
      say(text);
      if (hadFocus) focusAfter(card());
    } catch (error) {
      const text = words.question.lost(error instanceof Error ? error.message : String(error));
      setProblem(text);
      say(text);
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, ended, problem, send };
}

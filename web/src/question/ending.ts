/** How a question ended, in words. */
import { clock } from "../frame/times";
import type { Answered, Question } from "../model";
import { words } from "../words";

function directionOf(question: Question, option: string | undefined): "allow" | "reject" | "other" {
  const options = question.params["options"];
  if (!Array.isArray(options) || option === undefined) return "other";
  const found = options.find((item: { optionId?: unknown }) => item.optionId === option) as { kind?: unknown } | undefined;
  if (typeof found?.kind !== "string") return "other";
  return found.kind.startsWith("allow") ? "allow" : found.kind.startsWith("reject") ? "reject" : "other";
}

interface End {
  option?: string;
  who?: string;
  at?: number;
}

/** Returns a line such as "Allowed by phone, 10:02." */
export function answeredLine(question: Question, end: End): string {
  return words.question.by(words.question.what[directionOf(question, end.option)], end.who ?? "", end.at === undefined ? "" : clock(end.at));
}

/** Returns what to say to a user whose answer was not used; null if it was. */
export function refusal(question: Question, answered: Answered, agent: string): { text: string; isOver: boolean } | null {
  switch (answered.result) {
    case "accepted":
      return null;
    case "answered": {
      const line = words.question.by(words.question.lateWhat[directionOf(question, answered.option)], answered.who ?? "", answered.at === undefined ? "" : clock(answered.at));
      return { text: words.question.late(line), isOver: true };
    }
    case "withdrawn":
      return { text: words.question.withdrawn(agent), isOver: true };
    case "changed":
      return { text: words.question.changed, isOver: false };
    case "forbidden":
      return { text: words.question.viewOnly, isOver: true };
    case "lost":
      return { text: words.question.lost(answered.message ?? ""), isOver: false };
  }
}

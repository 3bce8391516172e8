/** What a row of the list says about its session: its state, name, folder and time. Pure. */
import type { Question, Row, SessionMood } from "../model";
import { words } from "../words";

/** Returns what a session needs or does. */
export function moodOf(row: Row): SessionMood {
  const own = row.own;
  if ((own.questions?.length ?? 0) > 0 || own.state === "waiting") return "need";
  if (own.turn != null || own.state === "running") return "run";
  if ((own.queued ?? 0) > 0 || (own.waiting?.length ?? 0) > 0) return "queued";
  if (own.error != null || own.ended?.error !== undefined || own.state === "lost" || own.state === "stuck") return "fail";
  return own.ended != null ? "done" : "idle";
}

/** Returns its title, the name or first prompt of it, or a word for none. */
export function titleOf(row: Row): string {
  return row.title || row.own.name || row.own.prompt || words.board.untitled;
}

/** Returns the last part of a path. */
export function folderName(path: string): string {
  return path.replace(/[/\\]+$/, "").split(/[/\\]/).at(-1) || path;
}

/** Returns since when it is as it is: asked, begun, or last changed. */
export function sinceOf(row: Row): number {
  const questions = row.own.questions ?? [];
  if (questions.length > 0) return Math.min(...questions.map((question) => question.askedAt));
  return row.own.turn?.startedAt ?? changedAt(row);
}

function changedAt(row: Row): number {
  return row.updatedAt ? Date.parse(row.updatedAt) || 0 : 0;
}

/** Returns the second line of a row: the cause of a failure, what waits, or the last line of the agent. */
export function lastLineOf(row: Row, mood: SessionMood): string {
  if (mood === "fail") return row.own.error?.message ?? row.own.ended?.error ?? "";
  if (mood === "need") return row.own.questions?.[0] === undefined ? "" : wishOf(row.own.questions[0]);
  return row.own.lastLine ?? "";
}

/** Returns what a question is for, in the words of a list. */
function wishOf(question: Question): string {
  return words.board.wishes[question.kind] ?? words.board.wishes["other"] ?? "";
}

export type GroupName = "need" | "run" | "fail" | "done" | "idle";

/** Returns the rows in their groups and in the order of each: what waits longest first, else what changed last. */
export function grouped(rows: readonly Row[]): Map<GroupName, Row[]> {
  const groups = new Map<GroupName, Row[]>([["need", []], ["run", []], ["fail", []], ["done", []], ["idle", []]]);
  for (const row of rows) {
    const mood = moodOf(row);
    groups.get(mood === "queued" ? "run" : mood)?.push(row);
  }
  groups.get("need")?.sort((one, other) => sinceOf(one) - sinceOf(other));
  groups.get("run")?.sort((one, other) => sinceOf(other) - sinceOf(one));
  groups.get("fail")?.sort((one, other) => changedAt(other) - changedAt(one));
  groups.get("done")?.sort((one, other) => Number(isOpen(other)) - Number(isOpen(one)) || changedAt(other) - changedAt(one));
  groups.get("idle")?.sort((one, other) => changedAt(other) - changedAt(one));
  return groups;
}

/** Whether a session has changes that were not reviewed. */
export function isOpen(row: Row): boolean {
  const changes = row.own.changes;
  return changes != null && changes.files > (changes.reviewed ?? 0);
}

/** Returns what the sessions that were used today cost, by currency. */
export function costOfToday(rows: readonly Row[], today: string): { amount: number; currency: string }[] {
  const sums = new Map<string, number>();
  for (const row of rows) {
    const cost = row.own.cost;
    if (cost == null || new Date(changedAt(row)).toDateString() !== today) continue;
    sums.set(cost.currency, (sums.get(cost.currency) ?? 0) + cost.amount);
  }
  return [...sums].map(([currency, amount]) => ({ amount, currency }));
}

/** Whether all words of a text occur in what a row shows. */
export function isFound(row: Row, text: string): boolean {
  const shown = [titleOf(row), row.own.agent, row.cwd, row.own.branch, row.own.lastLine, row.own.prompt].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => shown.includes(word));
}

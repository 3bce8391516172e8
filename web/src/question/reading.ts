/** A question as the card shows it: read from the request and from what the host says about it. Pure. */
import type { Question } from "../model";
import { words } from "../words";

type Json = Record<string, unknown>;

export interface AskedRow {
  key: string;
  lines: string[];
  note: string;
}

export interface Answer {
  id: string;
  kind: string;
  label: string;
  /** What it does or writes, in the host's words. */
  effect: Effect;
  allows: boolean;
  isAlways: boolean;
  /** Whether it can be chosen: its kind is known, and its id has one meaning. */
  isClear: boolean;
}

/** A sentence around a rule: the rule is shown as code. */
export interface Effect {
  before: string;
  rule?: string;
  after?: string;
}

export interface Asked {
  kind: string;
  title: string;
  rows: AskedRow[];
  diffs: { path: string; oldText: string | null; newText: string }[];
  /** Text of the agent that belongs to the question. */
  texts: string[];
  /** The whole input, if the host could not read or show everything. */
  input: string;
  address: string;
  folder: string;
  why: string;
  agentTitle: string;
  commandCount: number;
  outside: string[];
  isWhole: boolean;
  readsReasons: boolean;
  answers: Answer[];
}

function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function texts(value: unknown): string[] {
  return list(value).filter((item): item is string => typeof item === "string");
}

/** Returns what the host says about a question. */
export function detailsOf(question: Question): Json {
  return object(object(question.params["_meta"])["dragoman"]);
}

/** Returns what a permission request asks. */
export function readQuestion(question: Question, agent: string): Asked {
  const call = object(question.params["toolCall"]);
  const details = detailsOf(question);
  const said = object(details["words"]);
  const input = call["rawInput"];
  const content = list(call["content"]).map(object);
  const rows: AskedRow[] = list(said["rows"]).map(object).map((row) => ({ key: text(row["key"]), lines: texts(row["lines"]), note: text(row["note"]) }));
  const kind = text(said["kind"]) || question.kind || text(call["kind"]) || "other";
  const commands = texts(details["commands"]);
  if (rows.length === 0) rows.push(...rowsOf(call, commands, texts(details["outside"])));
  const isWhole = said["isWhole"] !== false;
  const isKnown = rows.some((row) => row.lines.length > 0 && row.key !== "tool");
  const isRaw = input !== undefined && input !== null && (!isWhole || (!isKnown && content.length === 0));
  const readsReasons = details["readsReasons"] === true;
  return {
    kind,
    title: titleOf(kind, rows, number(details["commandCount"]) || commands.length),
    rows,
    diffs: content
      .filter((item) => item["type"] === "diff")
      .map((item) => ({ path: text(item["path"]), oldText: typeof item["oldText"] === "string" ? item["oldText"] : null, newText: text(item["newText"]) })),
    texts: content.map((item) => text(object(item["content"])["text"])).filter((found) => isNew(found, rows)),
    input: isRaw ? JSON.stringify(input, null, 2) : "",
    address: kind === "fetch" ? text(object(input)["url"]) : "",
    folder: text(details["cwd"]),
    why: text(details["why"]) || text(said["why"]),
    agentTitle: text(said["agentTitle"]) || (rows.length === 0 ? text(call["title"]) : ""),
    commandCount: number(details["commandCount"]),
    outside: texts(details["outside"]),
    isWhole,
    readsReasons,
    answers: answersOf(question, agent, object(details["options"]), readsReasons),
  };
}

function isNew(found: string, rows: AskedRow[]): boolean {
  return found !== "" && !rows.some((row) => row.lines.join("\n") === found.trim());
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** Reads the request itself, if a host of another version sent no words. */
function rowsOf(call: Json, commands: string[], outside: string[]): AskedRow[] {
  const input = object(call["rawInput"]);
  const lines = commands.length > 0 ? commands : text(input["command"]) === "" ? [] : [text(input["command"])];
  const paths = list(call["locations"]).map((place) => text(object(place)["path"])).filter((path) => path !== "");
  return [
    ...lines.map((line) => ({ key: "shell", lines: line.split("\n"), note: "" })),
    ...[...new Set(paths)].map((path) => ({ key: "path", lines: [path], note: outside.includes(path) ? words.question.outside : "" })),
  ];
}

function titleOf(kind: string, rows: AskedRow[], commands: number): string {
  const titles = words.question.titles;
  const paths = rows.filter((row) => row.key === "path").length;
  switch (kind) {
    case "execute":
      return commands > 1 ? titles.commands(commands) : titles.command;
    case "edit":
      return paths > 1 ? titles.edits(paths) : titles.edit;
    case "delete":
      return paths > 1 ? titles.deletes(paths) : titles.delete;
    case "move":
      return titles.move;
    case "read":
      return paths > 1 ? titles.reads(paths) : titles.read;
    case "search":
      return titles.search;
    case "fetch":
      return titles.fetch;
    case "switch_mode":
      return titles.mode;
    default:
      return titles.other;
  }
}

const ORDER = ["allow_once", "allow_always", "reject_once", "reject_always"];
// Names that say what the kind says; any other name of an agent stands behind our word.
const PLAIN = /^(allow|allow once|yes|approve|accept|proceed|reject|reject once|no|deny|decline|refuse|always|never|always allow|allow always|always reject|reject always)$/i;

function answersOf(question: Question, agent: string, always: Json, readsReasons: boolean): Answer[] {
  const options = list(question.params["options"]).map(object);
  const answers = options.map((option) => {
    const id = text(option["optionId"]);
    const kind = text(option["kind"]);
    const name = text(option["name"]);
    const twins = new Set(options.filter((other) => other["optionId"] === option["optionId"]).map((other) => other["kind"]));
    const isAlways = kind.endsWith("_always");
    const details = object(always[id] ?? object(object(option["_meta"])["dragoman"]));
    const isOurs = details["by"] === "host" || details["is_certain"] === true;
    const label = labelOf(kind, details);
    return {
      id,
      kind,
      label: ORDER.includes(kind) && (PLAIN.test(name.trim()) || isOurs) ? label : `${label}: ${name}`,
      effect: isAlways ? effectOf(details, agent, isOurs) : kind === "allow_once" ? { before: words.question.nothing } : { before: readsReasons ? words.question.readsReason(agent) : words.question.nextPrompt },
      allows: !kind.startsWith("reject"),
      isAlways,
      isClear: twins.size === 1 && ORDER.includes(kind),
    };
  });
  const rank = (answer: Answer) => (ORDER.includes(answer.kind) ? ORDER.indexOf(answer.kind) : ORDER.length);
  return answers.sort((one, other) => rank(one) - rank(other));
}

function labelOf(kind: string, details: Json): string {
  const labels = words.question.answers;
  const kept = details["kept"];
  if (kind === "allow_once") return labels.once;
  if (kind === "reject_once") return labels.reject;
  const scope = kept === "project" || kept === "session" ? kept : "other";
  if (kind === "allow_always") return labels.always[scope];
  return kind === "reject_always" ? labels.never[scope] : labels.unclear;
}

function effectOf(details: Json, agent: string, isOurs: boolean): Effect {
  const own = words.question.effects;
  const rule = text(details["rule"]);
  if (rule === "") return { before: own.agentOnly(agent) };
  const line = `${details["action"] === "deny" ? "deny" : "allow"} ${rule}`;
  if (!isOurs) return { before: own.agentKeeps(agent), rule: line, after: own.agentKeepsAfter };
  if (details["kept"] === "session") return { before: own.session, rule: line, after: "." };
  const file = text(details["file"]).split(/[/\\]/).at(-1) || "rules.json";
  return { before: own.writes, rule: line, after: own.project(file) };
}

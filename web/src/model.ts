/** What the parts of the page share: the shapes of sessions, questions and threads. No code, no DOM. */
import type { ReadonlySignal } from "@preact/signals";
import type { Reaches } from "./state/settings";
import type { HostMethod } from "./wire/types";

// From the host (WIRE.md): see docs/host.md for each member.

export type SessionMood = "need" | "run" | "queued" | "done" | "fail" | "idle";

export interface Row {
  sessionId: string;
  cwd: string;
  title?: string | null;
  updatedAt?: string | null;
  /** `_meta.dragoman` of the row, as the host sends it. */
  own: RowFacts;
}

export interface RowFacts {
  agent?: string;
  state?: string;
  attached?: number;
  head?: number;
  name?: string | null;
  queued?: number;
  cost?: { amount: number; currency: string } | null;
  steps?: { done: number; total: number } | null;
  turn?: { promptId: string; startedAt: number } | null;
  waiting?: WaitingPrompt[];
  questions?: Question[];
  lastLine?: string;
  context?: { used: number; size: number } | null;
  changes?: { files: number; added: number; removed: number; reviewed?: number } | null;
  branch?: string | null;
  worktree?: { name: string; project: string } | null;
  parent?: string | null;
  archivedAt?: number | null;
  /** How the last turn ended. */
  ended?: { stopReason?: string; error?: string } | null;
  error?: { message: string; reason?: string; exitCode?: number; signal?: string } | null;
  /** The beginning of the first prompt: many agents give a session no title. */
  prompt?: string;
}

export interface WaitingPrompt {
  promptId: string;
  text: string;
  who: string;
  at: number;
  steers: boolean;
}

export interface Question {
  questionId: string;
  sessionId: string;
  askedAt: number;
  method: "session/request_permission" | "elicitation/create";
  kind: string;
  title: string;
  // The params of the request as the host sent them, with `_meta.dragoman`.
  params: Record<string, unknown>;
  /** Left out for devices that may only look. */
  digest?: string;
}

export type Outcome =
  | { outcome: "selected"; optionId: string; _meta?: { dragoman: { reason: string } } }
  | { outcome: "cancelled" };

/** How a question ended: `_dragoman/answered` of the host, or taken back by the agent. */
export type QuestionEnd = { how: "answered"; option?: string; who?: string; at?: number } | { how: "withdrawn" };

/** What became of an answer. */
export type Answered =
  | { result: "accepted" }
  | { result: "answered"; option?: string; who?: string; at?: number }
  | { result: "withdrawn" | "changed" | "forbidden" | "lost"; message?: string };

// The thread of one session, folded from updates in the same way as dragoman's `state/`.

export type Part =
  | { kind: "text"; text: string }
  | { kind: "image"; mimeType: string; data: string; uri?: string; attachment?: string }
  | { kind: "audio"; mimeType: string; data: string; attachment?: string }
  | { kind: "link"; uri: string; name: string; mimeType?: string; size?: number }
  | { kind: "resource"; uri: string; text?: string; blob?: string; mimeType?: string; attachment?: string }
  | { kind: "unknown"; value: unknown };

export interface MessageItem {
  kind: "message";
  key: string;
  role: "user" | "agent" | "thought";
  /** The id that the agent or the host gave it. */
  id?: string;
  parts: Part[];
  /** The call of a subagent that it belongs to. */
  parent?: string;
  seq: number;
  at?: number;
  endedAt?: number;
}

export type ToolPart =
  | { kind: "content"; part: Part }
  | { kind: "diff"; path: string; oldText: string | null; newText: string }
  | { kind: "terminal"; terminalId: string };

export interface Output {
  terminalId: string;
  text: string;
  isCut: boolean;
  exitCode?: number | null;
  signal?: string | null;
  isOver: boolean;
  cwd?: string;
}

export interface ToolItem {
  kind: "tool";
  key: string;
  id: string;
  title: string;
  toolKind: string;
  status: "pending" | "in_progress" | "completed" | "failed" | "cancelled";
  content: ToolPart[];
  locations: { path: string; line?: number }[];
  rawInput?: unknown;
  rawOutput?: unknown;
  /** Calls that belong to this one (subagents, tasks), in their order. */
  children: ToolItem[];
  parent?: string;
  /** How long it took, if the host measured it. */
  seconds?: number;
  seq: number;
  at?: number;
  endedAt?: number;
}

export interface NoticeItem {
  kind: "notice";
  key: string;
  text: string;
  level: "info" | "warning" | "error";
  seq: number;
  at?: number;
}

export interface TurnEndItem {
  kind: "turn";
  key: string;
  stopReason: string;
  seconds?: number;
  error?: string;
  seq: number;
  at?: number;
}

export interface UnknownItem {
  kind: "unknown";
  key: string;
  update: unknown;
  seq: number;
  at?: number;
}

/** The plan at the place where it was first reported; `Thread.plan` is the current one. */
export interface PlanItem {
  kind: "plan";
  key: string;
  id?: string;
  entries: PlanEntry[];
  /** Of a plan that is a text. */
  text?: string;
  /** Of a plan that is a file. */
  uri?: string;
  isRemoved: boolean;
  seq: number;
  at?: number;
}

/** The context was, or is being, made shorter. */
export interface CompactionItem {
  kind: "compaction";
  key: string;
  id: string;
  status: string;
  parts: Part[];
  error?: string;
  seq: number;
  at?: number;
}

/** A child session (unstable), with what it did. */
export interface SubagentItem {
  kind: "subagent";
  key: string;
  sessionId: string;
  title?: string;
  description?: string;
  state?: string;
  children: Item[];
  seq: number;
  at?: number;
}

/** A message from one session to another (unstable). */
export interface BetweenItem {
  kind: "between";
  key: string;
  id: string;
  sender?: string;
  recipient?: string;
  parts: Part[];
  seq: number;
  at?: number;
}

export type Item =
  | MessageItem
  | ToolItem
  | NoticeItem
  | TurnEndItem
  | PlanItem
  | CompactionItem
  | SubagentItem
  | BetweenItem
  | UnknownItem;

/** An item and its revision: a component that reads `revision.value` is drawn again only if this item changed. */
export interface LiveItem {
  item: Item;
  revision: ReadonlySignal<number>;
}

export interface PlanEntry {
  content: string;
  status: "pending" | "in_progress" | "completed";
  priority?: string;
}

export interface Option {
  id: string;
  name: string;
  category?: string;
  description?: string;
  kind: "select" | "boolean";
  value: string | boolean;
  choices: { value: string; name: string; description?: string; group?: string }[];
}

export interface Command {
  name: string;
  description: string;
  hint?: string;
}

/** A limit of the provider that an agent reports; each member only if it is known. */
export interface Quota {
  /** Such as `five hour`. */
  name?: string;
  percent?: number;
  isUsedUp: boolean;
  isNearlyUsedUp: boolean;
  resetsAt?: number;
}

export interface Thread {
  sessionId: string;
  /** Positions grow at both ends: history is put in front, updates behind. */
  items: ReadonlySignal<readonly LiveItem[]>;
  outputs: (terminalId: string) => ReadonlySignal<Output | undefined>;
  plan: ReadonlySignal<readonly PlanEntry[]>;
  modes: ReadonlySignal<{ current: string; modes: { id: string; name: string; description?: string }[] } | null>;
  options: ReadonlySignal<readonly Option[]>;
  /** How far modes and values of options reach, as the host says. */
  reaches: ReadonlySignal<Reaches>;
  commands: ReadonlySignal<readonly Command[]>;
  usage: ReadonlySignal<{ used?: number; size?: number; cost?: { amount: number; currency: string } } | null>;
  title: ReadonlySignal<string | null>;
  turn: ReadonlySignal<{ promptId: string; startedAt: number } | null>;
  /** When something came from the agent last, in milliseconds since 1970; 0 if nothing did. */
  readonly heardAt: number;
  /** How much of a limit of the agent's provider is used, if the agent says so. */
  quota: ReadonlySignal<Quota | null>;
  questions: ReadonlySignal<readonly Question[]>;
  waiting: ReadonlySignal<readonly WaitingPrompt[]>;
  /** Prompts of this page that the host does not have yet. */
  unsent: ReadonlySignal<readonly Unsent[]>;
  /** What the agent takes in a prompt, and whether it can be steered. */
  input: ReadonlySignal<{ image: boolean; audio: boolean; embeddedContext: boolean; steer: boolean }>;
  hasOlder: ReadonlySignal<boolean>;
  isLoading: ReadonlySignal<boolean>;
  problem: ReadonlySignal<string | null>;
}

export interface Unsent {
  promptId: string;
  text: string;
  attachments: Attached[];
  state: "sending" | "kept" | "failed";
  problem?: string;
}

export interface Attached {
  /** The host's id once it is there. */
  id?: string;
  name: string;
  mimeType: string;
  bytes: number;
  state: "uploading" | "ready" | "failed" | "refused";
  problem?: string;
}

export type Line =
  | { state: "connecting" }
  | { state: "connected" }
  | { state: "reconnecting"; since: number }
  | { state: "offline"; since: number }
  | { state: "draining" }
  | { state: "unpaired"; why: "new" | "removed" };

export interface Host {
  user: string;
  device: string | null;
  /** Of its machine, or its own if it does not give that. */
  name: string;
  version: string;
  /** The version of the page that it serves now. */
  page: string | null;
  rights: readonly string[];
  methods: readonly HostMethod[];
  folders: readonly string[];
}

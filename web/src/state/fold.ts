/**
 * The state of one session: updates folded in order, in the same way as dragoman's `state/` (a test compares the two).
 *
 * Items are changed in place and keep their identity; `changed` and `isMoved` say what has to be drawn again, and who
 * draws clears them. No DOM, no clock, no signals.
 */
import type { CompactionItem, BetweenItem, Item, MessageItem, PlanEntry, PlanItem, Quota, SubagentItem, ToolItem } from "../model";
import type { SessionUpdate } from "../wire/types";
import { Outputs } from "./outputs";
import { append } from "./parts";
import { readQuota } from "./quota";
import { list, number, object, own, present, text, type Json } from "./read";
import { Settings } from "./settings";
import { change, complete, isFinished, isRunning, newCall, show, type Call } from "./tools";

export type Role = MessageItem["role"];

export interface Usage {
  used?: number;
  size?: number;
  cost?: { amount: number; currency: string };
}

export interface TurnEnd {
  promptId?: string;
  stopReason?: string;
  error?: string;
  seconds?: number;
  seq?: number;
  at?: number;
}

interface Turn {
  index: number;
  /** The order of the first call that can be of it. */
  start: number;
  echo: unknown[];
  message: MessageItem | null;
}

const ROLES: Readonly<Partial<Record<SessionUpdate["sessionUpdate"], Role>>> = {
  user_message_chunk: "user",
  agent_message_chunk: "agent",
  agent_thought_chunk: "thought",
};

/** A message or summary whose last part is plain text that grows. */
interface Growing {
  parts: MessageItem["parts"];
}

export class SessionFold {
  timeline: Item[] = [];
  readonly settings = new Settings();
  readonly outputs = new Outputs();
  readonly calls = new Map<string, Call>();
  readonly #byItem = new Map<ToolItem, Call>();
  readonly children = new Map<string, SessionFold>();
  plan: PlanEntry[] = [];
  usage: Usage | null = null;
  quota: Quota | null = null;
  title: string | null = null;
  /** The number of the last event that was folded. */
  cursor = 0;
  readonly changed = new Set<Item>();
  isMoved = false;
  readonly ended = new Set<string>();

  readonly #messages = new Map<string, MessageItem>();
  readonly #plans = new Map<string, PlanItem>();
  readonly #compactions = new Map<string, CompactionItem>();
  readonly #subagents = new Map<string, SubagentItem>();
  readonly #between = new Map<string, BetweenItem>();
  readonly #growing = new WeakSet<Growing>();
  readonly #keys = new Map<string, number>();
  #open: MessageItem | null = null;
  #plan: PlanItem | null = null;
  #planPrompt = 0;
  #userCount = 0;
  #order = 0;
  #turns = 0;
  #running: Turn | null = null;
  #late: Turn | null = null;

  get isRunning(): boolean {
    return this.#running !== null;
  }

  /** Takes the modes and options of an answer that opened the session, or changed one of them. */
  open(answer: unknown): void {
    const found = object(answer);
    this.settings.setReach(own(found)["reach"]);
    if (found["modes"]) this.settings.setModes(found["modes"]);
    if (Array.isArray(found["configOptions"])) this.settings.setOptions(found["configOptions"]);
  }

  fold(value: unknown, seq = 0, at?: number): void {
    const update = object(value);
    if (seq > this.cursor) this.cursor = seq;
    switch (update["sessionUpdate"] as SessionUpdate["sessionUpdate"]) {
      case "user_message_chunk":
      case "agent_message_chunk":
      case "agent_thought_chunk":
        return this.#chunk(update, seq, at);
      case "tool_call":
      case "tool_call_update":
        return this.#tool(update, seq, at);
      case "plan":
        return this.#setPlan(update, seq, at);
      case "plan_update":
        return this.#namedPlan(update, seq, at);
      case "plan_removed": {
        const known = this.#plans.get(text(update["planId"]) ?? "");
        if (known === undefined) return;
        this.#plans.delete(known.id ?? "");
        known.isRemoved = true;
        this.changed.add(known);
        return;
      }
      case "available_commands_update":
        return this.settings.foldCommands(update["availableCommands"]);
      case "current_mode_update":
        return this.settings.foldMode(text(update["currentModeId"]) ?? "");
      case "config_option_update":
        return this.settings.setOptions(update["configOptions"]);
      case "session_info_update":
        if ("title" in update) this.title = text(update["title"]) ?? null;
        return;
      case "usage_update":
        return this.#setUsage(update);
      case "notice":
        return this.note(noticeText(update), text(update["severity"]) ?? "info", seq, at);
      case "compaction_update":
      case "compaction_summary_chunk":
        return this.#compaction(update, seq, at);
      case "subagent_update":
        return this.#subagent(update, seq, at);
      case "session_message":
      case "session_message_chunk":
        return this.#message(update, seq, at);
      default:
        return this.#add(present<Item>({ kind: "unknown", key: this.#key(`u${seq}`), update: value, seq, at }));
    }
  }

  /** Adds a notice of the host or of the agent. */
  note(words: string, severity: string, seq: number, at?: number): void {
    const level = severity === "warning" || severity === "error" ? severity : "info";
    this.#add(present<Item>({ kind: "notice", key: this.#key(`n${seq}`), text: words, level, seq, at }));
  }

  /** Begins a turn; with a prompt, the prompt becomes a message of the user. */
  beginTurn(prompt: readonly unknown[] | null, id: string | null = null, seq = 0, at?: number): void {
    this.#close();
    this.#running = { index: this.#turns, start: this.#order, echo: [...(prompt ?? [])], message: null };
    this.#turns += 1;
    this.#late = null;
    if (prompt === null) return;
    const message = this.#begin("user", id, seq, at);
    for (const block of prompt) this.#append(message, block);
    this.#running.message = message;
  }

  /** Ends the turn that runs. After a cancel, or without an answer, nothing will finish what it began. */
  endTurn(end: TurnEnd): void {
    if (end.promptId !== undefined) {
      if (this.ended.has(end.promptId)) return;
      this.ended.add(end.promptId);
    }
    if (end.seq !== undefined && end.seq > this.cursor) this.cursor = end.seq;
    const turn = this.#running;
    if (turn !== null) {
      if (end.stopReason === undefined || end.stopReason === "cancelled") this.#cancelUnfinished(turn.start);
      this.#late = end.stopReason === "cancelled" ? turn : null;
      this.#running = null;
    }
    if (end.stopReason !== "cancelled") this.#close();
    this.#add(endItem(end, this.#key(`e${end.promptId ?? end.seq ?? this.#turns}`)));
  }

  /** Marks what the turn that runs began, when a cancel of it is sent. */
  cancelTurn(): void {
    if (this.#running !== null) this.#cancelUnfinished(this.#running.start);
  }

  /** Takes the tool call of a question: some agents do not report it otherwise. */
  notePermission(call: unknown, at?: number): void {
    this.#tool({ ...object(call), sessionUpdate: "tool_call_update" }, this.cursor, at);
  }

  #cancelUnfinished(start: number): void {
    for (const call of this.calls.values()) {
      if (call.order < start || !isRunning(call)) continue;
      call.isCancelled = true;
      show(call);
      this.#touch(call.item);
    }
  }

  /** Puts the ends of turns of a replayed history, the first `length` items, into their places. */
  placeEnds(ended: readonly unknown[], begun: string | null, length = this.timeline.length): void {
    const ends = new Map<string, Json>();
    for (const one of ended) {
      const end = object(one);
      const promptId = text(end["promptId"]);
      if (promptId !== undefined && this.ended.has(promptId)) continue;
      ends.set(text(end["messageId"]) ?? "", end);
    }
    const starts = new Set([...ends.keys(), ...(begun === null ? [] : [begun])]);
    const isStart = (item: Item): item is MessageItem =>
      item.kind === "message" && item.role === "user" && item.id !== undefined && starts.has(item.id);
    const history = this.timeline.slice(0, length);
    const known = new Set(history.filter(isStart).map((item) => item.id ?? ""));
    const placed: Item[] = [];
    // The first turn may have begun in an earlier part.
    let current = [...ends].find(([id]) => !known.has(id))?.[1];
    const end = (): void => {
      if (current === undefined) return;
      const found = readEnd(current);
      if (found.promptId !== undefined) this.ended.add(found.promptId);
      placed.push(endItem(found, this.#key(`e${found.promptId ?? placed.length}`)));
      current = undefined;
    };
    for (const item of history) {
      if (isStart(item)) {
        end();
        current = ends.get(item.id ?? "");
      }
      placed.push(item);
    }
    end();
    this.timeline = [...placed, ...this.timeline.slice(length)];
    this.isMoved = true;
  }

  /** Puts an earlier part of the history in front. What it begins and this part continues becomes one item. */
  prepend(earlier: SessionFold): void {
    const gone = new Set<Item>();
    const front = earlier.timeline.map((item) => this.#joined(item, earlier, gone));
    for (const [key, message] of earlier.#messages) if (!this.#messages.has(key)) this.#messages.set(key, message);
    for (const [id, call] of earlier.calls) {
      if (this.calls.has(id)) continue;
      call.order = -1;
      call.turn = null;
      this.calls.set(id, call);
    }
    for (const id of earlier.ended) this.ended.add(id);
    for (const [id, output] of earlier.outputs.byId) if (!this.outputs.byId.has(id)) this.outputs.byId.set(id, output);
    this.timeline = [...front, ...this.timeline.filter((item) => !gone.has(item))];
    for (const item of this.timeline) if (item.kind === "tool") this.#adopt(item);
    this.isMoved = true;
  }

  /** What is known of a call beyond what is shown. */
  callOf(item: ToolItem): Call | undefined {
    return this.#byItem.get(item);
  }

  /** The items that stand for themselves: calls of a known call are within it. */
  shown(): Item[] {
    return this.timeline.filter((item) => item.kind !== "tool" || !this.#hasParent(item));
  }

  // Messages

  #chunk(update: Json, seq: number, at?: number): void {
    const role = ROLES[update["sessionUpdate"] as SessionUpdate["sessionUpdate"]] ?? "agent";
    const id = text(update["messageId"]) ?? null;
    const turn = this.#running;
    if (role === "user" && turn !== null && turn.echo.length > 0 && same(turn.echo[0], update["content"])) {
      turn.echo.shift();
      if (id !== null && turn.message !== null) {
        turn.message.id = id;
        this.#messages.set(`user ${id}`, turn.message);
      }
      return;
    }
    let message: MessageItem;
    if (id !== null) message = this.#messages.get(`${role} ${id}`) ?? this.#begin(role, id, seq, at);
    else if (this.#open?.role !== role || this.#open.id !== undefined) message = this.#begin(role, null, seq, at);
    else message = this.#open;
    this.#open = message;
    this.#append(message, update["content"]);
    if (at !== undefined) message.endedAt = at;
    const parent = parentOf(update["_meta"]);
    if (parent !== undefined) message.parent = parent;
    this.changed.add(message);
  }

  #begin(role: Role, id: string | null, seq: number, at?: number): MessageItem {
    const key = this.#key(id === null ? `m${seq}` : `m${role[0]}${id}`);
    const message = present<MessageItem>({ kind: "message", key, role, id: id ?? undefined, parts: [], seq, at });
    if (role === "user") this.#userCount += 1;
    if (id !== null) this.#messages.set(`${role} ${id}`, message);
    this.#add(message);
    return message;
  }

  #append(item: Growing, block: unknown): void {
    if (append(item.parts, block, this.#growing.has(item))) this.#growing.add(item);
    else this.#growing.delete(item);
  }

  #close(): void {
    this.#open = null;
  }

  // Tool calls

  #tool(update: Json, seq: number, at?: number): void {
    const id = text(update["toolCallId"]);
    if (id === undefined) return;
    const isAnnounced = update["sessionUpdate"] === "tool_call";
    let call = this.calls.get(id);
    if (call === undefined || (isAnnounced && this.#isOver(call))) {
      this.#close();
      call = newCall(id, this.#key(`t${id}`), this.#turn(), this.#order, isAnnounced, seq);
      this.#order += 1;
      if (at !== undefined) call.item.at = at;
      this.calls.set(id, call);
      this.#byItem.set(call.item, call);
      this.#add(call.item);
      if (this.#late !== null && !isFinished(update["status"])) call.isCancelled = true;
    } else if (update["status"] === "completed") call.isCancelled = false;
    change(call, update, at);
    this.outputs.fold(update["_meta"]);
    const parent = parentOf(update["_meta"]);
    if (parent !== undefined && parent !== id && call.item.parent !== parent) {
      call.item.parent = parent;
      this.#adopt(call.item);
    }
    this.#touch(call.item);
  }

  /** Marks a call and those that it is within. */
  #touch(item: ToolItem): void {
    const seen = new Set<ToolItem>();
    for (let one: ToolItem | undefined = item; one !== undefined && !seen.has(one); one = this.#parent(one)) {
      seen.add(one);
      this.changed.add(one);
    }
  }

  #parent(item: ToolItem): ToolItem | undefined {
    return item.parent === undefined ? undefined : this.calls.get(item.parent)?.item;
  }

  #hasParent(item: ToolItem): boolean {
    return this.#parent(item)?.children.includes(item) ?? false;
  }

  #adopt(item: ToolItem): void {
    const parent = this.#parent(item);
    if (parent === undefined || parent.children.includes(item)) return;
    // A circle of parents shows its members as if they had none.
    for (let one: ToolItem | undefined = parent; one !== undefined; one = this.#parent(one)) if (one === item) return;
    parent.children = [...parent.children, item];
    this.isMoved = true;
    this.#touch(item);
  }

  /** Whether an announcement is a new call with an old id: some agents begin to count again in each turn. */
  #isOver(call: Call): boolean {
    return this.#running !== null && call.turn !== this.#turn() && !isRunning(call);
  }

  #turn(): number | null {
    return (this.#running ?? this.#late)?.index ?? null;
  }

  // Everything else

  #setPlan(update: Json, seq: number, at?: number): void {
    this.plan = entriesOf(update["entries"]);
    if (this.#plan === null || this.#planPrompt !== this.#userCount) {
      this.#close();
      this.#plan = present<PlanItem>({ kind: "plan", key: this.#key(`p${seq}`), entries: [], isRemoved: false, seq, at });
      this.#planPrompt = this.#userCount;
      this.#add(this.#plan);
    }
    this.#plan.entries = this.plan;
    this.changed.add(this.#plan);
  }

  #namedPlan(update: Json, seq: number, at?: number): void {
    const plan = object(update["plan"]);
    const id = text(plan["planId"]);
    if (id === undefined) return;
    let item = this.#plans.get(id);
    if (item === undefined) {
      this.#close();
      item = present<PlanItem>({ kind: "plan", key: this.#key(`p-${id}`), id, entries: [], isRemoved: false, seq, at });
      this.#plans.set(id, item);
      this.#add(item);
    }
    // All of it is new: a text that takes the place of a file leaves nothing of that.
    item.entries = plan["type"] === "items" ? entriesOf(plan["entries"]) : [];
    delete item.text;
    delete item.uri;
    if (plan["type"] === "markdown") item.text = text(plan["content"]) ?? "";
    if (plan["type"] === "file") item.uri = text(plan["uri"]) ?? "";
    this.changed.add(item);
  }

  #setUsage(update: Json): void {
    const limit = object(update["_meta"])["_claude/rateLimit"];
    if (limit !== undefined) this.quota = readQuota(object(limit));
    const cost = object(update["cost"]);
    const amount = number(cost["amount"]);
    this.usage = present<Usage>({
      used: number(update["used"]),
      size: number(update["size"]),
      cost: amount === undefined ? this.usage?.cost : { amount, currency: text(cost["currency"]) ?? "" },
    });
  }

  #compaction(update: Json, seq: number, at?: number): void {
    const id = text(update["compactionId"]) ?? "";
    let item = this.#compactions.get(id);
    if (item === undefined) {
      this.#close();
      const key = this.#key(`c${id}`);
      item = present<CompactionItem>({ kind: "compaction", key, id, status: "in_progress", parts: [], seq, at });
      this.#compactions.set(id, item);
      this.#add(item);
    }
    this.changed.add(item);
    if (update["sessionUpdate"] === "compaction_summary_chunk") {
      if (!isFinished(item.status)) this.#append(item, update["content"]);
      return;
    }
    const status = text(update["status"]) ?? "";
    if (isFinished(item.status) && item.status !== status) return;
    item.status = status;
    if ("summary" in update) this.#replace(item, update["summary"]);
    if ("error" in update) {
      const error = text(update["error"]);
      if (error === undefined) delete item.error;
      else item.error = error;
    }
  }

  #subagent(update: Json, seq: number, at?: number): void {
    const sessionId = text(update["sessionId"]) ?? "";
    let item = this.#subagents.get(sessionId);
    if (item === undefined) {
      const child = new SessionFold();
      this.children.set(sessionId, child);
      const key = this.#key(`a${sessionId}`);
      item = present<SubagentItem>({ kind: "subagent", key, sessionId, children: child.timeline, seq, at });
      this.#subagents.set(sessionId, item);
      this.#add(item);
    }
    for (const name of ["title", "description"] as const) {
      if (!(name in update)) continue;
      const value = text(update[name]);
      if (value === undefined) delete item[name];
      else item[name] = value;
    }
    if ("state" in update) {
      const state = text(object(update["state"])["state"]);
      if (state === undefined) delete item.state;
      else item.state = state;
    }
    this.changed.add(item);
  }

  /** Takes an update of a child session. */
  foldChild(sessionId: string, update: unknown, seq: number, at?: number): void {
    const item = this.#subagents.get(sessionId);
    const child = this.children.get(sessionId);
    if (seq > this.cursor) this.cursor = seq;
    if (item === undefined || child === undefined) return;
    child.fold(update, seq, at);
    item.children = child.shown();
    this.changed.add(item);
  }

  #message(update: Json, seq: number, at?: number): void {
    const id = text(update["messageId"]) ?? "";
    let item = this.#between.get(id);
    if (item === undefined) {
      this.#close();
      item = present<BetweenItem>({ kind: "between", key: this.#key(`b${id}`), id, parts: [], seq, at });
      this.#between.set(id, item);
      this.#add(item);
    }
    this.changed.add(item);
    if (update["sessionUpdate"] === "session_message_chunk") return this.#append(item, update["content"]);
    if ("content" in update) this.#replace(item, update["content"]);
    for (const [name, member] of [["senderSessionId", "sender"], ["recipientSessionId", "recipient"]] as const) {
      if (!(name in update)) continue;
      const value = text(update[name]);
      if (value === undefined) delete item[member];
      else item[member] = value;
    }
  }

  #replace(item: Growing, blocks: unknown): void {
    item.parts.length = 0;
    this.#growing.delete(item);
    for (const block of list(blocks)) this.#append(item, block);
  }

  #add(item: Item): void {
    this.timeline.push(item);
    this.changed.add(item);
    this.isMoved = true;
  }

  /** A key that no other item of this fold has. */
  #key(wanted: string): string {
    const count = (this.#keys.get(wanted) ?? 0) + 1;
    this.#keys.set(wanted, count);
    return count === 1 ? wanted : `${wanted}~${count}`;
  }

  #joined(item: Item, earlier: SessionFold, gone: Set<Item>): Item {
    if (item.kind === "message" && item.id !== undefined) {
      const later = this.#messages.get(`${item.role} ${item.id}`);
      if (later === undefined) return item;
      const [first, last] = [later.parts[0], item.parts.at(-1)];
      if (first?.kind === "text" && last?.kind === "text") first.text = last.text + first.text;
      later.parts.unshift(...item.parts.slice(0, first?.kind === "text" && last?.kind === "text" ? -1 : undefined));
      later.seq = item.seq;
      if (item.at !== undefined) later.at = item.at;
      gone.add(later);
      this.changed.add(later);
      return later;
    }
    if (item.kind === "tool") {
      const [later, before] = [this.calls.get(item.id), earlier.calls.get(item.id)];
      if (later === undefined || before?.item !== item || later.isAnnounced) return item;
      complete(later, before);
      gone.add(later.item);
      this.changed.add(later.item);
      return later.item;
    }
    return item;
  }
}

export function readEnd(found: Json): TurnEnd {
  const result = object(found["result"]);
  const error = object(found["error"]);
  return present<TurnEnd>({
    promptId: text(found["promptId"]),
    stopReason: text(result["stopReason"]),
    error: text(error["message"]),
    seconds: number(found["seconds"]),
    seq: number(found["seq"]),
    at: number(found["at"]),
  });
}

function endItem(end: TurnEnd, key: string): Item {
  return present<Item>({
    kind: "turn",
    key,
    stopReason: end.stopReason ?? "failed",
    seconds: end.seconds,
    error: end.error,
    seq: end.seq ?? 0,
    at: end.at,
  });
}

function noticeText(update: Json): string {
  const description = text(update["description"]);
  return (text(update["title"]) ?? "") + (description ? `\n${description}` : "");
}

function entriesOf(value: unknown): PlanEntry[] {
  return list(value).map((one) => {
    const entry = object(one);
    return present<PlanEntry>({
      content: text(entry["content"]) ?? "",
      status: (text(entry["status"]) ?? "pending") as PlanEntry["status"],
      priority: text(entry["priority"]),
    });
  });
}

/** The call of a subagent that a call or a message belongs to, where real agents put it. */
function parentOf(meta: unknown): string | undefined {
  for (const value of Object.values(object(meta))) {
    for (const name of ["parentToolUseId", "parentToolCallId", "parent_tool_use_id"]) {
      const found = text(object(value)[name]);
      if (found) return found;
    }
  }
  return undefined;
}

/** Whether two values of JSON are the same, whatever the order of their members. */
function same(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
  const names = Object.keys(one);
  return (
    Array.isArray(one) === Array.isArray(other) &&
    names.length === Object.keys(other).length &&
    names.every((name) => name in other && same((one as Json)[name], (other as Json)[name]))
  );
}

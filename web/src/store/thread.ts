/** One session that is open in the page: its place on the line, and the signals that are drawn from its state. */
import { batch, computed, signal, type ReadonlySignal, type Signal } from "@preact/signals";
import type { Command, Item, LiveItem, MessageItem, Option, Output, PlanEntry, Question, Quota, Row, Thread, Unsent, WaitingPrompt } from "../model";
import { readEnd, SessionFold, type Usage } from "../state/fold";
import { list, number, object, own, text, type Json } from "../state/read";
import type { Modes, Reaches } from "../state/settings";
import { RpcError, type Rpc } from "../wire/rpc";

const TAIL = 400;
const NO_INPUT = { image: false, audio: false, embeddedContext: false, steer: false };

interface Turn {
  promptId: string;
  startedAt: number;
}

export interface ThreadParts {
  row: ReadonlySignal<Row | undefined>;
  questions: ReadonlySignal<readonly Question[]>;
  unsent: ReadonlySignal<readonly Unsent[]>;
  /** The blocks of a prompt that this page sent. */
  sent: (promptId: string) => unknown[] | undefined;
  /** The host has this prompt. */
  accepted: (promptId: string) => void;
  /** The agent has finished a message, and does something else. */
  finished: (message: string) => void;
  /** A turn has ended; `last` is the agent's message that ended with it. */
  ended: (stopReason: string | undefined, last: string) => void;
}

function textOf(message: MessageItem): string {
  return message.parts.map((part) => (part.kind === "text" ? part.text : "")).join("");
}

export class ThreadStore implements Thread {
  readonly sessionId: string;
  readonly items = signal<readonly LiveItem[]>([]);
  readonly plan = signal<readonly PlanEntry[]>([]);
  readonly modes = signal<Modes | null>(null);
  readonly options = signal<readonly Option[]>([]);
  readonly reaches = signal<Reaches>({});
  readonly commands = signal<readonly Command[]>([]);
  readonly usage = signal<Usage | null>(null);
  readonly quota = signal<Quota | null>(null);
  readonly input = signal(NO_INPUT);
  readonly hasOlder = signal(false);
  readonly isLoading = signal(true);
  readonly problem = signal<string | null>(null);
  readonly title: ReadonlySignal<string | null>;
  readonly turn: ReadonlySignal<Turn | null>;
  readonly questions: ReadonlySignal<readonly Question[]>;
  readonly waiting: ReadonlySignal<readonly WaitingPrompt[]>;
  readonly unsent: ReadonlySignal<readonly Unsent[]>;
  users = 0;

  readonly #parts: ThreadParts;
  readonly #title = signal<string | null>(null);
  readonly #turn = signal<Turn | null>(null);
  readonly #outputs = new Map<string, Signal<Output | undefined>>();
  #live = new WeakMap<Item, LiveItem & { revision: Signal<number> }>();
  #fold = new SessionFold();
  /** What a load has sent so far; it takes the place of the fold when all of it is there. */
  #loading: SessionFold | null = null;
  #isLoaded = false;
  #isAttached = false;
  #running: string | null = null;
  #heardAt = 0;
  /** The agent's message that may still grow. */
  #writing: MessageItem | null = null;
  /** The first number that is loaded; what is before it comes by pages. */
  #start = 0;
  #olderNow: Promise<void> | null = null;
  /** Frames of the last event that have come: an event can be several, and a cut may come between them. */
  #last = { seq: 0, count: 0, isMany: false };
  #skip = { seq: 0, count: 0 };

  constructor(sessionId: string, parts: ThreadParts) {
    this.sessionId = sessionId;
    this.#parts = parts;
    this.unsent = parts.unsent;
    this.questions = parts.questions;
    this.title = computed(() => this.#title.value ?? parts.row.value?.title ?? null);
    this.turn = computed(() => {
      const now = this.#turn.value;
      const row = parts.row.value?.own.turn;
      return now !== null && row?.promptId === now.promptId ? row : now;
    });
    this.waiting = computed(() => parts.row.value?.own.waiting ?? []);
  }

  get cursor(): number {
    return this.#fold.cursor;
  }

  /** The state that is drawn, for tests and for looking at a running page. */
  get fold(): SessionFold {
    return this.#fold;
  }

  /** Whether a session is a child of this one. */
  hasChild(sessionId: string): boolean {
    return (this.#loading ?? this.#fold).children.has(sessionId);
  }

  get isAttached(): boolean {
    return this.#isAttached;
  }

  outputs = (terminalId: string): ReadonlySignal<Output | undefined> => {
    let found = this.#outputs.get(terminalId);
    if (found === undefined) {
      found = signal(this.#fold.outputs.byId.get(terminalId));
      this.#outputs.set(terminalId, found);
    }
    return found;
  };

  /** Goes on behind the last event that came, or loads the end of the history. */
  async attach(rpc: Rpc, cwd: string): Promise<void> {
    if (this.#isLoaded) {
      try {
        await this.#resume(rpc, cwd);
        return;
      } catch (error) {
        if (!(error instanceof RpcError) || error.reason !== "cursor_expired") throw error;
      }
    }
    await this.#load(rpc, cwd);
  }

  /** Takes the answer to `session/new`: everything from the first event on follows it. */
  begin(answer: Json): void {
    this.#isLoaded = true;
    this.#isAttached = true;
    this.#fold.open(answer);
    this.isLoading.value = false;
    this.paint();
  }

  onLost(): void {
    this.#isAttached = false;
    this.#loading = null;
  }

  async #resume(rpc: Rpc, cwd: string): Promise<void> {
    const { seq, count, isMany } = this.#last;
    // The last event may not be there whole: it is asked for again, without what has come of it.
    const isAgain = isMany && seq === this.#fold.cursor;
    const after = this.#fold.cursor - (isAgain ? 1 : 0);
    this.#skip = isAgain ? { seq, count } : { seq: 0, count: 0 };
    await rpc.request("session/resume", this.#params(cwd, { after }), (answer) => {
      this.#isAttached = true;
      this.#fold.open(answer);
    });
  }

  async #load(rpc: Rpc, cwd: string): Promise<void> {
    this.isLoading.value = true;
    const fold = new SessionFold();
    this.#loading = fold;
    let length = 0;
    await rpc.request("session/load", this.#params(cwd, { tail: TAIL }), (answer) => {
      if (this.#loading !== fold) return;
      fold.open(answer);
      const turn = object(own(answer)["turn"]);
      this.#running = text(turn["promptId"]) ?? null;
      if (this.#running === null) this.#turn.value = null;
      else {
        fold.beginTurn(null);
        this.#turn.value = { promptId: this.#running, startedAt: number(turn["startedAt"]) ?? Date.now() };
      }
      length = fold.timeline.length;
      this.#writing = null;
      this.#live = new WeakMap();
      this.#fold = fold;
      this.#loading = null;
      this.#isLoaded = true;
      this.#isAttached = true;
      this.#last = { seq: 0, count: 0, isMany: false };
      const start = number(own(answer)["start"]);
      this.#start = start ?? 0;
      this.hasOlder.value = start !== undefined;
      this.isLoading.value = false;
    });
    const turns = object(await rpc.request("_dragoman/turns", { sessionId: this.sessionId }));
    if (this.#fold === fold) fold.placeEnds(list(turns["ended"]), text(turns["begun"]) ?? null, length);
    this.paint();
  }

  /** What the agent takes in a prompt. */
  async readInput(rpc: Rpc): Promise<void> {
    const found = object(await rpc.request("_dragoman/input", { sessionId: this.sessionId }));
    this.input.value = {
      image: found["image"] === true,
      audio: found["audio"] === true,
      embeddedContext: found["embeddedContext"] === true,
      steer: found["steer"] === true,
    };
  }

  /** Loads the page of the history before what is there. */
  older(rpc: Rpc): Promise<void> {
    this.#olderNow ??= this.#older(rpc).finally(() => {
      this.#olderNow = null;
    });
    return this.#olderNow;
  }

  async #older(rpc: Rpc): Promise<void> {
    if (!this.hasOlder.value || !this.#isLoaded) return;
    const fold = this.#fold;
    const page = object(await rpc.request("_dragoman/history", { sessionId: this.sessionId, before: this.#start, limit: TAIL }));
    if (this.#fold !== fold) return;
    const earlier = new SessionFold();
    for (const entry of list(page["updates"])) {
      const found = object(entry);
      if ("sessionUpdate" in found) earlier.fold(found);
      else earlier.fold(found["update"], number(found["seq"]) ?? 0, number(found["at"]));
    }
    earlier.placeEnds(list(page["ended"]), text(page["begun"]) ?? null);
    fold.prepend(earlier);
    this.#start = number(page["start"]) ?? this.#start;
    this.hasOlder.value = page["hasMore"] === true;
    this.paint();
  }

  /** Loads history until a place is there. */
  async reach(rpc: Rpc, seq: number): Promise<void> {
    while (this.hasOlder.value && this.#start > seq) await this.older(rpc);
  }

  // From the host

  onUpdate(params: Json, child: string | null): void {
    const meta = own(params);
    const seq = number(meta["seq"]) ?? 0;
    const at = number(meta["at"]);
    const update = object(params["update"]);
    const fold = this.#loading ?? this.#fold;
    if (this.#loading === null && (!this.#isAttached || this.#isKnown(seq, update))) return;
    // Of text that the host has joined, the item begins with the first piece.
    const first = number(meta["from"]) ?? seq;
    if (child === null) fold.fold(update, first, at);
    else fold.foldChild(child, update, first, at);
    if (seq > fold.cursor) fold.cursor = seq;
    this.#heardAt = this.#loading === null ? Date.now() : Math.min(at ?? 0, Date.now());
    if (this.#loading === null) this.#noteMessage();
  }

  /** When something came from the agent last. */
  get heardAt(): number {
    return this.#heardAt;
  }

  #noteMessage(): void {
    const last = this.#fold.timeline.at(-1);
    if (last === this.#writing) return;
    const before = this.#writing;
    this.#writing = last?.kind === "message" && last.role === "agent" && this.#running !== null ? last : null;
    if (before !== null) this.#parts.finished(textOf(before));
  }

  /** Whether this frame came before: of each event every frame is taken once. */
  #isKnown(seq: number, update: Json): boolean {
    if (seq === 0) return false;
    if (seq < this.#fold.cursor) return true;
    if (seq === this.#skip.seq && this.#skip.count > 0) {
      this.#skip.count -= 1;
      return true;
    }
    const isUser = update["sessionUpdate"] === "user_message_chunk";
    if (isUser && seq === this.#own.seq && update["messageId"] === this.#own.messageId) return true;
    this.#last = { seq, count: seq === this.#last.seq ? this.#last.count + 1 : 1, isMany: isUser };
    return false;
  }

  /** The prompt of this page that became a message last; a new line shows it once more. */
  #own = { seq: 0, messageId: "" };

  onTurnStarted(params: Json): void {
    const promptId = text(params["promptId"]);
    const seq = number(params["seq"]) ?? 0;
    if (promptId === undefined || this.#loading !== null) return;
    this.#parts.accepted(promptId);
    if (!this.#isAttached || seq < this.#fold.cursor || this.#running === promptId) return;
    const at = number(params["at"]);
    const blocks = this.#parts.sent(promptId);
    const messageId = text(params["messageId"]) ?? "";
    if (blocks !== undefined) this.#own = { seq, messageId };
    this.#fold.beginTurn(blocks ?? null, messageId || null, seq, at);
    // The frames of the prompt of another client have the same number and follow.
    if (blocks !== undefined && seq > this.#fold.cursor) this.#fold.cursor = seq;
    this.#running = promptId;
    this.#turn.value = { promptId, startedAt: at ?? Date.now() };
  }

  onTurnEnded(params: Json): void {
    const end = readEnd(params);
    if (this.#loading !== null || end.promptId === undefined) return;
    this.#parts.accepted(end.promptId);
    if (end.promptId === this.#running) this.#end({ ...params, at: end.at ?? Date.now() });
    else if (end.seq !== undefined && end.seq > this.#fold.cursor) this.#fold.cursor = end.seq;
  }

  /** The answer to a prompt of this page, which stands for the end of its turn. */
  onAnswer(promptId: string, answer: Json | RpcError): void {
    if (promptId !== this.#running || this.#loading !== null) return;
    if (!(answer instanceof RpcError) && own(answer)["isTaken"] === true) return;
    const outcome = answer instanceof RpcError ? { error: { message: answer.message } } : { result: answer };
    this.#end({ promptId, ...outcome, at: Date.now() });
  }

  #end(found: Json): void {
    const end = readEnd(found);
    const begun = this.#turn.value?.startedAt;
    const seconds = end.seconds ?? (begun === undefined || end.at === undefined ? undefined : Math.max(0, (end.at - begun) / 1000));
    const last = this.#writing;
    this.#writing = null;
    this.#fold.endTurn(seconds === undefined ? end : { ...end, seconds });
    this.#running = null;
    this.#turn.value = null;
    this.#parts.ended(end.stopReason, last === null ? "" : textOf(last));
  }

  /** Takes the tool call of a question: some agents do not report it otherwise. */
  onQuestion(params: Json): void {
    if (!this.#isAttached || this.#loading !== null || params["toolCall"] === undefined) return;
    this.#fold.notePermission(params["toolCall"]);
  }

  onNotice(params: Json): void {
    if (this.#isAttached && this.#loading === null) this.#fold.note(text(params["text"]) ?? "", "info", this.#fold.cursor);
  }

  /** Notes the number of an event that changes nothing here. */
  onEvent(params: Json): void {
    const seq = number(params["seq"]) ?? 0;
    if (this.#isAttached && this.#loading === null && seq > this.#fold.cursor) this.#fold.cursor = seq;
  }

  setOptions(answer: Json): void {
    this.#fold.open(answer);
    this.paint();
  }

  setMode(id: string): void {
    this.#fold.settings.foldMode(id);
    this.paint();
  }

  /** Draws what has changed since the last time. */
  paint(): void {
    const fold = this.#fold;
    batch(() => {
      for (const item of fold.changed) {
        const live = this.#live.get(item);
        if (live !== undefined) live.revision.value += 1;
      }
      fold.changed.clear();
      if (fold.isMoved) this.items.value = fold.shown().map((item) => this.#liveOf(item));
      fold.isMoved = false;
      for (const id of fold.outputs.changed) {
        const output = this.#outputs.get(id);
        if (output !== undefined) output.value = fold.outputs.byId.get(id);
      }
      fold.outputs.changed.clear();
      this.plan.value = fold.plan;
      this.modes.value = fold.settings.modes;
      this.options.value = fold.settings.options;
      this.reaches.value = fold.settings.reach;
      this.commands.value = fold.settings.commands;
      this.usage.value = fold.usage;
      this.quota.value = fold.quota;
      this.#title.value = fold.title;
    });
  }

  #liveOf(item: Item): LiveItem {
    let found = this.#live.get(item);
    if (found === undefined) {
      found = { item, revision: signal(0) };
      this.#live.set(item, found);
    }
    return found;
  }

  #params(cwd: string, meta: Json): Json {
    return { sessionId: this.sessionId, cwd, mcpServers: [], _meta: { dragoman: meta } };
  }
}

/** Makes the app that the screens use: the line to the host, the list, the open sessions, and what is kept here. */
import { batch, computed, effect, signal, type Signal } from "@preact/signals";
import type { AgentFacts, App, Device, Found, NewSession, Settings } from "../app";
import { Kept } from "../kept/kept";
import type { Answered, Attached, Host, Question, QuestionEnd, Row, Thread } from "../model";
import { list, number, object, present, text, type Json } from "../state/read";
import { pair as pairWith, post } from "../wire/door";
import { Line } from "../wire/line";
import { LineClosed, RpcError, type Callable, type Rpc } from "../wire/rpc";
import type { HostMethod } from "../wire/types";
import { words } from "../words";
import { Asked, type Reply } from "./asked";
import { Attachments } from "./attachments";
import { newId, Outbox } from "./outbox";
import { Rows } from "./rows";
import { ThreadStore } from "./thread";

const SETTINGS: Settings = { theme: "auto", letters: true, announce: "turns" };
const CLIENT_INFO = { name: "dragoman-web", title: "Dragoman in a browser", version: "1" };
// Sessions that were closed keep their state, so that going back is instant; more than these are dropped.
const KEPT_THREADS = 6;
const BATCH_MS = 16;
const ANSWER_MS = 10_000;
const BROKEN_MS = 2_000;
const MOST_ENDS = 50;

/** What can be seen of the page's state from the console of the browser, and by tests. */
export interface Inside {
  app: App;
  thread(sessionId: string): ThreadStore | undefined;
}

export function makeApp(): App & { inside: Inside } {
  return new Store();
}

class Store implements App {
  readonly host = signal<Host | null>(null);
  readonly settings = signal<Settings>(SETTINGS);
  readonly said = signal("");
  readonly seen = signal<ReadonlyMap<string, number>>(new Map());
  readonly questions = signal<readonly Question[]>([]);
  readonly hiddenCount = signal<number | null>(null);
  readonly ends = signal<ReadonlyMap<string, QuestionEnd>>(new Map());
  readonly inside: Inside = { app: this, thread: (id) => this.#threads.get(id) };
  readonly #kept = new Kept();
  readonly #rows = new Rows();
  readonly #asked = new Asked();
  readonly #line: Line;
  readonly #outbox: Outbox;
  readonly #attachments: Attachments;
  readonly #threads = new Map<string, ThreadStore>();
  readonly #drafts = new Map<string, Signal<string>>();
  readonly #missing = new Set<ThreadStore>();
  readonly #client = newId();
  #half: string | null = null;
  #rpc: Rpc | null = null;
  #methods: readonly HostMethod[] = [];

  constructor() {
    this.#outbox = new Outbox(this.#kept, (sessionId, promptId, answer) => {
      this.#threads.get(sessionId)?.onAnswer(promptId, answer);
    });
    this.#attachments = new Attachments(() => this.#half);
    this.#line = new Line({
      greet: (rpc) => this.#greet(rpc),
      onNotification: (method, params) => this.#onNotification(method, params),
      onRequest: (rpc, id, method, params) => this.#onRequest(rpc, id, method, params),
      onLost: () => this.#onLost(),
      paint: () => this.#paint(),
      onUnpaired: () => this.#forget(),
    });
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.#paint();
      else this.#keepCursors();
    });
    addEventListener("pagehide", () => this.#keepCursors());
    void this.#begin();
  }

  get line(): App["line"] {
    return this.#line.state;
  }

  get rows(): App["rows"] {
    return this.#rows.all;
  }

  get hasRows(): App["hasRows"] {
    return this.#rows.hasCome;
  }

  get hasMoreRows(): App["hasMoreRows"] {
    return this.#rows.hasMore;
  }

  async #begin(): Promise<void> {
    const [half, settings, cursors] = await Promise.all([
      this.#kept.get<string>("half"),
      this.#kept.get<Partial<Settings>>("settings"),
      this.#kept.all<number>("cursor:"),
      this.#outbox.begin(),
    ]);
    this.settings.value = { ...SETTINGS, ...settings };
    this.seen.value = cursors;
    effect(() => {
      void this.#kept.set("settings", this.settings.value);
    });
    this.#half = half ?? null;
    this.#sayLine();
    this.#line.start(this.#half);
  }

  // The pairing

  async pair(code: string, name: string): Promise<{ ok: true } | { ok: false; message: string }> {
    try {
      const found = await pairWith(code, name);
      if (!("half" in found)) {
        return { ok: false, message: found.message || (found.status === 429 ? words.store.tooOften : words.store.wrongCode) };
      }
      this.#half = found.half;
      await this.#kept.set("half", found.half);
      this.#line.start(found.half);
      return { ok: true };
    } catch {
      return { ok: false, message: words.store.noHost };
    }
  }

  async unpair(): Promise<void> {
    const half = this.#half;
    await post("/unpair", "{}", half);
    this.#line.stop("new");
    await this.#forget();
  }

  /** Deletes everything that this device keeps of the host. */
  async #forget(): Promise<void> {
    this.#half = null;
    this.#attachments.forget();
    this.#outbox.clear();
    this.#asked.onLost();
    this.#rows.clear();
    this.#threads.clear();
    this.#missing.clear();
    batch(() => {
      for (const draft of this.#drafts.values()) draft.value = "";
      this.#drafts.clear();
      this.questions.value = [];
      this.host.value = null;
      this.seen.value = new Map();
    });
    await this.#kept.clear();
  }

  reconnect(): void {
    this.#line.wake();
  }

  // The line

  async #greet(rpc: Rpc): Promise<void> {
    const answer = object(await rpc.request("initialize", {
      protocolVersion: 1,
      clientInfo: CLIENT_INFO,
      clientCapabilities: {
        session: { notices: {}, compaction: {}, configOptions: { boolean: {} } },
        elicitation: { form: {}, url: {} },
        _meta: {
          terminal_output: true,
          dragoman: {
            client: this.#client,
            activity: true,
            unstable: true,
            attachments: true,
            words: true,
            batch: { ms: BATCH_MS },
          },
        },
      },
    }));
    this.#host(answer);
    this.#rpc = rpc;
    await this.#rows.begin(rpc, this.#methods);
    this.#paint();
    // What is open comes back behind its cursor, and then what was not sent goes out.
    for (const thread of this.#threads.values()) if (thread.users > 0) void this.#attach(thread);
    this.#outbox.sendAll(rpc);
  }

  #host(answer: Json): void {
    const info = object(answer["agentInfo"]);
    const own = object(object(object(answer["agentCapabilities"])["_meta"])["dragoman"]);
    const more = object(object(answer["_meta"])["dragoman"]);
    const facts = { ...own, ...more };
    this.#methods = list(facts["methods"]).map(String) as HostMethod[];
    this.host.value = {
      user: text(facts["user"]) ?? "",
      device: text(facts["device"]) ?? null,
      name: text(facts["machineName"]) ?? text(info["title"]) ?? text(info["name"]) ?? "",
      version: text(info["version"]) ?? "",
      page: text(facts["page"]) ?? null,
      rights: list(facts["rights"]).map(String),
      methods: this.#methods,
      folders: list(facts["folders"]).map(String),
    };
  }

  #onLost(): void {
    this.#rpc = null;
    this.#asked.onLost();
    for (const thread of this.#threads.values()) thread.onLost();
    this.#paint();
  }

  #onNotification(method: string, params: Json): void {
    if (method === "_dragoman/sessions/changed") {
      this.#rows.onChanged(params);
      return;
    }
    if (method === "$/cancel_request") {
      this.#asked.onWithdrawn(params["requestId"]);
      return;
    }
    if (method === "_dragoman/answered") {
      this.#asked.onAnswered(params);
      this.#noteEnd(params);
    }
    const [thread, child] = this.#find(text(params["sessionId"]) ?? "");
    if (method === "_dragoman/turn_started") this.#outbox.accepted(text(params["promptId"]) ?? "");
    if (thread === undefined) return;
    switch (method) {
      case "session/update":
        return thread.onUpdate(params, child);
      case "_dragoman/turn_started":
        return thread.onTurnStarted(params);
      case "_dragoman/turn_ended":
        return thread.onTurnEnded(params);
      case "_dragoman/notice":
        return thread.onNotice(params);
      default:
        return thread.onEvent(params);
    }
  }

  #onRequest(rpc: Rpc, id: string | number, method: string, params: Json): void {
    if (method === "session/request_permission" || method === "elicitation/create") {
      this.#asked.onRequest(rpc, id, method, params);
      this.#threads.get(text(params["sessionId"]) ?? "")?.onQuestion(params);
    } else rpc.refuse(id, -32601, `this page has no ${method}`);
  }

  /** The open session that a message is for, and the child session if it is for one. */
  #find(sessionId: string): [ThreadStore | undefined, string | null] {
    const thread = this.#threads.get(sessionId);
    if (thread !== undefined) return [thread, null];
    for (const parent of this.#threads.values()) if (parent.hasChild(sessionId)) return [parent, sessionId];
    return [undefined, null];
  }

  /** Keeps how a question ended, for the card that is still in its place. */
  #noteEnd(params: Json): void {
    const questionId = text(params["questionId"]);
    if (questionId === undefined) return;
    // Without a client that chose, the agent took it back, or its turn ended.
    const end = text(params["by"]) === "" ? { how: "withdrawn" as const } : present<QuestionEnd>({ how: "answered", option: text(params["option"]), who: text(params["who"]), at: number(params["at"]) });
    this.ends.value = new Map([...[...this.ends.value].slice(-MOST_ENDS), [questionId, end]]);
  }

  /** Prompts that wait at the host are no longer unsent; when their row is drawn, so that they are always in one place. */
  #noteWaiting(rows: readonly Row[]): void {
    for (const row of rows) for (const waiting of row.own.waiting ?? []) this.#outbox.accepted(waiting.promptId);
  }

  #paint(): void {
    this.#attachMissing();
    // In a page that is hidden the state goes on, and is drawn when it is shown; the title of its tab has the questions.
    if (document.visibilityState === "hidden") {
      this.hiddenCount.value = this.#asked.all(this.#rows.current()).length;
      return;
    }
    batch(() => {
      this.hiddenCount.value = null;
      if (this.#rows.paint()) this.#noteWaiting(this.#rows.all.value);
      const open = this.#asked.all(this.#rows.all.value);
      const before = this.questions.value;
      if (open.length !== before.length || open.some((question, at) => question !== before[at])) {
        const known = new Set(before.map((question) => question.questionId));
        const fresh = open.find((question) => !known.has(question.questionId));
        this.questions.value = open;
        if (fresh !== undefined) this.said.value = words.store.asks(fresh.title);
      }
      this.#paintThreads();
    });
  }

  /** Attaches sessions that were opened before the list had them: one without a prompt is not in it. */
  #attachMissing(): void {
    for (const thread of this.#missing) {
      if (this.#rpc === null || this.#rows.get(thread.sessionId) === undefined) continue;
      this.#missing.delete(thread);
      if (thread.users > 0) void this.#attach(thread);
    }
  }

  /** Says a message that the agent has finished, for those who want to hear each. */
  #sayMessage(sessionId: string, message: string): void {
    if (this.settings.value.announce !== "messages" || message === "") return;
    this.said.value = words.store.said(this.#rows.get(sessionId)?.own.agent ?? words.store.agent, message);
  }

  /** Says how a turn ended, as far as the user wants to hear it; `last` is a message that was not said yet. */
  #sayEnd(sessionId: string, stopReason: string | undefined, last: string): void {
    const { announce } = this.settings.value;
    if (announce === "off") return;
    const agent = this.#rows.get(sessionId)?.own.agent ?? words.store.agent;
    const end = words.store.ended(agent, stopReason);
    this.said.value = announce === "messages" && last !== "" ? `${words.store.said(agent, last)} ${end}` : end;
  }

  /** Says that the line broke, once that takes longer than a moment, and that it came back. */
  #sayLine(): void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isSaid = false;
    effect(() => {
      const { state } = this.line.value;
      clearTimeout(timer);
      if (state === "connected" && isSaid) {
        isSaid = false;
        this.said.value = words.store.back;
      } else if (state === "reconnecting" || state === "offline" || state === "draining") {
        timer = setTimeout(() => {
          if (!isSaid) this.said.value = words.store.broken;
          isSaid = true;
        }, BROKEN_MS);
      }
    });
  }

  #paintThreads(): void {
    for (const thread of this.#threads.values()) if (thread.users > 0) thread.paint();
  }

  #connected(): Rpc {
    if (this.#rpc === null) throw new LineClosed();
    return this.#rpc;
  }

  /** Waits for the line, for a while. */
  #lineSoon(ms: number): Promise<Rpc> {
    const rpc = this.#line.rpc;
    if (rpc !== null) return Promise.resolve(rpc);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        stop();
        reject(new LineClosed());
      }, ms);
      const stop = this.line.subscribe(() => {
        const now = this.#line.rpc;
        if (now === null) return;
        clearTimeout(timer);
        queueMicrotask(() => stop());
        resolve(now);
      });
    });
  }

  call<T>(method: Callable, params: unknown): Promise<T> {
    return this.#rpc === null ? Promise.reject(new LineClosed()) : this.#rpc.request<T>(method, params);
  }

  // The list

  async moreRows(): Promise<void> {
    await this.#rows.more(this.#connected());
  }

  // Sessions

  open(sessionId: string): Thread {
    const thread = this.#thread(sessionId);
    thread.users += 1;
    if (thread.users === 1 && this.#rpc !== null && !thread.isAttached) void this.#attach(thread);
    else thread.paint();
    return thread;
  }

  close(sessionId: string): void {
    const thread = this.#threads.get(sessionId);
    if (thread === undefined || thread.users === 0) return;
    thread.users -= 1;
    if (thread.users > 0) return;
    this.#keepCursor(thread);
    // A screen may close and open it in one step.
    setTimeout(() => this.#leave(thread), 1000);
  }

  #leave(thread: ThreadStore): void {
    if (thread.users > 0 || this.#threads.get(thread.sessionId) !== thread) return;
    if (thread.isAttached && this.#rpc !== null) {
      void this.#rpc.request("_dragoman/detach", { sessionId: thread.sessionId }).catch(() => undefined);
    }
    thread.onLost();
    const closed = [...this.#threads.values()].filter((one) => one.users === 0);
    for (const one of closed.slice(0, Math.max(0, closed.length - KEPT_THREADS))) this.#threads.delete(one.sessionId);
  }

  #thread(sessionId: string): ThreadStore {
    const known = this.#threads.get(sessionId);
    if (known !== undefined) return known;
    const thread = new ThreadStore(sessionId, {
      row: computed(() => this.rows.value.find((row) => row.sessionId === sessionId)),
      questions: computed(() => this.questions.value.filter((question) => question.sessionId === sessionId)),
      unsent: this.#outbox.of(sessionId),
      sent: (promptId) => this.#outbox.blocks(promptId),
      accepted: (promptId) => this.#outbox.accepted(promptId),
      finished: (message) => this.#sayMessage(sessionId, message),
      ended: (stopReason, last) => this.#sayEnd(sessionId, stopReason, last),
    });
    this.#threads.set(sessionId, thread);
    return thread;
  }

  async #attach(thread: ThreadStore): Promise<void> {
    const rpc = this.#rpc;
    if (rpc === null) return;
    try {
      const row = await this.#row(rpc, thread.sessionId);
      await thread.attach(rpc, row.cwd);
      thread.problem.value = null;
      this.#keepCursor(thread);
      await thread.readInput(rpc);
    } catch (error) {
      if (error instanceof LineClosed) return; // it is attached again with the next line
      if (this.#rows.get(thread.sessionId) === undefined) this.#missing.add(thread);
      thread.isLoading.value = false;
      thread.problem.value = error instanceof Error ? error.message : String(error);
    }
  }

  /** The row of a session, which may be on a later page of the list. */
  async #row(rpc: Rpc, sessionId: string): Promise<Row> {
    for (;;) {
      const row = this.#rows.get(sessionId);
      if (row !== undefined) return row;
      if (!this.#rows.hasMore.value) throw new Error(words.store.noSession);
      await this.#rows.more(rpc);
    }
  }

  #keepCursor(thread: ThreadStore): void {
    if (thread.cursor === 0 || this.#half === null) return;
    this.seen.value = new Map(this.seen.value).set(thread.sessionId, thread.cursor);
    void this.#kept.set(`cursor:${thread.sessionId}`, thread.cursor);
  }

  #keepCursors(): void {
    for (const thread of this.#threads.values()) if (thread.users > 0) this.#keepCursor(thread);
  }

  async older(sessionId: string): Promise<void> {
    await this.#threads.get(sessionId)?.older(this.#connected());
  }

  async goTo(sessionId: string, seq: number): Promise<void> {
    await this.#threads.get(sessionId)?.reach(this.#connected(), seq);
  }

  async create(wanted: NewSession): Promise<string> {
    const rpc = this.#connected();
    const { agent, cwd, worktree } = wanted;
    const own = { agent, key: newId(), ...(worktree === undefined ? {} : { worktree: { name: worktree } }) };
    let thread: ThreadStore | undefined;
    await rpc.request("session/new", { cwd, mcpServers: [], _meta: { dragoman: own } }, (answer) => {
      const id = text(answer["sessionId"]);
      if (id === undefined) return;
      thread = this.#thread(id);
      thread.begin(answer);
      const place = text(object(object(answer["_meta"])["dragoman"])["cwd"]) ?? cwd;
      this.#rows.add({ sessionId: id, cwd: place, own: { agent, state: "idle" }, updatedAt: new Date().toISOString() });
    });
    if (thread === undefined) throw new Error(words.store.noSession);
    const { sessionId } = thread;
    this.#paint();
    void thread.readInput(rpc).catch(() => undefined);
    if (wanted.mode !== undefined) await this.setMode(sessionId, wanted.mode);
    const model = thread.options.value.find((option) => option.category === "model");
    if (wanted.model !== undefined && model !== undefined) await this.setOption(sessionId, model.id, wanted.model);
    if (wanted.prompt) await this.prompt(sessionId, wanted.prompt, "send");
    return sessionId;
  }

  async prompt(sessionId: string, words: string, how: "send" | "steer"): Promise<void> {
    const promptId = await this.#outbox.add(sessionId, words, this.#attachments.take(sessionId), how);
    if (this.#rpc !== null) this.#outbox.send(this.#rpc, promptId);
  }

  async retry(_sessionId: string, promptId: string): Promise<void> {
    this.#outbox.send(this.#connected(), promptId);
  }

  async discard(_sessionId: string, promptId: string): Promise<void> {
    this.#outbox.remove(promptId);
  }

  async stop(sessionId: string): Promise<void> {
    this.#connected().notify("session/cancel", { sessionId });
  }

  async editWaiting(sessionId: string, promptId: string, words: string): Promise<void> {
    const before = this.#outbox.blocks(promptId) ?? [];
    // What was attached stays with it.
    const prompt = [{ type: "text", text: words }, ...before.filter((block) => object(block)["type"] !== "text")];
    await this.call("_dragoman/queue/edit", { sessionId, promptId, prompt });
    this.#outbox.edited(promptId, prompt);
  }

  async removeWaiting(sessionId: string, promptId: string): Promise<void> {
    await this.call("_dragoman/queue/remove", { sessionId, promptId });
  }

  async takeBack(sessionId: string, promptId: string): Promise<string> {
    const unsent = this.#outbox.get(promptId);
    const whole = unsent?.text ?? this.sentText(promptId) ?? "";
    this.#outbox.remove(promptId);
    if (unsent === undefined) await this.removeWaiting(sessionId, promptId);
    else if (unsent.state === "sending") {
      // It is on its way, and the host reads in order. Where the line is cut it is not known who has it: it stays here.
      await this.removeWaiting(sessionId, promptId).catch((error: unknown) => {
        if (error instanceof LineClosed) this.#outbox.restore(unsent);
        throw error;
      });
    }
    this.#attachments.putBack(sessionId, this.#outbox.attached(promptId));
    return whole;
  }

  async setMode(sessionId: string, modeId: string): Promise<void> {
    await this.call("session/set_mode", { sessionId, modeId });
    this.#threads.get(sessionId)?.setMode(modeId);
  }

  async setOption(sessionId: string, configId: string, value: string | boolean): Promise<void> {
    const type = typeof value === "boolean" ? { type: "boolean" } : {};
    const answer = object(await this.call("session/set_config_option", { sessionId, configId, value, ...type }));
    this.#threads.get(sessionId)?.setOptions(answer);
  }

  async setTitle(sessionId: string, title: string): Promise<void> {
    await this.call("session/set_title", { sessionId, title });
  }

  async archive(sessionId: string, isArchived: boolean): Promise<void> {
    await this.call(isArchived ? "session/archive" : "session/unarchive", { sessionId });
  }

  async restartAgent(sessionId: string): Promise<void> {
    await this.call("_dragoman/restart_agent", { sessionId });
  }

  async search(words: string, sessionId?: string, before?: Found["before"]): Promise<Found> {
    const answer = object(await this.call("_dragoman/search", present({ text: words, sessionId, before })));
    const hits = list(answer["hits"]).map((one) => {
      const hit = object(one);
      return present<Found["hits"][number]>({
        sessionId: text(hit["sessionId"]) ?? "",
        seq: number(hit["seq"]) ?? 0,
        around: text(hit["around"]) ?? "",
        at: number(hit["at"]),
      });
    });
    return present<Found>({ hits, before: text(answer["before"]) ?? number(answer["before"]) });
  }

  // Questions

  /** Answers a question. If the line is cut meanwhile, the same answer goes out again: it counts once. */
  async answer(question: Question, reply: Reply): Promise<Answered> {
    const until = performance.now() + ANSWER_MS;
    for (;;) {
      try {
        const rpc = this.#rpc ?? (await this.#lineSoon(until - performance.now()));
        const answered = await this.#asked.answer(rpc, this.#methods, question, reply);
        this.#paint();
        return answered;
      } catch (error) {
        if (error instanceof RpcError) return { result: "lost", message: error.message };
        if (performance.now() >= until) return { result: "lost" };
      }
    }
  }

  // Attachments and drafts

  attach(sessionId: string, file: File): Attached {
    return this.#attachments.add(sessionId, file);
  }

  detach(sessionId: string, attached: Attached): void {
    this.#attachments.remove(sessionId, attached);
  }

  attached(sessionId: string): Signal<readonly Attached[]> {
    return this.#attachments.of(sessionId);
  }

  attachmentAddress(id: string): Promise<string> {
    return this.#attachments.address(id);
  }

  sentText(promptId: string): string | undefined {
    const blocks = this.#outbox.blocks(promptId);
    return blocks?.map((block) => text(object(block)["text"]) ?? "").join("");
  }

  draft(sessionId: string): Signal<string> {
    const known = this.#drafts.get(sessionId);
    if (known !== undefined) return known;
    const draft = signal("");
    this.#drafts.set(sessionId, draft);
    const key = `draft:${sessionId}`;
    let isRead = false;
    void this.#kept.get<string>(key).then((found) => {
      isRead = true;
      if (draft.peek() === "" && found) draft.value = found;
    });
    let isFirst = true;
    effect(() => {
      const words = draft.value;
      if (isFirst || this.#drafts.get(sessionId) !== draft) {
        isFirst = false;
        return;
      }
      if (words === "") void (isRead ? this.#kept.remove(key) : undefined);
      else void this.#kept.set(key, words);
    });
    return draft;
  }

  // What the host can say

  async agents(): Promise<AgentFacts[]> {
    const answer = object(await this.call("_dragoman/agents", {}));
    return list(answer["agents"]) as AgentFacts[];
  }

  async folders(path?: string): Promise<{ path: string; name: string }[]> {
    const answer = object(await this.call("_dragoman/folders", present({ path })));
    const found = path === undefined ? [...list(answer["recent"]), ...list(answer["folders"])] : list(answer["children"]);
    const byPath = new Map<string, { path: string; name: string }>();
    for (const one of found) {
      const place = text(object(one)["path"]);
      if (place === undefined || byPath.has(place)) continue;
      byPath.set(place, { path: place, name: text(object(one)["name"]) ?? place.split("/").at(-1) ?? place });
    }
    return [...byPath.values()];
  }

  async files(sessionId: string, query: string): Promise<string[]> {
    const answer = object(await this.call("_dragoman/files", { sessionId, query }));
    return list(answer["files"]).flatMap((one) => text(object(one)["path"]) ?? []);
  }

  async devices(): Promise<Device[]> {
    return list(object(await this.call("_dragoman/devices", {}))["devices"]) as Device[];
  }

  async deviceCode(rights: string[]): Promise<{ code: string; seconds: number }> {
    return await this.call("_dragoman/devices/code", { rights });
  }

  async removeDevice(id: string): Promise<void> {
    await this.call("_dragoman/devices/remove", { id });
  }
}

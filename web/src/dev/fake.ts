/** An app without a host, for looking at the screens and for tests of them: what it shows is fed by the caller. */
import { computed, signal, type Signal } from "@preact/signals";
import type { App, Settings } from "../app";
import type { Attached, Host, Line, Question, QuestionEnd, Row, Unsent, WaitingPrompt } from "../model";
import { ThreadStore } from "../store/thread";

type Json = Record<string, unknown>;

export const SESSION = "fake-session";

export class Fake {
  readonly calls: [string, ...unknown[]][] = [];
  readonly row: Signal<Row> = signal<Row>({
    sessionId: SESSION,
    cwd: "/home/ada/src/atlas-api",
    title: "Retry webhooks with backoff",
    own: { agent: "claude", state: "running", attached: 3, branch: "webhook-retry", worktree: { name: "webhook-retry", project: "atlas-api" } },
  });
  readonly questions = signal<readonly Question[]>([]);
  readonly unsent = signal<readonly Unsent[]>([]);
  readonly attachedFiles = signal<readonly Attached[]>([]);
  readonly sent = new Map<string, string>();
  readonly drafts = new Map<string, Signal<string>>();
  readonly thread: ThreadStore;
  readonly app: App;
  /** Updates in front of what is there: `older` gives them, the last page first. */
  earlier: Json[][] = [];
  answers: Record<string, unknown> = {};
  seq = 0;
  #queue: Json[] = [];
  #frame = 0;

  constructor() {
    this.thread = new ThreadStore(SESSION, {
      row: this.row,
      questions: this.questions,
      unsent: this.unsent,
      sent: () => undefined,
      accepted: () => undefined,
      ended: () => undefined,
    });
    this.thread.begin({});
    this.app = this.#app();
  }

  /** Take updates as the line does: applied and drawn once a frame. */
  push(...updates: Json[]): void {
    this.#queue.push(...updates);
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.flush();
      });
    }
  }

  flush(): void {
    const now = Date.now();
    for (const update of this.#queue) {
      this.seq += 1;
      this.thread.onUpdate({ sessionId: SESSION, update, _meta: { dragoman: { seq: this.seq, at: (update["at"] as number | undefined) ?? now } } }, null);
    }
    this.#queue = [];
    this.thread.paint();
  }

  begin(promptId = "p1", startedAt = Date.now()): void {
    this.thread.onTurnStarted({ promptId, seq: ++this.seq, at: startedAt });
    this.row.value = { ...this.row.value, own: { ...this.row.value.own, turn: { promptId, startedAt } } };
    this.thread.paint();
  }

  end(promptId = "p1", outcome: Json = { result: { stopReason: "end_turn" } }): void {
    this.thread.onTurnEnded({ promptId, seq: ++this.seq, at: Date.now(), ...outcome });
    this.row.value = { ...this.row.value, own: { ...this.row.value.own, turn: null } };
    this.thread.paint();
  }

  wait(...prompts: WaitingPrompt[]): void {
    this.row.value = { ...this.row.value, own: { ...this.row.value.own, waiting: prompts } };
  }

  #app(): App {
    const settings: Settings = { theme: "auto", letters: true, announce: "turns" };
    const host: Host = {
      user: "ada",
      device: "laptop",
      name: "workbench",
      version: "1",
      rights: ["view", "prompt", "answer", "admin"],
      methods: ["_dragoman/changes", "_dragoman/restart_agent", "_dragoman/search"],
      folders: [],
    };
    const note = (name: string, ...rest: unknown[]): Promise<void> => {
      this.calls.push([name, ...rest]);
      return Promise.resolve();
    };
    return {
      line: signal<Line>({ state: "connected" }),
      host: signal<Host | null>(host),
      rows: computed(() => [this.row.value]),
      hasRows: signal(true),
      hasMoreRows: signal(false),
      questions: this.questions,
      ends: signal<ReadonlyMap<string, QuestionEnd>>(new Map()),
      settings: signal(settings),
      seen: signal<ReadonlyMap<string, number>>(new Map()),
      said: signal(""),
      pair: () => Promise.resolve({ ok: true }),
      unpair: () => note("unpair"),
      reconnect: () => undefined,
      moreRows: () => Promise.resolve(),
      open: () => this.thread,
      close: () => undefined,
      older: async () => {
        const page = this.earlier.pop();
        if (page !== undefined) await this.#older(page);
        this.thread.hasOlder.value = this.earlier.length > 0;
      },
      create: () => Promise.resolve(SESSION),
      prompt: (id, text, how) => note("prompt", id, text, how),
      retry: (id, promptId) => note("retry", id, promptId),
      discard: (id, promptId) => note("discard", id, promptId),
      stop: (id) => note("stop", id),
      editWaiting: (id, promptId, text) => note("editWaiting", id, promptId, text),
      removeWaiting: (id, promptId) => {
        this.wait(...(this.row.peek().own.waiting ?? []).filter((prompt) => prompt.promptId !== promptId));
        return note("removeWaiting", id, promptId);
      },
      setMode: (id, mode) => {
        this.thread.setMode(mode);
        return note("setMode", id, mode);
      },
      setOption: (id, option, value) => note("setOption", id, option, value),
      setTitle: (id, title) => note("setTitle", id, title),
      archive: (id, isArchived) => note("archive", id, isArchived),
      restartAgent: (id) => note("restartAgent", id),
      search: (text) => Promise.resolve([{ sessionId: SESSION, seq: 3, around: `around ${text} here`, at: Date.now() }]),
      goTo: (id, seq) => note("goTo", id, seq),
      answer: () => Promise.resolve({ result: "accepted" }),
      attach: (id, file) => {
        const made: Attached = { id: "a1", name: file.name, mimeType: file.type, bytes: file.size, state: "ready" };
        this.attachedFiles.value = [...this.attachedFiles.value, made];
        void note("attach", id, file.name);
        return made;
      },
      detach: (_id, one) => {
        this.attachedFiles.value = this.attachedFiles.value.filter((known) => known !== one);
      },
      attached: () => this.attachedFiles,
      attachmentAddress: () => Promise.reject(new Error("none")),
      sentText: (promptId) => this.sent.get(promptId),
      draft: (id) => {
        const known = this.drafts.get(id) ?? signal("");
        this.drafts.set(id, known);
        return known;
      },
      agents: () => Promise.resolve([]),
      folders: () => Promise.resolve([]),
      files: (_id, query) => Promise.resolve(["src/atlas/webhooks/deliver.py", "src/atlas/webhooks/queue.py", "README.md"].filter((path) => path.includes(query))),
      devices: () => Promise.resolve([]),
      deviceCode: () => Promise.resolve({ code: "", seconds: 0 }),
      removeDevice: () => Promise.resolve(),
      call: <T>(method: string, params: unknown) => {
        void note(method, params);
        return method in this.answers ? Promise.resolve(this.answers[method] as T) : Promise.reject(new Error(`there is no ${method}`));
      },
    };
  }

  async #older(page: Json[]): Promise<void> {
    const updates = page.map((update, at) => ({ seq: at + 1, at: 1, update }));
    const rpc = { request: () => Promise.resolve({ updates, start: 1, hasMore: this.earlier.length > 0, ended: [], begun: null }) };
    await this.thread.older(rpc as unknown as Parameters<ThreadStore["older"]>[0]);
  }
}

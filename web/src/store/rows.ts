/** The list of sessions, as the host keeps it current. */
import { signal } from "@preact/signals";
import type { Question, Row, RowFacts } from "../model";
import { list, number, object, present, text, type Json } from "../state/read";
import type { Rpc } from "../wire/rpc";
import type { HostMethod } from "../wire/types";

const WATCH = "_dragoman/sessions/watch";
// Archived sessions too: they can be opened by a link, and brought back; the screens leave them out of their lists.
const ALL = { archived: "include" };

export class Rows {
  readonly all = signal<readonly Row[]>([]);
  /** Whether the list has come once, and whether the host has more of it. */
  readonly hasCome = signal(false);
  readonly hasMore = signal(false);
  readonly #byId = new Map<string, Row>();
  #next: string | undefined;
  #isWatched = false;
  #revision: string | undefined;
  #isMoved = false;

  get(sessionId: string): Row | undefined {
    return this.#byId.get(sessionId);
  }

  /** Every row as it is now, drawn or not. */
  current(): Row[] {
    return [...this.#byId.values()];
  }

  get isWatched(): boolean {
    return this.#isWatched;
  }

  /**
   * Asks for the list on a new line: what changed since the last one, or all of it. A host that does not keep the list
   * current is asked once.
   */
  async begin(rpc: Rpc, methods: readonly HostMethod[]): Promise<void> {
    this.#isWatched = methods.includes(WATCH);
    const after = this.#isWatched && this.#revision !== undefined ? { after: this.#revision } : {};
    await rpc.request(this.#isWatched ? WATCH : "session/list", { ...ALL, ...after }, (answer) => {
      if (answer["isPart"] !== true) {
        this.#byId.clear();
        this.#next = text(answer["nextCursor"]);
      }
      this.#take(answer);
    });
  }

  /** Asks for the newest sessions now, and adds those that are not here yet. */
  async refresh(rpc: Rpc): Promise<void> {
    await rpc.request("session/list", {}, (answer) => {
      for (const value of list(answer["sessions"])) {
        const row = readRow(value);
        if (row !== undefined) this.add(row);
      }
    });
    this.paint();
  }

  async more(rpc: Rpc): Promise<void> {
    const cursor = this.#next;
    if (cursor === undefined) return;
    this.#next = undefined;
    try {
      await rpc.request(this.#isWatched ? WATCH : "session/list", { ...ALL, cursor }, (answer) => {
        this.#next = text(answer["nextCursor"]);
        this.#take(answer);
      });
    } catch (error) {
      this.#next ??= cursor;
      throw error;
    }
    this.paint();
  }

  onChanged(params: Json): void {
    this.#revision = text(params["revision"]) ?? this.#revision;
    for (const row of list(params["changed"])) this.#put(row);
    for (const id of list(params["removed"])) this.#byId.delete(String(id));
    this.#isMoved = true;
  }

  /** Keeps a session that the list does not have yet. */
  add(row: Row): void {
    if (this.#byId.has(row.sessionId)) return;
    this.#byId.set(row.sessionId, row);
    this.#isMoved = true;
  }

  /** Draws the list; gives whether it is another one. */
  paint(): boolean {
    if (!this.#isMoved) return false;
    this.#isMoved = false;
    this.all.value = [...this.#byId.values()].sort(newestFirst);
    this.hasMore.value = this.#next !== undefined;
    this.hasCome.value = true;
    return true;
  }

  clear(): void {
    this.#byId.clear();
    this.#next = undefined;
    this.hasCome.value = this.hasMore.value = false;
    this.all.value = [];
  }

  #take(answer: Json): void {
    this.#revision = text(answer["revision"]) ?? this.#revision;
    for (const row of list(answer["sessions"])) this.#put(row);
    for (const id of list(answer["removed"])) this.#byId.delete(String(id));
    this.#isMoved = true;
  }

  #put(value: unknown): void {
    const row = readRow(value);
    if (row !== undefined) this.#byId.set(row.sessionId, row);
  }
}

export function readRow(value: unknown): Row | undefined {
  const found = object(value);
  const sessionId = text(found["sessionId"]);
  if (sessionId === undefined) return undefined;
  const facts: Json = { ...object(object(found["_meta"])["dragoman"]) };
  // The list of a host that is not watched has the number of questions only.
  facts["questions"] = list(facts["questions"]).flatMap((one) => readQuestion(one, sessionId));
  return present<Row>({
    sessionId,
    cwd: text(found["cwd"]) ?? "",
    title: text(found["title"]),
    updatedAt: text(found["updatedAt"]),
    own: facts as RowFacts,
  });
}

export function readQuestion(value: unknown, sessionId: string): Question[] {
  const found = object(value);
  const questionId = text(found["questionId"]);
  if (questionId === undefined) return [];
  return [
    present<Question>({
      questionId,
      sessionId: text(found["sessionId"]) ?? sessionId,
      askedAt: number(found["askedAt"]) ?? 0,
      method: found["method"] === "elicitation/create" ? "elicitation/create" : "session/request_permission",
      kind: text(found["kind"]) ?? "other",
      title: text(found["title"]) ?? "",
      params: object(found["params"]),
      digest: text(found["digest"]),
    }),
  ];
}

function newestFirst(one: Row, other: Row): number {
  const [a, b] = [one.updatedAt ?? "", other.updatedAt ?? ""];
  return a < b ? 1 : a > b ? -1 : 0;
}

/** The list of sessions, as the host keeps it current. */
import { signal } from "@preact/signals";
import type { Question, Row, RowFacts } from "../model";
import { list, number, object, present, text, type Json } from "../state/read";
import type { Rpc } from "../wire/rpc";

const WATCH = "_dragoman/sessions/watch";

export class Rows {
  readonly all = signal<readonly Row[]>([]);
  /** Whether the list has come once, and whether the host has more of it. */
  readonly hasCome = signal(false);
  readonly hasMore = signal(false);
  readonly #byId = new Map<string, Row>();
  #next: string | undefined;
  #isWatched = false;
  #revision = 0;
  #isMoved = false;

  get(sessionId: string): Row | undefined {
    return this.#byId.get(sessionId);
  }

  get isWatched(): boolean {
    return this.#isWatched;
  }

  /** Asks for the list on a new line; a host that does not keep it current is asked once. */
  async begin(rpc: Rpc, methods: readonly string[]): Promise<void> {
    this.#isWatched = methods.includes(WATCH);
    await this.#ask(rpc, {}, (answer) => {
      this.#byId.clear();
      this.#take(answer);
    });
  }

  async more(rpc: Rpc): Promise<void> {
    const cursor = this.#next;
    if (cursor === undefined) return;
    this.#next = undefined;
    await this.#ask(rpc, { cursor }, (answer) => this.#take(answer));
    this.paint();
  }

  async #ask(rpc: Rpc, params: Json, take: (answer: Json) => void): Promise<void> {
    if (this.#isWatched) await rpc.request(WATCH, { ...params, archived: "include" }, take);
    else await rpc.request("session/list", params, take);
  }

  onChanged(params: Json): void {
    const revision = number(params["revision"]) ?? 0;
    if (revision !== 0 && revision < this.#revision) return;
    this.#revision = revision;
    for (const row of list(params["changed"])) this.#put(row);
    for (const id of list(params["removed"])) this.#byId.delete(String(id));
    this.#isMoved = true;
  }

  /** Keeps a session that this page has just opened, until the host lists it. */
  add(row: Row): void {
    if (this.#byId.has(row.sessionId)) return;
    this.#byId.set(row.sessionId, row);
    this.#isMoved = true;
  }

  paint(): void {
    if (!this.#isMoved) return;
    this.#isMoved = false;
    this.all.value = [...this.#byId.values()].sort(newestFirst);
    this.hasMore.value = this.#next !== undefined;
    this.hasCome.value = true;
  }

  clear(): void {
    this.#byId.clear();
    this.#next = undefined;
    this.hasCome.value = this.hasMore.value = false;
    this.all.value = [];
  }

  #take(answer: Json): void {
    this.#revision = number(answer["revision"]) ?? this.#revision;
    this.#next = text(answer["nextCursor"]);
    for (const row of list(answer["sessions"])) this.#put(row);
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

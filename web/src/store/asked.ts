/**
 * The open questions: those of the list, and those that the host asked this page itself.
 *
 * A question is asked twice on one connection, in the list and as a request of an attached session. It is shown once,
 * and leaves when either of them says that it is over.
 */
import type { Answered, Outcome, Question, Row } from "../model";
import { number, object, own, present, text, type Json } from "../state/read";
import { RpcError, type Rpc } from "../wire/rpc";
import type { HostMethod } from "../wire/types";
import { readQuestion } from "./rows";

const ANSWER = "_dragoman/answer";
const CANCELLED = { outcome: { outcome: "cancelled" } };

interface Request {
  rpc: Rpc;
  id: string | number;
  question: Question;
}

export type Reply = Outcome | { action: string; content?: unknown };

export class Asked {
  readonly #requests = new Map<string, Request>();
  /** Answered or withdrawn, while the list still has them. */
  readonly #gone = new Set<string>();

  /** Takes a question of the host; it stays open until it is answered here or elsewhere. */
  onRequest(rpc: Rpc, id: string | number, method: string, params: Json): void {
    const meta = own(params);
    const questionId = text(meta["questionId"]) ?? `request-${String(id)}`;
    const tool = object(params["toolCall"]);
    const known = {
      ...meta,
      questionId,
      method,
      askedAt: number(meta["askedAt"]) ?? Date.now(),
      kind: text(tool["kind"]) ?? (method === "elicitation/create" ? text(params["mode"]) : undefined),
      title: text(tool["title"]) ?? text(params["message"]),
      params,
    };
    const question = readQuestion(known, text(params["sessionId"]) ?? "")[0];
    if (question === undefined) return;
    this.#requests.set(questionId, { rpc, id, question });
  }

  /** The host withdraws a request: the question is over, and the request still gets an answer. */
  onWithdrawn(id: unknown): void {
    for (const [questionId, request] of this.#requests) {
      if (request.id !== id) continue;
      request.rpc.answer(request.id, request.question.method === "elicitation/create" ? { action: "cancel" } : CANCELLED);
      this.#end(questionId);
    }
  }

  onAnswered(params: Json): void {
    const questionId = text(params["questionId"]);
    if (questionId !== undefined) this.#gone.add(questionId);
  }

  /** The line is gone, and its requests with it. */
  onLost(): void {
    this.#requests.clear();
    this.#gone.clear();
  }

  /** Every open question, oldest first. */
  all(rows: readonly Row[]): Question[] {
    const found = new Map<string, Question>();
    for (const row of rows) for (const question of row.own.questions ?? []) found.set(question.questionId, question);
    for (const { question } of this.#requests.values()) {
      if (!found.has(question.questionId)) found.set(question.questionId, question);
    }
    for (const id of this.#gone) if (!found.delete(id)) this.#gone.delete(id);
    return [...found.values()].sort((one, other) => one.askedAt - other.askedAt);
  }

  async answer(rpc: Rpc, methods: readonly HostMethod[], question: Question, reply: Reply): Promise<Answered> {
    const { questionId, sessionId, digest } = question;
    const request = this.#requests.get(questionId);
    const body = "outcome" in reply ? { outcome: reply } : reply;
    if (!methods.includes(ANSWER) || digest === undefined) {
      if (request === undefined) return { result: "forbidden" };
      request.rpc.answer(request.id, body);
      this.#end(questionId);
      return { result: "accepted" };
    }
    try {
      await rpc.request(ANSWER, { sessionId, questionId, digest, ...body });
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      return this.#refused(questionId, error);
    }
    this.#end(questionId);
    return { result: "accepted" };
  }

  #refused(questionId: string, error: RpcError): Answered {
    const { reason, data } = error;
    if (reason === "answered") {
      this.#end(questionId);
      return present<Extract<Answered, { result: "answered" }>>({
        result: "answered",
        option: text(data["option"]),
        who: text(data["who"]),
        at: number(data["at"]),
      });
    }
    if (reason === "withdrawn") this.#end(questionId);
    const result = reason === "withdrawn" || reason === "changed" || reason === "forbidden" ? reason : "lost";
    return { result, message: error.message };
  }

  #end(questionId: string): void {
    this.#requests.delete(questionId);
    this.#gone.add(questionId);
  }
}

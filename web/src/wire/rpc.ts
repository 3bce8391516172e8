/** JSON-RPC 2.0 over one line: requests with answers, notifications, and requests of the peer. */
import { object, text, type Json } from "../state/read";
import type { AgentMethod, HostMethod } from "./types";

/** What the page may call: methods of the protocol, and the host's own. */
export type Callable = AgentMethod | HostMethod;

/** The host answered with an error. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: Json;

  constructor(code: number, message: string, data: unknown) {
    super(message);
    this.name = "RpcError";
    this.code = code;
    this.data = object(data);
  }

  get reason(): string | undefined {
    return text(this.data["reason"]);
  }
}

/** The line was cut before the answer came. */
export class LineClosed extends Error {
  constructor() {
    super("the line was cut");
    this.name = "LineClosed";
  }
}

export interface RpcPeer {
  onNotification(method: string, params: Json): void;
  /** A request of the host; it is answered by `rpc.answer(id, result)`, now or later. */
  onRequest(id: string | number, method: string, params: Json): void;
}

interface Waiting {
  resolve(result: never): void;
  reject(error: Error): void;
  then: ((result: Json) => void) | undefined;
}

export class Rpc {
  readonly #send: (text: string) => void;
  readonly #peer: RpcPeer;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;
  #isOver = false;

  constructor(send: (text: string) => void, peer: RpcPeer) {
    this.#send = send;
    this.#peer = peer;
  }

  /** Sends a request. `then` is called at the place of the answer in the stream, before any message behind it. */
  request<T>(method: Callable, params: unknown, then?: (result: Json) => void): Promise<T> {
    if (this.#isOver) return Promise.reject(new LineClosed());
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (result: never) => void, reject, then });
      this.#write({ jsonrpc: "2.0", id, method, params });
    });
  }

  notify(method: Callable, params: unknown): void {
    if (!this.#isOver) this.#write({ jsonrpc: "2.0", method, params });
  }

  answer(id: string | number, result: unknown): void {
    if (!this.#isOver) this.#write({ jsonrpc: "2.0", id, result });
  }

  refuse(id: string | number, code: number, message: string): void {
    if (!this.#isOver) this.#write({ jsonrpc: "2.0", id, error: { code, message } });
  }

  /** Takes what came in one frame: a message, or several with a line each. */
  take(frame: string): void {
    for (const line of frame.split("\n")) if (line !== "") this.#takeLine(line);
  }

  /** Ends the line: what waits for an answer gets none. */
  close(): void {
    this.#isOver = true;
    for (const waiting of this.#waiting.values()) waiting.reject(new LineClosed());
    this.#waiting.clear();
  }

  #takeLine(line: string): void {
    let message: Json;
    try {
      message = object(JSON.parse(line));
    } catch {
      return; // it is not for us
    }
    const method = text(message["method"]);
    const id = message["id"];
    if (method !== undefined) {
      const params = object(message["params"]);
      if (typeof id === "string" || typeof id === "number") this.#peer.onRequest(id, method, params);
      else this.#peer.onNotification(method, params);
      return;
    }
    const waiting = typeof id === "number" ? this.#waiting.get(id) : undefined;
    if (waiting === undefined) return;
    this.#waiting.delete(id as number);
    if ("error" in message) {
      const error = object(message["error"]);
      waiting.reject(new RpcError(Number(error["code"]), text(error["message"]) ?? "", error["data"]));
    } else {
      waiting.then?.(object(message["result"]));
      waiting.resolve(message["result"] as never);
    }
  }

  #write(message: unknown): void {
    this.#send(JSON.stringify(message));
  }
}

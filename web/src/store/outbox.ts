/** Prompts of this page that the host does not have yet, kept on the device under their ids until it has them. */
import { signal, type Signal } from "@preact/signals";
import type { Kept } from "../kept/kept";
import type { Attached, Unsent } from "../model";
import { RpcError, type Rpc } from "../wire/rpc";

export interface KeptPrompt extends Unsent {
  sessionId: string;
  how: "send" | "steer";
  at: number;
}

export type Ended = (sessionId: string, promptId: string, answer: Record<string, unknown> | RpcError) => void;

export class Outbox {
  readonly #kept: Kept;
  readonly #ended: Ended;
  readonly #signals = new Map<string, Signal<readonly Unsent[]>>();
  readonly #prompts = new Map<string, KeptPrompt>();
  readonly #blocks = new Map<string, unknown[]>();
  readonly #attached = new Map<string, readonly Attached[]>();

  constructor(kept: Kept, ended: Ended) {
    this.#kept = kept;
    this.#ended = ended;
  }

  /** Reads what an earlier page left. */
  async begin(): Promise<void> {
    for (const prompt of (await this.#kept.all<KeptPrompt>("unsent:")).values()) {
      if (this.#prompts.has(prompt.promptId)) continue;
      this.#prompts.set(prompt.promptId, { ...prompt, state: prompt.state === "failed" ? "failed" : "kept" });
      this.#show(prompt.sessionId);
    }
  }

  of(sessionId: string): Signal<readonly Unsent[]> {
    let found = this.#signals.get(sessionId);
    if (found === undefined) {
      found = signal([]);
      this.#signals.set(sessionId, found);
      this.#show(sessionId);
    }
    return found;
  }

  /** The blocks of a prompt that this page sent. */
  blocks(promptId: string): unknown[] | undefined {
    return this.#blocks.get(promptId);
  }

  /** What was attached to a prompt that this page sent. */
  attached(promptId: string): readonly Attached[] {
    return this.#attached.get(promptId) ?? [];
  }

  /** The host has other blocks for a prompt of this page. */
  edited(promptId: string, blocks: unknown[]): void {
    if (this.#blocks.has(promptId)) this.#blocks.set(promptId, blocks);
  }

  async add(sessionId: string, text: string, attachments: Attached[], how: "send" | "steer"): Promise<string> {
    const promptId = newId();
    const prompt: KeptPrompt = { promptId, sessionId, text, attachments, how, state: "kept", at: Date.now() };
    this.#prompts.set(promptId, prompt);
    if (attachments.length > 0) this.#attached.set(promptId, attachments);
    this.#show(sessionId);
    await this.#kept.set(`unsent:${promptId}`, prompt);
    return promptId;
  }

  /** Sends all that the host may not have, the oldest first; the same id never runs twice. */
  sendAll(rpc: Rpc): void {
    const waiting = [...this.#prompts.values()].filter((prompt) => prompt.state === "kept");
    for (const prompt of waiting.sort((one, other) => one.at - other.at)) this.send(rpc, prompt.promptId);
  }

  send(rpc: Rpc, promptId: string): void {
    const prompt = this.#prompts.get(promptId);
    if (prompt === undefined || prompt.state === "sending") return;
    const { sessionId } = prompt;
    const blocks = blocksOf(prompt);
    this.#blocks.set(promptId, blocks);
    this.#change(prompt, { ...prompt, state: "sending" });
    const own = { promptId, ...(prompt.how === "steer" ? { steer: true } : {}) };
    const params = { sessionId, prompt: blocks, _meta: { dragoman: own } };
    rpc.request("session/prompt", params, (answer) => {
      this.accepted(promptId);
      this.#ended(sessionId, promptId, answer);
    }).catch((error: unknown) => {
      const now = this.#prompts.get(promptId);
      if (error instanceof RpcError) {
        if (now !== undefined && error.reason !== "outcome_expired") {
          this.#change(now, { ...now, state: "failed", problem: error.message });
          void this.#kept.set(`unsent:${promptId}`, { ...now, state: "failed", problem: error.message });
        } else {
          this.accepted(promptId);
          this.#ended(sessionId, promptId, error);
        }
      } else if (now !== undefined) this.#change(now, { ...now, state: "kept" });
    });
  }

  /** The host has it. */
  accepted(promptId: string): void {
    this.remove(promptId);
  }

  get(promptId: string): KeptPrompt | undefined {
    return this.#prompts.get(promptId);
  }

  remove(promptId: string): void {
    const prompt = this.#prompts.get(promptId);
    if (prompt === undefined) return;
    this.#prompts.delete(promptId);
    this.#show(prompt.sessionId);
    void this.#kept.remove(`unsent:${promptId}`);
  }

  /** Keeps a prompt again that was to be taken back. */
  restore(prompt: KeptPrompt): void {
    const kept: KeptPrompt = { ...prompt, state: "kept" };
    this.#prompts.set(prompt.promptId, kept);
    this.#show(prompt.sessionId);
    void this.#kept.set(`unsent:${prompt.promptId}`, kept);
  }

  clear(): void {
    const sessions = new Set([...this.#prompts.values()].map((prompt) => prompt.sessionId));
    this.#prompts.clear();
    for (const id of sessions) this.#show(id);
  }

  #change(before: KeptPrompt, after: KeptPrompt): void {
    if (this.#prompts.get(before.promptId) !== before) return;
    this.#prompts.set(after.promptId, after);
    this.#show(after.sessionId);
  }

  #show(sessionId: string): void {
    const found = this.#signals.get(sessionId);
    if (found !== undefined) {
      found.value = [...this.#prompts.values()].filter((prompt) => prompt.sessionId === sessionId);
    }
  }
}

/** An id that no other has; `randomUUID` is missing on pages without TLS. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function blocksOf(prompt: Unsent): unknown[] {
  const found: unknown[] = prompt.text === "" ? [] : [{ type: "text", text: prompt.text }];
  for (const { id, mimeType, name } of prompt.attachments) {
    if (id === undefined) continue;
    const _meta = { dragoman: { attachment: id } };
    const type = mimeType.split("/")[0];
    if (type === "image" || type === "audio") found.push({ type, mimeType, data: "", _meta });
    else {
      const uri = `attachment:${encodeURIComponent(name)}`;
      const content = type === "text" ? { text: "" } : { blob: "" };
      found.push({ type: "resource", resource: { uri, mimeType, ...content }, _meta });
    }
  }
  return found;
}

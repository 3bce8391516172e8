/** Files that wait to be sent with a prompt: uploaded at once, named in the prompt afterwards. */
import { signal, type Signal } from "@preact/signals";
import type { Attached } from "../model";
import { object, present, text } from "../state/read";
import { words } from "../words";
import { get, post } from "../wire/door";

/** What the host takes at most (`MOST_BYTES` of its uploads). */
const MOST_BYTES = 16 * 1024 * 1024;
const LONGEST_REASON = 200;

/** Why the host refused something: a sentence of its own, or the number. */
async function reasonOf(answer: Response): Promise<string> {
  const isPlain = (answer.headers.get("Content-Type") ?? "").startsWith("text/plain");
  const said = isPlain ? (await answer.text().catch(() => "")).trim() : "";
  return said === "" || said.length > LONGEST_REASON ? words.store.refused(answer.status) : said;
}

export class Attachments {
  readonly #half: () => string | null;
  readonly #bySession = new Map<string, Signal<readonly Attached[]>>();
  readonly #addresses = new Map<string, Promise<string>>();

  constructor(half: () => string | null) {
    this.#half = half;
  }

  of(sessionId: string): Signal<readonly Attached[]> {
    let found = this.#bySession.get(sessionId);
    if (found === undefined) {
      found = signal([]);
      this.#bySession.set(sessionId, found);
    }
    return found;
  }

  add(sessionId: string, file: File): Attached {
    const type = file.type || "application/octet-stream";
    const first: Attached = { name: file.name, mimeType: type, bytes: file.size, state: "uploading" };
    const shown = this.of(sessionId);
    shown.value = [...shown.value, first];
    if (file.size > MOST_BYTES) {
      // The host would close the line in the middle of it, and the reason would not arrive.
      const refused: Attached = { ...first, state: "refused", problem: words.store.tooLarge(MOST_BYTES / 1024 / 1024) };
      shown.value = shown.value.map((one) => (one === first ? refused : one));
      return refused;
    }
    void this.#upload(file, type).then((found) => {
      shown.value = shown.value.map((one) => (one === first ? { ...first, ...found } : one));
    });
    return first;
  }

  remove(sessionId: string, attached: Attached): void {
    const shown = this.of(sessionId);
    shown.value = shown.value.filter((one) => one !== attached);
  }

  /** Puts back what was sent with a prompt that is taken back: the host still has it. */
  putBack(sessionId: string, attached: readonly Attached[]): void {
    const shown = this.of(sessionId);
    shown.value = [...attached, ...shown.value];
  }

  /** Gives what is ready to be sent, and keeps the rest. */
  take(sessionId: string): Attached[] {
    const shown = this.of(sessionId);
    const ready = shown.value.filter((one) => one.state === "ready");
    shown.value = shown.value.filter((one) => one.state !== "ready");
    return ready;
  }

  /** Return an address of the page for an attachment that the host has; it is fetched once. */
  address(id: string): Promise<string> {
    let found = this.#addresses.get(id);
    if (found === undefined) {
      found = this.#fetch(id);
      this.#addresses.set(id, found);
      // What failed is asked for again when it is drawn again.
      found.catch(() => this.#addresses.delete(id));
    }
    return found;
  }

  /** Lets go of everything that was fetched. */
  forget(): void {
    for (const found of this.#addresses.values()) void found.then((address) => URL.revokeObjectURL(address), () => undefined);
    this.#addresses.clear();
    this.#bySession.clear();
  }

  async #fetch(id: string): Promise<string> {
    const answer = await get(`/attachment/${encodeURIComponent(id)}`, this.#half());
    if (!answer.ok) throw new Error(words.store.refused(answer.status));
    return URL.createObjectURL(await answer.blob());
  }

  async #upload(file: File, type: string): Promise<Partial<Attached>> {
    try {
      const answer = await post("/attachment", file, this.#half(), type);
      if (!answer.ok) return { state: "refused", problem: await reasonOf(answer) };
      const found = object(await answer.json().catch(() => null));
      const id = text(found["id"]);
      if (id === undefined) return { state: "refused", problem: words.store.refused(answer.status) };
      return present<Partial<Attached>>({ id, mimeType: text(found["mimeType"]), state: "ready" });
    } catch {
      return { state: "failed", problem: words.store.notUploaded };
    }
  }
}

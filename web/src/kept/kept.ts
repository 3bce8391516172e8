/**
 * What the page keeps on this device: its half of the pairing, settings, drafts, unsent prompts, and how far each
 * session was read. Never what was said in a conversation.
 *
 * Where the browser has no IndexedDB (some private windows) it is kept in memory, and gone with the page.
 */

const NAME = "dragoman";
const STORE = "kept";
// A page that goes does not wait for the database: what a user wrote is left here, for the next page to put away.
const LEFT = "dragoman.left";
const WRITTEN = /^(?:draft|unsent):/;

type Left = [key: string, value?: unknown][];

export class Kept {
  readonly #memory = new Map<string, unknown>();
  readonly #database: Promise<IDBDatabase | null>;
  /** What the database does not have yet; a value that is undefined is removed. */
  readonly #pending = new Map<string, { value: unknown }>();
  #hasLeft = false;

  constructor() {
    const left = readLeft();
    this.#hasLeft = left.length > 0;
    const settles = left.map(([key, value]) => this.#note(key, value));
    this.#database = open()
      .catch(() => null)
      .then(async (database) => {
        // If that fails, it stays where it is for the next page.
        if (database !== null && (await putAway(database, left))) for (const settle of settles) settle();
        return database;
      });
    addEventListener("pagehide", () => this.#leave());
  }

  async get<T>(key: string): Promise<T | undefined> {
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending.value as T | undefined;
    const found = await this.#use("readonly", (store) => store.get(key));
    return (found === undefined ? this.#memory.get(key) : found) as T | undefined;
  }

  /** All that is kept under names that begin so, with the rest of their names. */
  async all<T>(prefix: string): Promise<Map<string, T>> {
    const range = (): IDBKeyRange => IDBKeyRange.bound(prefix, `${prefix}\uffff`);
    const keys = (await this.#use<IDBValidKey[]>("readonly", (store) => store.getAllKeys(range()))) ?? [];
    const values = (await this.#use<unknown[]>("readonly", (store) => store.getAll(range()))) ?? [];
    const found = new Map<string, T>();
    for (const [key, value] of this.#memory) if (key.startsWith(prefix)) found.set(key.slice(prefix.length), value as T);
    keys.forEach((key, at) => found.set(String(key).slice(prefix.length), values[at] as T));
    for (const [key, { value }] of this.#pending) {
      if (!key.startsWith(prefix)) continue;
      if (value === undefined) found.delete(key.slice(prefix.length));
      else found.set(key.slice(prefix.length), value as T);
    }
    return found;
  }

  async set(key: string, value: unknown): Promise<void> {
    const settle = this.#note(key, value);
    if ((await this.#use("readwrite", (store) => store.put(value, key), settle)) === undefined) this.#memory.set(key, value);
  }

  async remove(key: string): Promise<void> {
    const settle = this.#note(key, undefined);
    this.#memory.delete(key);
    await this.#use("readwrite", (store) => store.delete(key), settle);
  }

  /** Removes everything, as after the end of a pairing. */
  async clear(): Promise<void> {
    this.#memory.clear();
    this.#pending.clear();
    this.#forgetLeft();
    await this.#use("readwrite", (store) => store.clear());
  }

  /** Notes what is on its way to the database; call what it gives when it is there. */
  #note(key: string, value: unknown): () => void {
    if (!WRITTEN.test(key)) return () => undefined;
    const entry = { value };
    this.#pending.set(key, entry);
    return () => {
      if (this.#pending.get(key) === entry) this.#pending.delete(key);
      // The page went and came back, and this was put away meanwhile.
      if (this.#pending.size === 0 && this.#hasLeft) this.#forgetLeft();
    };
  }

  #leave(): void {
    if (this.#pending.size === 0) return;
    this.#hasLeft = true;
    const left: Left = [...this.#pending].map(([key, { value }]) => (value === undefined ? [key] : [key, value]));
    try {
      localStorage.setItem(LEFT, JSON.stringify(left));
    } catch {
      // This browser keeps nothing for the page.
    }
  }

  #forgetLeft(): void {
    this.#hasLeft = false;
    try {
      localStorage.removeItem(LEFT);
    } catch {
      // As above.
    }
  }

  async #use<T>(mode: IDBTransactionMode, step: (store: IDBObjectStore) => IDBRequest<T>, done?: () => void): Promise<T | undefined> {
    const database = await this.#database;
    if (database === null) return undefined;
    try {
      const transaction = database.transaction(STORE, mode);
      const asked = step(transaction.objectStore(STORE));
      return await new Promise<T>((resolve, reject) => {
        transaction.oncomplete = () => {
          done?.();
          resolve(asked.result);
        };
        transaction.onabort = () => reject(transaction.error ?? new Error("the transaction was aborted"));
      });
    } catch {
      return undefined; // the disk is full, or the browser has closed it: what is in memory is still right
    }
  }
}

/** Puts into the database what an earlier page could not wait for; gives whether it is there. */
async function putAway(database: IDBDatabase, left: Left): Promise<boolean> {
  if (left.length === 0) return true;
  try {
    const transaction = database.transaction(STORE, "readwrite");
    const store = transaction.objectStore(STORE);
    for (const [key, value] of left) {
      if (value === undefined) store.delete(key);
      else store.put(value, key);
    }
    return await new Promise<boolean>((resolve) => {
      transaction.oncomplete = () => resolve(true);
      transaction.onabort = () => resolve(false);
    });
  } catch {
    return false;
  }
}

function readLeft(): Left {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(LEFT) ?? "[]");
    return Array.isArray(found) ? (found as Left).filter(([key]) => WRITTEN.test(key)) : [];
  } catch {
    return [];
  }
}

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const asked = indexedDB.open(NAME, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE);
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error ?? new Error("the database cannot be opened"));
    asked.onblocked = () => reject(new Error("the database is in use"));
  });
}

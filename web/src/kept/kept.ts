/**
 * What the page keeps on this device: its half of the pairing, settings, drafts, unsent prompts, and how far each
 * session was read. Never what was said in a conversation.
 *
 * Where the browser has no IndexedDB (some private windows) it is kept in memory, and gone with the page.
 */

const NAME = "dragoman";
const STORE = "kept";

export class Kept {
  readonly #memory = new Map<string, unknown>();
  readonly #database: Promise<IDBDatabase | null>;

  constructor() {
    this.#database = open().catch(() => null);
  }

  async get<T>(key: string): Promise<T | undefined> {
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
    return found;
  }

  async set(key: string, value: unknown): Promise<void> {
    if ((await this.#use("readwrite", (store) => store.put(value, key))) === undefined) this.#memory.set(key, value);
  }

  async remove(key: string): Promise<void> {
    this.#memory.delete(key);
    await this.#use("readwrite", (store) => store.delete(key));
  }

  /** Removes everything, as after the end of a pairing. */
  async clear(): Promise<void> {
    this.#memory.clear();
    await this.#use("readwrite", (store) => store.clear());
  }

  async #use<T>(mode: IDBTransactionMode, step: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
    const database = await this.#database;
    if (database === null) return undefined;
    try {
      const transaction = database.transaction(STORE, mode);
      const asked = step(transaction.objectStore(STORE));
      return await new Promise<T>((resolve, reject) => {
        transaction.oncomplete = () => resolve(asked.result);
        transaction.onabort = () => reject(transaction.error ?? new Error("the transaction was aborted"));
      });
    } catch {
      return undefined; // the disk is full, or the browser has closed it: what is in memory is still right
    }
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

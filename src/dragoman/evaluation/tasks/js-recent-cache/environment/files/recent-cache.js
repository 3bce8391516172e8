/** Keeps the entries that were used last. */
export class RecentCache {
  #entries = new Map();

  /** @param {number} size how many entries are kept */
  constructor(size) {
    if (!Number.isInteger(size) || size < 1) throw new RangeError("size must be a whole number above 0");
    this.size = size;
  }

  get(key) {
    return this.#entries.get(key);
  }

  set(key, value) {
    this.#entries.set(key, value);
    if (this.#entries.size > this.size) {
      this.#entries.delete(this.#entries.keys().next().value);
    }
  }

  keys() {
    return [...this.#entries.keys()];
  }
}

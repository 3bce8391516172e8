import assert from "node:assert/strict";

const { RecentCache } = await import("@MODULE@");
const filled = (size, keys) => {
  const cache = new RecentCache(size);
  for (const key of keys) cache.set(key, key);
  return cache;
};

assert.deepEqual(filled(2, ["a", "b", "c"]).keys(), ["b", "c"]);
let cache = filled(2, ["a", "b"]);
assert.equal(cache.get("a"), "a");
cache.set("c", "c");
assert.deepEqual(cache.keys(), ["a", "c"]);
cache = filled(2, ["a", "b"]);
cache.set("a", "again");
cache.set("c", "c");
assert.deepEqual(cache.keys(), ["a", "c"]);
cache = filled(2, ["a"]);
assert.equal(cache.get("gone"), undefined);
assert.deepEqual(cache.keys(), ["a"]);
cache.set("u", undefined);
cache.get("a");
assert.deepEqual(cache.keys(), ["u", "a"]);
assert.throws(() => new RecentCache(0), RangeError);

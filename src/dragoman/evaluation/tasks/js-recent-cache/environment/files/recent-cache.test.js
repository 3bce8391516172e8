import assert from "node:assert/strict";
import { test } from "node:test";
import { RecentCache } from "./recent-cache.js";

test("drops the oldest", () => {
  const cache = new RecentCache(2);
  for (const key of ["a", "b", "c"]) cache.set(key, key);
  assert.deepEqual(cache.keys(), ["b", "c"]);
});

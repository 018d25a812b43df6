/**
 * Remembers what the request path reads all the time. The home belongs to this process alone, so its own
 * writes are the only ones there are: each one that touches what is cached empties the cache, and while such a
 * write is under way nothing is answered from it. So a cached answer is never older than an uncached one.
 */
import type { WriteName } from "../ops/writes.ts";

export interface FreshCache {
  get<T>(key: string, read: () => T): T;
  /** Wraps every write. */
  around<T>(name: WriteName, write: () => Promise<T>): Promise<T>;
}

const MAX_ENTRIES = 2_000;
const TOUCHES: ReadonlySet<WriteName> = new Set<WriteName>([
  "insertPackage",
  "removePackage",
  "createBinding",
  "updateBinding",
  "updateBindings",
  "removeBinding",
  "putDefinitions",
  "putSignIn",
  "removeSignIn",
  "replaceSealed",
  "createKey",
  "revokeKey",
  "putPolicy",
]);

export function createFreshCache(): FreshCache {
  const entries = new Map<string, unknown>();
  let under_way = 0;
  return {
    get(key, read) {
      if (under_way > 0) return read();
      type Value = ReturnType<typeof read>;
      if (entries.has(key)) return entries.get(key) as Value;
      const value = deepFreeze(read());
      // Emptied rather than evicted one by one: refilling costs microseconds.
      if (entries.size >= MAX_ENTRIES) entries.clear();
      entries.set(key, value);
      return value;
    },
    around(name, write) {
      if (!TOUCHES.has(name)) return write();
      under_way++;
      entries.clear();
      return write().finally(() => {
        under_way--;
      });
    },
  };
}

/** Shared by all readers, so nobody may change it. */
function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}

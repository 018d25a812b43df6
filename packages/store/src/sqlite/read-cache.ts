/**
 * Caches rows that many requests read (benchmark http.invoke). The home belongs to this process alone, so only its own
 * writes can make the cache stale: each write to a cached table empties the cache, and while such a write is in flight
 * the cache is bypassed. A cached value is therefore never older than an uncached one.
 */
import type { WriteName } from "../ops/writes.ts";

export interface ReadCache {
  get<T>(key: string, read: () => T): T;
  /** Runs a write. If it changes a cached table, empties the cache and bypasses it until the write has settled. */
  duringWrite<T>(name: WriteName, write: () => Promise<T>): Promise<T>;
}

const MAX_ENTRIES = 2_000;
const INVALIDATING_WRITES: ReadonlySet<WriteName> = new Set<WriteName>([
  "insertPackage",
  "removePackage",
  "createBinding",
  "updateBinding",
  "updateBindings",
  "removeBinding",
  "commitInstallation",
  "putDefinitions",
  "putSignIn",
  "removeSignIn",
  "replaceSealed",
  "createKey",
  "revokeKey",
  "putPolicy",
]);

export function createReadCache(): ReadCache {
  const entries = new Map<string, unknown>();
  let pending_writes = 0;
  return {
    get(key, read) {
      if (pending_writes > 0) return read();
      type Value = ReturnType<typeof read>;
      if (entries.has(key)) return entries.get(key) as Value;
      const value = deepFreeze(read());
      // The cache is emptied instead of evicting single entries, because refilling costs microseconds.
      if (entries.size >= MAX_ENTRIES) entries.clear();
      entries.set(key, value);
      return value;
    },
    duringWrite(name, write) {
      if (!INVALIDATING_WRITES.has(name)) return write();
      pending_writes++;
      entries.clear();
      return write().finally(() => {
        pending_writes--;
      });
    },
  };
}

/** All readers share the value, so no reader may change it. */
function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}

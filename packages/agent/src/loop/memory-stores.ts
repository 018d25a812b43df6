/**
 * Selects the memory stores that a turn queries and writes. A strategy may select them. Otherwise the age of the
 * session decides which kind is queried first: a young session mostly needs recent memories, an old one older memories.
 * The other kind is queried if the first has fewer hits than requested, so every stored memory can be found.
 */
import {
  type BusEvent,
  codeOf,
  type Decision,
  type JsonObject,
  LOOP_LIMITS,
  type MemoryEntry,
} from "@backplane/contract";
import type { SessionKey } from "@backplane/ports";
import type { KernelPort } from "@backplane/session";
import type { MemoryStore } from "../plugins/plugins-port.ts";
import type { Turn } from "./turn.ts";

export interface MemoryDeps {
  port: KernelPort;
  /** Returns the loaded memory plugins. */
  listMemoryStores: () => MemoryStore[];
  /** Returns the milliseconds since the session was created. */
  getSessionAge(key: SessionKey): Promise<number>;
}

export async function queryMemory(
  deps: MemoryDeps,
  turn: Turn,
  { query, k = 5, ...decision }: Extract<Decision, { next: "memory" }>,
): Promise<MemoryEntry[]> {
  // A strategy is a plugin, and only the fields that decide the order of steps were checked.
  const stores = Array.isArray(decision.stores) ? decision.stores : undefined;
  const chosen = chooseStores(deps.listMemoryStores(), stores);
  const results: MemoryEntry[][] = [];
  for (const group of stores === undefined ? await sortByAge(deps, turn.key, chosen) : [chosen]) {
    if (results.length > 0 && mergeHits(results, k).length >= k) break;
    results.push(
      ...(await Promise.all(group.map((store) => queryStore(deps.port, turn, store, { query, k })))),
    );
  }
  return mergeHits(results, k);
}

/** Publishes the entry to the stores that its `source` or `store` selects, or to all stores if it has neither. */
export function writeMemory({ listMemoryStores, port }: MemoryDeps, turn: Turn, write: MemoryEntry): void {
  const { source, store, ...entry } = write;
  const store_name = source ?? store;
  const chosen = chooseStores(listMemoryStores(), store_name === undefined ? undefined : [store_name]);
  if (chosen.length === 0) return;
  const stores = chosen.map(({ plugin }) => plugin);
  port.tryPublish("memory.write", { entry: entry as unknown as JsonObject, stores }, turn.to);
}

/** A name is a plugin or a kind of store. */
function chooseStores(all: readonly MemoryStore[], names: readonly string[] | undefined): MemoryStore[] {
  if (names === undefined) return [...all];
  return all.filter(({ plugin, store }) => names.includes(plugin) || names.includes(store));
}

async function sortByAge(
  deps: MemoryDeps,
  key: SessionKey,
  stores: readonly MemoryStore[],
): Promise<MemoryStore[][]> {
  const ofKind = (kind: MemoryStore["store"]) => stores.filter(({ store }) => store === kind);
  const groups = [ofKind("short-term"), ofKind("long-term")].filter((group) => group.length > 0);
  if (groups.length < 2) return groups;
  return (await deps.getSessionAge(key)) < LOOP_LIMITS.young_session_ms ? groups : groups.toReversed();
}

async function queryStore(
  port: KernelPort,
  turn: Turn,
  { plugin, store }: MemoryStore,
  request: { query: string; k: number },
): Promise<MemoryEntry[]> {
  const wait = { timeout_ms: LOOP_LIMITS.memory_ms, signal: turn.signal };
  try {
    const to = { ...turn.to, reply: "memory.result", from: plugin, ...wait };
    const reply = await port.request("memory.query", { ...request, stores: [plugin] }, to);
    const hits = (reply as BusEvent<"memory.result">).payload.hits as unknown as MemoryEntry[];
    return hits.map((hit) => ({ ...hit, source: plugin, store }));
  } catch (error) {
    // The turn continues without the memories of a plugin that is slow or fails.
    if (codeOf(error) === "timeout" || codeOf(error) === "plugin_failed") return [];
    throw error;
  }
}

/**
 * Hits of a single store keep its order. Hits of several stores are sorted by score, with short-term memories first at
 * equal scores.
 */
function mergeHits(results: readonly MemoryEntry[][], k: number): MemoryEntry[] {
  if (results.length === 1) return results[0]!;
  const rank = ({ store }: MemoryEntry) => (store === "short-term" ? 0 : 1);
  const sorted = results.flat().toSorted((a, b) => (b.score ?? 0) - (a.score ?? 0) || rank(a) - rank(b));
  const seen = new Set<string>();
  const distinct = sorted.filter(({ text }) => !seen.has(text) && seen.add(text));
  return distinct.slice(0, k);
}

/**
 * Sessions, their chains and entries. Entries are never rewritten or removed. A method with `once` claims the key in
 * its transaction; if the key is already claimed, it throws `idempotency.in_progress` and writes nothing. The response
 * stored for the key is JSON: `{session_id, workspace}` of a new session, `{id}` of a new chain, `{entry_id}` of the
 * last entry.
 */
import type { Chain, Entry, EntryKind, JsonObject, Session } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { IdempotencyClaim } from "./access-store.ts";
import type { ChangeRecords } from "./change-records.ts";
import type { RunHold, TapeWrite } from "./run-store.ts";

/** The full key of a session: the same id in another workspace or project is another session. */
export interface SessionKey {
  scope: Scope;
  workspace: string;
  session_id: string;
}

export interface NewSession {
  key: SessionKey;
  name: string;
  metadata: JsonObject;
}

/** The caller creates the id, so that its records can refer to it. */
export interface NewChain {
  id: string;
  created_at: string;
}

export interface NewEntry {
  kind: EntryKind;
  payload: JsonObject;
  meta: JsonObject;
  date: string;
}

export interface AppendedEntries {
  chain_id: string;
  first_id: number;
  last_id: number;
}

/** Refers to the entry as it was first written, not a copy on a compacted chain. */
export interface PinnedEntry {
  entry_id: number;
  pinned_by: string;
  pinned_at: string;
}

export interface SessionStore {
  /** Throws `session.conflict` if the session exists. */
  create(
    session: NewSession,
    chain: NewChain,
    first: readonly NewEntry[],
    records: ChangeRecords,
    once?: IdempotencyClaim,
  ): Promise<Session>;
  /** Finds a session of exactly this scope. */
  get(key: SessionKey): Promise<Session | null>;
  /** Newest first; all sessions of the org if the scope has no project. */
  list(scope: Scope, filter: { workspace?: string }, page: Page): Promise<PageOf<Session>>;
  /** Sets these metadata keys; null removes a key. Throws `session.not_found`. */
  patch(key: SessionKey, metadata: JsonObject): Promise<Session>;
  getChain(scope: Scope, id: string): Promise<Chain | null>;
  /** Newest first, including archived chains. */
  listChains(key: SessionKey, page: Page): Promise<PageOf<Chain>>;
  /**
   * Appends all entries or none, with the next ids of the session, to the head or to the given chain. Resolves when
   * they are on disk. Throws `session.not_found`, `chain.not_found`, `chain.archived`.
   */
  append(
    key: SessionKey,
    entries: readonly NewEntry[],
    chain_id?: string,
    once?: IdempotencyClaim,
  ): Promise<AppendedEntries>;
  /** Like `append` to the head. Throws `session.busy` while a turn runs. */
  appendIdle(key: SessionKey, entries: readonly NewEntry[]): Promise<AppendedEntries>;
  /** Like `append` to the head. With a hold, throws `run.taken_over` if another gateway owns the turn. */
  appendTape(tape: TapeWrite, once?: IdempotencyClaim): Promise<AppendedEntries>;
  /** The chain's entries after this id in order, including inherited ones. Throws `chain.not_found`. */
  listEntries(scope: Scope, chain_id: string, after_id: number, limit: number): Promise<Entry[]>;
  /**
   * The session's entries after this id in order, across all chains, preceded by the entries that a forked session's
   * first chain inherits. A page with fewer than `limit` entries is the last. Throws `session.not_found`.
   */
  replay(key: SessionKey, after_id: number, limit: number): Promise<Entry[]>;
  /** The last anchor and the entries after it; earlier entries are not read. Throws `chain.not_found`. */
  listSinceAnchor(scope: Scope, chain_id: string): Promise<Entry[]>;
  /**
   * Creates a chain that inherits the entries up to `at` (default: all) without copying them, as the head of the new
   * session `into` or as another chain of the same session. Throws `chain.not_found`, `session.conflict`, and
   * `request.invalid` if the chain has no entry up to `at`.
   */
  fork(
    from: { scope: Scope; chain_id: string; at?: number },
    chain: NewChain,
    into: NewSession | null,
    records: ChangeRecords,
    once?: IdempotencyClaim,
  ): Promise<Chain>;
  /**
   * Archives all chains of the session and makes `chain` the head. Resolves to null if `expected_head` is not the head.
   * Throws `session.busy` while a turn runs.
   */
  reset(
    key: SessionKey,
    expected_head: string,
    chain: NewChain,
    first: readonly NewEntry[],
    records: ChangeRecords,
  ): Promise<Chain | null>;
  /**
   * Makes `chain`, which begins with `first`, the head. Resolves to null if the head is another chain or has grown.
   * With a hold, throws `run.taken_over` if another gateway owns the turn; without, `session.busy` while a turn runs.
   * With an execution, counts the compaction for it, or throws `harness.limit`.
   */
  compact(
    key: SessionKey,
    expected: { chain_id: string; last_entry_id: number },
    chain: NewChain,
    first: readonly NewEntry[],
    records: ChangeRecords,
    options?: { hold?: RunHold | undefined; execution_id?: string | undefined },
  ): Promise<Chain | null>;
  /** Resolves to false if `from` is not the head or `to` is not an open chain of the session. Throws `session.busy`. */
  moveHead(key: SessionKey, from: string, to: string, records: ChangeRecords): Promise<boolean>;
  /**
   * Pins an entry of the session; a repeat changes nothing. Forks inherit pins with the entries, and a reset removes
   * them. Throws `session.not_found`, and `request.invalid` if the session has too many.
   */
  pin(key: SessionKey, entry_id: number, pinned_by: string, pinned_at: string): Promise<void>;
  /** Resolves to false if the entry is not pinned. */
  unpin(key: SessionKey, entry_id: number): Promise<boolean>;
  /** Lists the pins in the order of their entries. */
  listPins(key: SessionKey): Promise<PinnedEntry[]>;
  /** Recomputes the hashes, including inherited entries. Resolves to the first broken entry, or to null. */
  verify(scope: Scope, chain_id: string): Promise<{ chain_id: string; entry_id: number } | null>;
}

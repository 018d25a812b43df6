/**
 * Sessions, their chains and the entries on them. Nothing here rewrites or removes an entry. Where `once` is given, the
 * key is taken in the same transaction; when it is taken already, `idempotency.in_progress` is thrown and nothing is
 * written. Its answer is JSON: `{session_id, workspace}` of a new session, `{id}` of a new chain, `{entry_id}` of the
 * last entry.
 */
import type { Chain, Entry, EntryKind, JsonObject, Session } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { OnceKey } from "./access-store.ts";
import type { Facts } from "./facts.ts";
import type { RunHold, TapeWrite } from "./run-store.ts";

/** The whole key: the same id in another workspace or project is another session. */
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

/** Made by the caller, so that its facts can name it. */
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

export interface Appended {
  chain_id: string;
  first_id: number;
  last_id: number;
}

export interface SessionStore {
  /** Throws `session.conflict` when the key is taken. */
  create(
    session: NewSession,
    chain: NewChain,
    first: readonly NewEntry[],
    facts: Facts,
    once?: OnceKey,
  ): Promise<Session>;
  /** Of exactly this scope. */
  get(key: SessionKey): Promise<Session | null>;
  /** Newest first; the whole org when the scope has no project. */
  list(scope: Scope, filter: { workspace?: string }, page: Page): Promise<PageOf<Session>>;
  /** Sets these keys of the metadata; null removes one. Throws `session.not_found`. */
  patch(key: SessionKey, metadata: JsonObject): Promise<Session>;
  chain(scope: Scope, id: string): Promise<Chain | null>;
  /** Newest first, archived ones included. */
  chains(key: SessionKey, page: Page): Promise<PageOf<Chain>>;
  /**
   * All of them or none, with the next ids of the session; resolves when they are on disk. On the head unless
   * a chain is named. Throws `session.not_found`, `chain.not_found`, `chain.archived`.
   */
  append(key: SessionKey, entries: readonly NewEntry[], chain_id?: string, once?: OnceKey): Promise<Appended>;
  /** As `append` to the head. With a hold it throws `run.taken_over` when another gateway has the turn. */
  appendTape(tape: TapeWrite, once?: OnceKey): Promise<Appended>;
  /** What the chain shows after this id, inherited entries included, in order. Throws `chain.not_found`. */
  entries(scope: Scope, chain_id: string, after_id: number, limit: number): Promise<Entry[]>;
  /**
   * Every entry of the session after this id, whatever chain it is on, in order; before them what a forked
   * session's first chain inherits. A page that is not full is the last. Throws `session.not_found`.
   */
  replay(key: SessionKey, after_id: number, limit: number): Promise<Entry[]>;
  /** The last anchor and what comes after it; reads nothing before it. Throws `chain.not_found`. */
  sinceAnchor(scope: Scope, chain_id: string): Promise<Entry[]>;
  /**
   * A chain that shows what this one shows up to `at` (default: all of it) and copies nothing, as the head of
   * the new session, or beside the head of the same one. Throws `chain.not_found`, `session.conflict`.
   */
  fork(
    from: { scope: Scope; chain_id: string; at?: number },
    chain: NewChain,
    into: NewSession | null,
    facts: Facts,
    once?: OnceKey,
  ): Promise<Chain>;
  /**
   * Archives every chain of the session; the head is a new one. Null: `expected_head` is not the head. Throws
   * `session.busy` while a turn runs.
   */
  reset(
    key: SessionKey,
    expected_head: string,
    chain: NewChain,
    first: readonly NewEntry[],
    facts: Facts,
  ): Promise<Chain | null>;
  /**
   * The head is a new chain that begins with `first`. Null: the head is another one or has grown. With the hold of a
   * turn it throws `run.taken_over` when another gateway has it; without, `session.busy` while one runs.
   */
  compact(
    key: SessionKey,
    expected: { chain_id: string; last_entry_id: number },
    chain: NewChain,
    first: readonly NewEntry[],
    facts: Facts,
    hold?: RunHold,
  ): Promise<Chain | null>;
  /** False: `from` is not the head, or `to` is not an open chain of this session. Throws `session.busy`. */
  moveHead(key: SessionKey, from: string, to: string, facts: Facts): Promise<boolean>;
  /** Computes the hashes again, inherited entries included; where the first wrong one is, or null. */
  verify(scope: Scope, chain_id: string): Promise<{ chain_id: string; entry_id: number } | null>;
}

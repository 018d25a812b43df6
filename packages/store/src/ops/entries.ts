/** Appends entries to the tape of a session, alone or in the transaction of another write. */

import type { EntryRow } from "./entry-hash.ts";
import { type HoldColumns, requireHeldRun, requireIdle } from "./holds.ts";
import { type CompletedKey, completeKeyWith } from "./idempotency.ts";
import { type Op, refuse, type SqlDialect, selectForUpdate, sql } from "./op.ts";
import { keyValues, SESSION_KEY, type SessionKeyColumns } from "./session-key.ts";
import { writeSpans } from "./spans.ts";

export interface AppendedRows {
  chain_id: string;
  first_id: number;
  last_id: number;
}

const UPDATE_TIP = "update chains set last_entry = $2, hash = $3 where id = $1";

export function* appendEntries(
  p: { key: SessionKeyColumns; chain_id: string | null; entries: EntryRow[] },
  dialect: SqlDialect,
): Op<AppendedRows> {
  const count = p.entries.length;
  const on_head = dialect === "sqlite" && p.chain_id === null;
  const { chain_id, hash, last_id } = on_head
    ? yield* reserveIdsOnHead(p.key, count)
    : yield* reserveIds(p.key, p.chain_id, count);
  const first_id = last_id - count + 1;
  if (count === 0) return { chain_id, first_id, last_id };
  const last_hash = yield* writeSpans(chain_id, first_id, hash, p.entries);
  yield sql(UPDATE_TIP, [chain_id, last_id, last_hash]);
  return { chain_id, first_id, last_id };
}

interface ReservedIds {
  chain_id: string;
  /** Hash of the entry before the new ones. */
  hash: string;
  /** Id of the last entry that will be written. */
  last_id: number;
}

const RESERVE_IDS = `update sessions set last_entry = last_entry + $5 where ${SESSION_KEY} and id = $4 returning last_entry, head_chain`;
const READ_TIP = `select hash, archived_at from chains where ${SESSION_KEY} and session_id = $4 and id = $5`;

/** Locks the session's row first, so that ids and hashes are serial with any number of writers. */
function* reserveIds(key: SessionKeyColumns, requested_chain: string | null, count: number): Op<ReservedIds> {
  const [session] = yield sql(RESERVE_IDS, [...keyValues(key), count]);
  if (session === undefined) refuse("session.not_found", `There is no session ${key.session_id}.`);
  const chain_id = requested_chain ?? (session.head_chain as string);
  const [chain] = yield sql(READ_TIP, [...keyValues(key), chain_id]);
  if (chain === undefined) refuse("chain.not_found", `The session has no chain ${chain_id}.`);
  if (chain.archived_at !== null) refuse("chain.archived", `Chain ${chain_id} is archived.`);
  return { chain_id, hash: chain.hash as string, last_id: session.last_entry as number };
}

const READ_HEAD = `select s.last_entry, s.head_chain, c.hash from sessions s join chains c on c.id = s.head_chain
  where s.org_id = $1 and s.project_id = $2 and s.workspace = $3 and s.id = $4`;
const SET_LAST_ENTRY = `update sessions set last_entry = $5 where ${SESSION_KEY} and id = $4`;

/**
 * For the head chain, which receives nearly every entry. SQLite has one writer, so this needs no lock and costs a third
 * less than reserveIds (benchmark loop.turn).
 */
function* reserveIdsOnHead(key: SessionKeyColumns, count: number): Op<ReservedIds> {
  const [head] = yield selectForUpdate(READ_HEAD, keyValues(key));
  if (head === undefined) refuse("session.not_found", `There is no session ${key.session_id}.`);
  const last_id = (head.last_entry as number) + count;
  yield sql(SET_LAST_ENTRY, [...keyValues(key), last_id]);
  return { chain_id: head.head_chain as string, hash: head.hash as string, last_id };
}

export interface TapeRows {
  key: SessionKeyColumns;
  entries: EntryRow[];
  /** Null if the entries are not written by a turn. */
  hold: HoldColumns | null;
}

export function* appendOnce(
  p: TapeRows & { chain_id: string | null; once: CompletedKey },
  dialect: SqlDialect,
): Op<AppendedRows> {
  if (p.hold !== null) yield* requireHeldRun(p.hold, dialect);
  const written = yield* appendEntries(p, dialect);
  yield* completeKeyWith(p.once, { entry_id: written.last_id }, dialect);
  return written;
}

/**
 * Refused while a turn of the session runs on any gateway: a new anchor would remove earlier entries from the context
 * of the turn.
 */
export function* appendIdle(
  p: { key: SessionKeyColumns; entries: EntryRow[] },
  dialect: SqlDialect,
): Op<AppendedRows> {
  // The append locks the session's row.
  const written = yield* appendEntries({ ...p, chain_id: null }, dialect);
  yield* requireIdle(p.key);
  return written;
}

/** Appends entries of a turn. Refused with `run.taken_over` once the turn has ended or another gateway owns it. */
export function* appendForTurn(p: TapeRows & { hold: HoldColumns }, dialect: SqlDialect): Op<AppendedRows> {
  yield* requireHeldRun(p.hold, dialect);
  return yield* appendEntries({ ...p, chain_id: null }, dialect);
}

/** Appends to the head chain of the session. */
export function* writeTape(tape: TapeRows | null, dialect: SqlDialect): Op<AppendedRows | null> {
  if (tape === null) return null;
  return yield* appendEntries({ key: tape.key, chain_id: null, entries: tape.entries }, dialect);
}

/** Appending to the tape: ids and hashes are serial with any number of writers. */

import type { EntryRow } from "./entry-hash.ts";
import { type Dialect, type Op, refuse, type SqlValue, sql } from "./op.ts";
import { writeSpans } from "./spans.ts";

export interface KeyColumns {
  org_id: string;
  project_id: string;
  workspace: string;
  session_id: string;
}

export interface AppendedRows {
  chain_id: string;
  first_id: number;
  last_id: number;
}

export const KEY = "org_id = $1 and project_id = $2 and workspace = $3";

export function keyValues(key: KeyColumns): SqlValue[] {
  return [key.org_id, key.project_id, key.workspace, key.session_id];
}

const MOVE_TIP = "update chains set last_entry = $2, hash = $3 where id = $1";

export function* appendEntries(
  p: { key: KeyColumns; chain_id: string | null; entries: EntryRow[] },
  dialect: Dialect,
): Op<AppendedRows> {
  const count = p.entries.length;
  const alone = dialect === "sqlite" && p.chain_id === null;
  const { chain_id, hash, last_id } = alone
    ? yield* takeOnHead(p.key, count)
    : yield* take(p.key, p.chain_id, count);
  const first_id = last_id - count + 1;
  if (count === 0) return { chain_id, first_id, last_id };
  const tip = yield* writeSpans(chain_id, first_id, hash, p.entries);
  yield sql(MOVE_TIP, [chain_id, last_id, tip]);
  return { chain_id, first_id, last_id };
}

interface Taken {
  chain_id: string;
  /** Of the entry before. */
  hash: string;
  /** Of the entries that are to be written. */
  last_id: number;
}

const TAKE = `update sessions set last_entry = last_entry + $5 where ${KEY} and id = $4 returning last_entry, head_chain`;
const READ_TIP = `select hash, archived_at from chains where ${KEY} and session_id = $4 and id = $5`;

/** The session's row is locked first, so that ids and hashes are serial with any number of writers. */
function* take(key: KeyColumns, named: string | null, count: number): Op<Taken> {
  const [session] = yield sql(TAKE, [...keyValues(key), count]);
  if (session === undefined) refuse("session.not_found", `There is no session ${key.session_id}.`);
  const chain_id = named ?? (session.head_chain as string);
  const [chain] = yield sql(READ_TIP, [...keyValues(key), chain_id]);
  if (chain === undefined) refuse("chain.not_found", `The session has no chain ${chain_id}.`);
  if (chain.archived_at !== null) refuse("chain.archived", `Chain ${chain_id} is archived.`);
  return { chain_id, hash: chain.hash as string, last_id: session.last_entry as number };
}

const READ_HEAD = `select s.last_entry, s.head_chain, c.hash from sessions s join chains c on c.id = s.head_chain
  where s.org_id = $1 and s.project_id = $2 and s.workspace = $3 and s.id = $4`;
const SET_LAST = `update sessions set last_entry = $5 where ${KEY} and id = $4`;

/** The same where one writer needs no lock, for the chain that nearly every entry goes to: a third cheaper. */
function* takeOnHead(key: KeyColumns, count: number): Op<Taken> {
  const [head] = yield sql(READ_HEAD, keyValues(key));
  if (head === undefined) refuse("session.not_found", `There is no session ${key.session_id}.`);
  const last_id = (head.last_entry as number) + count;
  yield sql(SET_LAST, [...keyValues(key), last_id]);
  return { chain_id: head.head_chain as string, hash: head.hash as string, last_id };
}

/**
 * The tape. Each entry's hash covers the one before it; the first of a chain covers where the chain comes from,
 * so a changed byte anywhere behind an entry, or a changed parent, is found.
 */
import { hash as digest } from "node:crypto";
import { type Dialect, type Op, refuse, type SqlValue, sql } from "../op.ts";

/** kind, date, payload, meta */
export type EntryRow = [kind: string, date: string, payload: string, meta: string];

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

/** The session's row is locked first, so that ids and hashes are serial with any number of writers. */
export function* appendEntries(
  p: { key: KeyColumns; chain_id: string | null; entries: EntryRow[] },
  dialect: Dialect,
): Op<AppendedRows> {
  const [session] = yield sql(
    `update sessions set last_entry = last_entry + $5 where ${KEY} and id = $4 returning last_entry, head_chain`,
    [...keyValues(p.key), p.entries.length],
  );
  if (session === undefined) refuse("session.not_found", `There is no session ${p.key.session_id}.`);
  const chain_id = p.chain_id ?? (session.head_chain as string);
  const [chain] = yield sql(
    `select hash, archived_at from chains where ${KEY} and session_id = $4 and id = $5`,
    [...keyValues(p.key), chain_id],
  );
  if (chain === undefined) refuse("chain.not_found", `The session has no chain ${chain_id}.`);
  if (chain.archived_at !== null) refuse("chain.archived", `Chain ${chain_id} is archived.`);
  const last_id = session.last_entry as number;
  const first_id = last_id - p.entries.length + 1;
  const hash = yield* writeEntries(chain_id, first_id, chain.hash as string, p.entries, dialect);
  yield sql("update chains set last_entry = $2, hash = $3 where id = $1", [chain_id, last_id, hash]);
  return { chain_id, first_id, last_id };
}

const INSERT_ENTRY =
  "insert into entries (chain_id, id, kind, date, payload, meta, hash) values ($1, $2, $3, $4, $5, $6, $7)";
const INSERT_ENTRIES = `insert into entries (chain_id, id, kind, date, payload, meta, hash)
  select $1, (e->>0)::bigint, e->>1, e->>2, e->>3, e->>4, e->>5 from json_array_elements($2::json) e`;

/** Answers the hash of the last one. */
export function* writeEntries(
  chain_id: string,
  first_id: number,
  previous: string,
  entries: readonly EntryRow[],
  dialect: Dialect,
): Op<string> {
  let hash = previous;
  const rows = entries.map((entry, n) => {
    hash = entryHash(hash, chain_id, first_id + n, entry);
    return [first_id + n, ...entry, hash];
  });
  if (dialect === "postgres") yield sql(INSERT_ENTRIES, [chain_id, JSON.stringify(rows)]);
  else for (const row of rows) yield sql(INSERT_ENTRY, [chain_id, ...row]);
  return hash;
}

export function entryHash(previous: string, chain_id: string, id: number, entry: EntryRow): string {
  return digest("sha256", `${previous}\n${JSON.stringify([chain_id, id, ...entry])}`);
}

/** What a chain's first entry is chained to; `inherited` is the hash of the last entry that it shows of others. */
export function originHash(
  inherited: string,
  chain_id: string,
  parent_id: string | null,
  fork_entry: number,
): string {
  return digest("sha256", `${inherited}\n${JSON.stringify([chain_id, parent_id, fork_entry])}`);
}

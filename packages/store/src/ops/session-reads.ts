/**
 * Reads sessions, chains and tapes. A chain shows the entries of its ancestors up to the points where it was forked,
 * and its own. Reading starts at the oldest ancestor that has entries after `after`, so earlier ancestors cost nothing.
 */

import { checkedCondition, type Op, type Row, refuse, type SqlValue, sql } from "./op.ts";
import { keyValues, SESSION_KEY, type SessionKeyColumns } from "./session-key.ts";
import { CHAIN_COLUMNS, requireChain, SESSION_COLUMNS } from "./sessions.ts";
import { readLastAnchor, readSpans, readWindow, type StoredEntry } from "./spans.ts";

/** The visible entries of one chain of a lineage: lower < id ≤ upper. `hash` is that of the whole chain. */
export interface ChainSegment {
  chain_id: string;
  hash: string;
  parent_id: string | null;
  fork_entry: number;
  lower: number;
  upper: number;
}

export function* readSession(key: SessionKeyColumns): Op<Row | undefined> {
  return (yield sql(
    `select ${SESSION_COLUMNS} from sessions where ${SESSION_KEY} and id = $4`,
    keyValues(key),
  ))[0];
}

export function* listSessions(p: {
  org_id: string;
  project_id: string;
  workspace: string | null;
  before: string;
  limit: number;
}): Op<Row[]> {
  const conditions = ["org_id = $1", "root_chain < $2"];
  const values: SqlValue[] = [p.org_id, p.before, p.limit];
  if (p.project_id !== "") conditions.push(`project_id = $${values.push(p.project_id)}`);
  if (p.workspace !== null) {
    conditions.push(checkedCondition("sessions", `workspace = $${values.push(p.workspace)}`));
  }
  return yield sql(
    `select ${SESSION_COLUMNS} from sessions where ${conditions.join(" and ")} order by root_chain desc limit $3`,
    values,
  );
}

export function* listChains(key: SessionKeyColumns, before: string, limit: number): Op<Row[]> {
  return yield sql(
    `select ${CHAIN_COLUMNS} from chains where ${SESSION_KEY} and session_id = $4 and id < $5 order by id desc limit $6`,
    [...keyValues(key), before, limit],
  );
}

/** Oldest first. Ancestors without visible entries after `after` are not read. */
export function* readLineageSegments(
  org_id: string,
  project_id: string,
  chain_id: string,
  after: number,
): Op<ChainSegment[]> {
  let row = yield* requireChain(org_id, project_id, chain_id);
  let upper = row.last_entry as number;
  const lineage: ChainSegment[] = [];
  for (;;) {
    const fork_entry = row.fork_entry as number;
    const parent_id = row.parent_id as string | null;
    const lower = Math.max(fork_entry, after);
    const { id, hash } = row as { id: string; hash: string };
    lineage.push({ chain_id: id, hash, parent_id, fork_entry, lower, upper });
    upper = Math.min(upper, fork_entry);
    if (parent_id === null || upper <= after) return lineage.reverse();
    row = yield* requireChain(org_id, project_id, parent_id);
  }
}

export function* readEntries(
  org_id: string,
  project_id: string,
  chain_id: string,
  after: number,
  limit: number,
): Op<StoredEntry[]> {
  return yield* readLineage(yield* readLineageSegments(org_id, project_id, chain_id, after), limit);
}

function* readLineage(lineage: readonly ChainSegment[], limit: number): Op<StoredEntry[]> {
  let collected: StoredEntry[] = [];
  for (const { chain_id: id, lower, upper } of lineage) {
    if (collected.length >= limit) break;
    if (lower >= upper) continue;
    const entries = yield* readSpans(id, lower, upper, limit - collected.length);
    collected = collected.length === 0 ? entries : collected.concat(entries);
  }
  return collected;
}

/**
 * The entries that the first chain inherits, then the session's own. The id of an own entry is on exactly one chain of
 * the session, so a page is a window of ids, and only chains that overlap the window are read.
 */
export function* readSessionEntries(key: SessionKeyColumns, after: number, limit: number): Op<StoredEntry[]> {
  const [session] = yield sql(
    `select s.last_entry, s.root_chain, c.fork_entry, c.parent_id from sessions s join chains c on c.id = s.root_chain
      where s.org_id = $1 and s.project_id = $2 and s.workspace = $3 and s.id = $4`,
    keyValues(key),
  );
  if (session === undefined) refuse("session.not_found", `There is no session ${key.session_id}.`);
  const { last_entry, fork_entry } = session as { last_entry: number; fork_entry: number };
  let collected: StoredEntry[] = [];
  if (session.parent_id !== null && after < fork_entry) {
    const lineage = yield* readLineageSegments(
      key.org_id,
      key.project_id,
      session.root_chain as string,
      after,
    );
    collected = yield* readLineage(lineage.slice(0, -1), limit);
  }
  for (let lower = Math.max(after, fork_entry); lower < last_entry && collected.length < limit; ) {
    const upper = Math.min(lower + limit - collected.length, last_entry);
    const entries = yield* readWindow(keyValues(key) as string[], lower, upper);
    collected = collected.length === 0 ? entries : collected.concat(entries);
    lower = upper;
  }
  return collected;
}

export function* readSinceAnchor(org_id: string, project_id: string, chain_id: string): Op<StoredEntry[]> {
  let row = yield* requireChain(org_id, project_id, chain_id);
  let upper = row.last_entry as number;
  let collected: StoredEntry[] = [];
  for (;;) {
    const anchor = yield* readLastAnchor(row.id as string, upper);
    const lower = anchor === null ? (row.fork_entry as number) : anchor - 1;
    collected = (yield* readSpans(row.id as string, lower, upper, upper)).concat(collected);
    if (anchor !== null || row.parent_id === null) return collected;
    upper = Math.min(upper, row.fork_entry as number);
    row = yield* requireChain(org_id, project_id, row.parent_id as string);
  }
}

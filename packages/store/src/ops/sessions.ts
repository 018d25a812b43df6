/** Sessions, and the operations that begin a chain: start, fork, reset, compaction. Written entries never change. */

import { type ChangeRecordRows, writeRecords } from "./change-records.ts";
import { type EntryRow, originHash } from "./entry-hash.ts";
import { countCompaction } from "./executions.ts";
import { type HoldColumns, requireHeldRun, requireIdle } from "./holds.ts";
import { type CompletedKey, completeKeyWith } from "./idempotency.ts";
import { checkedCondition, type Op, type Row, refuse, rowLock, type SqlDialect, sql } from "./op.ts";
import { keyValues, SESSION_KEY, type SessionKeyColumns } from "./session-key.ts";
import { readLastEntry, writeSpans } from "./spans.ts";

export const SESSION_COLUMNS =
  "org_id, project_id, workspace, id, name, parent_id, head_chain, root_chain, last_entry, metadata, created_at";
export const CHAIN_COLUMNS =
  "id, org_id, project_id, workspace, session_id, origin, parent_id, fork_entry, last_entry, hash, archived_at, created_at";

/** Pinning an entry again changes nothing. */
export const INSERT_PIN = `insert into pins (org_id, project_id, workspace, session_id, entry_id, pinned_by, pinned_at)
  values ($1, $2, $3, $4, $5, $6, $7) on conflict do nothing`;

export interface SessionRow {
  key: SessionKeyColumns;
  name: string;
  metadata: string;
}

export interface ChainRow {
  id: string;
  created_at: string;
}

export function* createSession(
  p: {
    session: SessionRow;
    chain: ChainRow;
    first: EntryRow[];
    records: ChangeRecordRows;
    once: CompletedKey | null;
  },
  dialect: SqlDialect,
): Op<Row> {
  const { session_id, workspace } = p.session.key;
  // This comes first, so that a concurrent repeat is refused because of its key and not because of the session.
  if (p.once !== null) yield* completeKeyWith(p.once, { session_id, workspace }, dialect);
  yield* requireUnusedKey(p.session.key);
  const session = yield* insertSession(p.session, null, p.chain, p.first.length);
  const start = { ...p.chain, origin: "start", parent_id: null, fork_entry: 0, inherited: "" };
  yield* insertChain(p.session.key, start, p.first, 1);
  yield* writeRecords(p.records);
  return session;
}

export function* forkChain(
  p: {
    org_id: string;
    project_id: string;
    chain_id: string;
    at: number | null;
    chain: ChainRow;
    into: SessionRow | null;
    records: ChangeRecordRows;
    once: CompletedKey | null;
  },
  dialect: SqlDialect,
): Op<Row> {
  if (p.once !== null) yield* completeKeyWith(p.once, { id: p.chain.id }, dialect);
  const source = yield* requireChain(p.org_id, p.project_id, p.chain_id);
  const last_visible = yield* readLastVisibleEntry(source, p.at ?? (source.last_entry as number));
  if (last_visible === null) {
    const range = p.at === null ? "no entries" : `no entry at or before ${p.at}`;
    refuse("request.invalid", `Chain ${p.chain_id} has ${range}.`, { at: p.at });
  }
  const { id: at, hash: inherited } = last_visible;
  const key = p.into?.key ?? keyOf(source);
  if (p.into !== null) {
    yield* requireUnusedKey(key);
    yield* insertSession(p.into, source.session_id as string, p.chain, at);
    yield* copyPins(key, keyOf(source), at);
  }
  const new_chain = { ...p.chain, origin: "fork", parent_id: p.chain_id, fork_entry: at, inherited };
  const chain = yield* insertChain(key, new_chain, [], at + 1);
  yield* writeRecords(p.records);
  return chain;
}

export function* resetSession(
  p: {
    key: SessionKeyColumns;
    expected_head: string;
    chain: ChainRow;
    first: EntryRow[];
    records: ChangeRecordRows;
  },
  dialect: SqlDialect,
): Op<Row | null> {
  const session = yield* lockSession(p.key, dialect);
  yield* requireIdle(p.key);
  if (session.head_chain !== p.expected_head) return null;
  yield sql(
    `update chains set archived_at = $5 where ${SESSION_KEY} and session_id = $4 and archived_at is null`,
    [...keyValues(p.key), p.chain.created_at],
  );
  // The new conversation does not contain the entries that were pinned.
  yield sql(`delete from pins where ${SESSION_KEY} and session_id = $4`, keyValues(p.key));
  const new_chain = { ...p.chain, origin: "reset", parent_id: null, fork_entry: 0, inherited: "" };
  const chain = yield* insertHeadChain(p.key, session, new_chain, p.first);
  yield* writeRecords(p.records);
  return chain;
}

export function* compactSession(
  p: {
    key: SessionKeyColumns;
    expected: { chain_id: string; last_entry_id: number };
    chain: ChainRow;
    first: EntryRow[];
    records: ChangeRecordRows;
    /** The hold of the turn that compacts its own session; null if a person requested the compaction. */
    hold: HoldColumns | null;
    /** The harness execution whose limit the compaction counts towards. */
    execution_id: string | null;
  },
  dialect: SqlDialect,
): Op<Row | null> {
  if (p.hold !== null) yield* requireHeldRun(p.hold, dialect);
  const session = yield* lockSession(p.key, dialect);
  if (p.hold === null) yield* requireIdle(p.key);
  if (session.head_chain !== p.expected.chain_id) return null;
  // Read with the lock held, so that nobody else can append to the chain.
  const source = yield* requireChain(p.key.org_id, p.key.project_id, p.expected.chain_id);
  const last = source.last_entry as number;
  if (last !== p.expected.last_entry_id) return null;
  if (p.execution_id !== null) yield* countCompaction(p.execution_id);
  const inherited = (yield* readLastVisibleEntry(source, last))?.hash ?? "";
  const parent_id = p.expected.chain_id;
  const new_chain = { ...p.chain, origin: "compaction", parent_id, fork_entry: last, inherited };
  const chain = yield* insertHeadChain(p.key, session, new_chain, p.first);
  yield* writeRecords(p.records);
  return chain;
}

export function* moveHead(
  p: { key: SessionKeyColumns; from: string; to: string; records: ChangeRecordRows },
  dialect: SqlDialect,
): Op<boolean> {
  const session = yield* lockSession(p.key, dialect);
  yield* requireIdle(p.key);
  if (session.head_chain !== p.from) return false;
  const [chain] = yield sql(
    `select id from chains where ${SESSION_KEY} and session_id = $4 and id = $5 and archived_at is null`,
    [...keyValues(p.key), p.to],
  );
  if (chain === undefined) return false;
  yield sql(`update sessions set head_chain = $5 where ${SESSION_KEY} and id = $4`, [
    ...keyValues(p.key),
    p.to,
  ]);
  yield* writeRecords(p.records);
  return true;
}

/** `changes` is a JSON object; a null in it removes the key. */
export function* patchSession(p: { key: SessionKeyColumns; changes: string }, dialect: SqlDialect): Op<Row> {
  const { metadata } = yield* lockSession(p.key, dialect);
  const merged = {
    ...(JSON.parse(metadata as string) as object),
    ...(JSON.parse(p.changes) as object),
  };
  const remaining = Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== null));
  const [row] = yield sql(
    `update sessions set metadata = $5 where ${SESSION_KEY} and id = $4 returning ${SESSION_COLUMNS}`,
    [...keyValues(p.key), JSON.stringify(remaining)],
  );
  return row!;
}

/** Entry ids of a fork are those of its parent up to the fork, so the rows are copied with the same ids. */
function* copyPins(child: SessionKeyColumns, parent: SessionKeyColumns, at: number): Op<void> {
  const rows = yield sql(
    `select entry_id, pinned_by, pinned_at from pins where ${SESSION_KEY} and session_id = $4 and entry_id <= $5`,
    [...keyValues(parent), at],
  );
  for (const { entry_id, pinned_by, pinned_at } of rows)
    yield sql(INSERT_PIN, [...keyValues(child), entry_id!, pinned_by!, pinned_at!]);
}

/** `project_id` '' is the whole org. */
export function* readChainRow(org_id: string, project_id: string, id: string): Op<Row | undefined> {
  return (yield sql(
    `select ${CHAIN_COLUMNS} from chains
      where id = $3 and ${checkedCondition("chains", "org_id = $1 and ($2 = '' or project_id = $2)")}`,
    [org_id, project_id, id],
  ))[0];
}

export function* requireChain(org_id: string, project_id: string, id: string): Op<Row> {
  const chain = yield* readChainRow(org_id, project_id, id);
  return chain ?? refuse("chain.not_found", `There is no chain ${id}.`);
}

export function* lockSession(key: SessionKeyColumns, dialect: SqlDialect): Op<Row> {
  const [session] = yield sql(
    `select head_chain, last_entry, metadata from sessions where ${SESSION_KEY} and id = $4 ${rowLock(dialect, "for update")}`,
    keyValues(key),
  );
  return session ?? refuse("session.not_found", `There is no session ${key.session_id}.`);
}

function* requireUnusedKey(key: SessionKeyColumns): Op<void> {
  const existing = yield sql(`select id from sessions where ${SESSION_KEY} and id = $4`, keyValues(key));
  if (existing.length > 0) refuse("session.conflict", `There is already a session ${key.session_id}.`);
}

function* insertSession(
  session: SessionRow,
  parent_id: string | null,
  chain: ChainRow,
  last_entry: number,
): Op<Row> {
  const [row] = yield sql(
    `insert into sessions (${SESSION_COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10)
      returning ${SESSION_COLUMNS}`,
    [
      ...keyValues(session.key),
      session.name,
      parent_id,
      chain.id,
      last_entry,
      session.metadata,
      chain.created_at,
    ],
  );
  return row!;
}

interface NewChainRow extends ChainRow {
  origin: string;
  parent_id: string | null;
  fork_entry: number;
  inherited: string;
}

/** The new chain gets the next ids of the session and becomes the head of the session. */
function* insertHeadChain(
  key: SessionKeyColumns,
  session: Row,
  new_chain: NewChainRow,
  first: EntryRow[],
): Op<Row> {
  const first_id = (session.last_entry as number) + 1;
  const chain = yield* insertChain(key, new_chain, first, first_id);
  yield sql(`update sessions set head_chain = $5, last_entry = $6 where ${SESSION_KEY} and id = $4`, [
    ...keyValues(key),
    new_chain.id,
    first_id + first.length - 1,
  ]);
  return chain;
}

function* insertChain(
  key: SessionKeyColumns,
  new_chain: NewChainRow,
  first: EntryRow[],
  first_id: number,
): Op<Row> {
  const origin = originHash(new_chain.inherited, new_chain.id, new_chain.parent_id, new_chain.fork_entry);
  const hash = yield* writeSpans(new_chain.id, first_id, origin, first);
  const [row] = yield sql(
    `insert into chains (${CHAIN_COLUMNS}) values ($5, $1, $2, $3, $4, $6, $7, $8, $9, $10, null, $11)
      returning ${CHAIN_COLUMNS}`,
    [
      ...keyValues(key),
      new_chain.id,
      new_chain.origin,
      new_chain.parent_id,
      new_chain.fork_entry,
      first.length === 0 ? new_chain.fork_entry : first_id + first.length - 1,
      hash,
      new_chain.created_at,
    ],
  );
  return row!;
}

/** The last visible entry of the chain up to `at`; null when there is none. */
function* readLastVisibleEntry(chain: Row, at: number): Op<{ id: number; hash: string } | null> {
  let upper = at;
  let row = chain;
  for (;;) {
    const entry = yield* readLastEntry(row.id as string, upper);
    if (entry !== null) return entry;
    if (row.parent_id === null) return null;
    upper = Math.min(upper, row.fork_entry as number);
    row = yield* requireChain(row.org_id as string, row.project_id as string, row.parent_id as string);
  }
}

function keyOf(row: Row): SessionKeyColumns {
  return {
    org_id: row.org_id as string,
    project_id: row.project_id as string,
    workspace: row.workspace as string,
    session_id: row.session_id as string,
  };
}

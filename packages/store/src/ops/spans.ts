/**
 * The storage format of entries: one row, a span, holds the entries of one append, up to a limit. A turn writes twenty
 * entries in four appends; a row and an index entry for each would double the time and the pages (benchmark loop.turn).
 * An anchor always begins a span, so that entries before it are never read with it.
 */
import type { Json, JsonObject } from "@backplane/contract";
import { type EntryRow, entryHash } from "./entry-hash.ts";
import { type Op, type Row, sql } from "./op.ts";

export interface StoredEntry {
  id: number;
  kind: string;
  date: string;
  payload: JsonObject;
  meta: JsonObject;
  hash: string;
}

/** Reading one entry reads its whole span, so spans are small. */
const SPAN_ENTRIES = 64;
const SPAN_CHARS = 256 * 1024;

const ANCHOR = "anchor";
const INSERT_SPAN =
  "insert into spans (chain_id, first_id, last_id, anchor, body) values ($1, $2, $3, $4, $5)";

/** Returns the hash of the last entry. */
export function* writeSpans(
  chain_id: string,
  first_id: number,
  previous: string,
  entries: readonly EntryRow[],
): Op<string> {
  let hash = previous;
  let from = first_id;
  let parts: string[] = [];
  let chars = 0;
  let anchor: number | null = null;
  for (const [index, entry] of entries.entries()) {
    const id = first_id + index;
    const full = parts.length >= SPAN_ENTRIES || chars >= SPAN_CHARS;
    if (parts.length > 0 && (full || entry[0] === ANCHOR)) {
      yield sql(INSERT_SPAN, [chain_id, from, id - 1, anchor, `[${parts.join(",")}]`]);
      from = id;
      parts = [];
      chars = 0;
      anchor = null;
    }
    if (entry[0] === ANCHOR) anchor = id;
    hash = entryHash(hash, chain_id, id, entry);
    const part = serializeEntry(entry, hash);
    parts.push(part);
    chars += part.length;
  }
  if (parts.length > 0) {
    yield sql(INSERT_SPAN, [chain_id, from, first_id + entries.length - 1, anchor, `[${parts.join(",")}]`]);
  }
  return hash;
}

function serializeEntry([kind, date, payload, meta]: EntryRow, hash: string): string {
  return `[${JSON.stringify(kind)},${JSON.stringify(date)},${payload},${meta},"${hash}"]`;
}

/**
 * A condition on a column without an index would hide a row whose value was damaged, so spans are found by `last_id`
 * alone: up to the first one that ends at `upper` or later, wherever it begins.
 */
const lastSpanUpTo = (chain_id: string, upper: string) =>
  `coalesce((select last_id from spans where chain_id = ${chain_id} and last_id >= ${upper} order by last_id limit 1), ${upper})`;

const SPANS = "select first_id, last_id, body from spans";
const READ_SPANS = `${SPANS}
  where chain_id = $1 and last_id > $2 and last_id <= ${lastSpanUpTo("$1", "$3")} order by last_id`;

export function* readSpanRows(chain_id: string, lower: number, upper: number): Op<Row[]> {
  const rows = yield sql(READ_SPANS, [chain_id, lower, upper]);
  return rows.filter((row) => (row.first_id as number) <= upper);
}

/** Entries of one chain with lower < id ≤ upper. Ids that belong to another chain of the session are missing. */
export function* readSpans(chain_id: string, lower: number, upper: number, limit: number): Op<StoredEntry[]> {
  const entries: StoredEntry[] = [];
  for (let at = lower; at < upper && entries.length < limit; ) {
    const end = Math.min(upper, at + limit - entries.length);
    const rows = yield sql(READ_SPANS, [chain_id, at, end]);
    const last = rows.at(-1);
    if (last === undefined) break;
    for (const row of rows) decodeSpan(row, at, end, entries);
    at = Math.max(end, (last.first_id as number) - 1);
  }
  return entries;
}

const READ_WINDOW = `select e.first_id, e.last_id, e.body from chains c
  join spans e on e.chain_id = c.id and e.last_id > $5 and e.last_id <= ${lastSpanUpTo("c.id", "$6")}
  where c.org_id = $1 and c.project_id = $2 and c.workspace = $3 and c.session_id = $4
  order by e.first_id`;

/** Like `readSpans`, over all chains of a session. `key` is in the order of `keyValues`. */
export function* readWindow(key: readonly string[], lower: number, upper: number): Op<StoredEntry[]> {
  const entries: StoredEntry[] = [];
  for (const row of yield sql(READ_WINDOW, [...key, lower, upper])) decodeSpan(row, lower, upper, entries);
  return entries;
}

const READ_ANCHOR =
  "select anchor from spans where chain_id = $1 and anchor <= $2 order by anchor desc limit 1";

export function* readLastAnchor(chain_id: string, upper: number): Op<number | null> {
  const [row] = yield sql(READ_ANCHOR, [chain_id, upper]);
  return (row?.anchor as number | undefined) ?? null;
}

const READ_LAST = `${SPANS}
  where chain_id = $1 and last_id <= ${lastSpanUpTo("$1", "$2")} order by last_id desc limit 2`;

/** The last entry of the chain itself up to `upper`. */
export function* readLastEntry(chain_id: string, upper: number): Op<StoredEntry | null> {
  const rows = yield sql(READ_LAST, [chain_id, upper]);
  const row = rows.find((each) => (each.first_id as number) <= upper);
  if (row === undefined) return null;
  const entries: StoredEntry[] = [];
  decodeSpan(row, 0, upper, entries);
  return entries.at(-1) ?? null;
}

/**
 * Verifies a span: each hash must follow from the entry and the hash before it, and the text must be what `writeSpans`
 * writes. Returns the hash and id to continue from, or the first broken entry.
 */
export function checkSpan(
  chain_id: string,
  row: Row,
  previous: string,
  upper: number,
): { hash: string; last_id: number } | { broken: number } {
  const first = row.first_id as number;
  let hash = previous;
  let id = first;
  let text = "[";
  for (const [kind, date, payload, meta, stored_hash] of parseSpan(row)) {
    if (id > upper) break;
    // The stored text came from JSON.stringify, so this reproduces the same text.
    const entry: EntryRow = [kind, date, JSON.stringify(payload), JSON.stringify(meta)];
    hash = entryHash(hash, chain_id, id, entry);
    if (stored_hash !== hash) return { broken: id };
    text += `${id === first ? "" : ","}${serializeEntry(entry, hash)}`;
    id++;
  }
  const complete = id > (row.last_id as number);
  const is_intact = complete ? row.body === `${text}]` : (row.body as string).startsWith(`${text},`);
  return is_intact ? { hash, last_id: id - 1 } : { broken: first };
}

type SpanPart = [kind: string, date: string, payload: Json, meta: Json, hash: string];

/** Text that is not valid JSON has no entries. */
function parseSpan(row: Row): SpanPart[] {
  try {
    return JSON.parse(row.body as string) as SpanPart[];
  } catch {
    return [];
  }
}

function decodeSpan(row: Row, lower: number, upper: number, entries: StoredEntry[]): void {
  let id = row.first_id as number;
  if (id > upper) return;
  for (const [kind, date, payload, meta, hash] of JSON.parse(row.body as string) as SpanPart[]) {
    if (id > lower && id <= upper) {
      entries.push({ id, kind, date, payload: payload as JsonObject, meta: meta as JsonObject, hash });
    }
    id++;
  }
}

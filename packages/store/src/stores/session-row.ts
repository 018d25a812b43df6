/** How sessions, chains and entries are stored in columns. */
import type { Chain, Entry, Json, JsonObject, Session } from "@backplane/contract";
import type { NewChain, NewEntry, NewSession, RunHold, SessionKey, TapeWrite } from "@backplane/ports";
import type { TapeRows } from "../ops/entries.ts";
import type { EntryRow } from "../ops/entry-hash.ts";
import type { HoldColumns } from "../ops/holds.ts";
import type { Row } from "../ops/op.ts";
import type { SessionKeyColumns } from "../ops/session-key.ts";
import type { ChainRow, SessionRow } from "../ops/sessions.ts";
import type { StoredEntry } from "../ops/spans.ts";
import { projectOf, scopeColumns } from "./scope.ts";

export function keyColumns(key: SessionKey): SessionKeyColumns {
  return { ...scopeColumns(key.scope), workspace: key.workspace, session_id: key.session_id };
}

export function encodeSession(session: NewSession): SessionRow {
  return {
    key: keyColumns(session.key),
    name: session.name,
    metadata: JSON.stringify(session.metadata),
  };
}

export function encodeChain(chain: NewChain): ChainRow {
  return { id: chain.id, created_at: chain.created_at };
}

export function encodeEntry(entry: NewEntry): EntryRow {
  return [
    entry.kind,
    entry.date,
    JSON.stringify(withoutFrozenArrays(entry.payload)),
    JSON.stringify(entry.meta),
  ];
}

/** Copies every array, because JSON.stringify serializes frozen ones at half the speed (benchmark loop.turn). */
function withoutFrozenArrays(value: JsonObject): JsonObject {
  let copy = value;
  for (const key in value) {
    const item = value[key];
    if (typeof item !== "object" || item === null) continue;
    const copied = Array.isArray(item) ? item.map(copyItem) : withoutFrozenArrays(item);
    if (copied === item) continue;
    if (copy === value) copy = { ...value };
    copy[key] = copied;
  }
  return copy;
}

function copyItem(item: Json): Json {
  if (typeof item !== "object" || item === null) return item;
  return Array.isArray(item) ? item.map(copyItem) : withoutFrozenArrays(item);
}

export function encodeTape(tape: TapeWrite): TapeRows {
  return {
    key: keyColumns(tape.key),
    entries: tape.entries.map(encodeEntry),
    hold: tape.hold === undefined ? null : encodeHold(tape.hold),
  };
}

export function encodeHold({ run_id, fence }: RunHold): HoldColumns {
  return { run_id, fence };
}

export function decodeEntry({ id, kind, date, payload, meta }: StoredEntry): Entry {
  return { id, kind: kind as Entry["kind"], payload, meta, date };
}

export function decodeSession(row: Row): Session {
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    workspace: row.workspace as string,
    name: row.name as string,
    parent_session_id: row.parent_id as string | null,
    head_chain_id: row.head_chain as string,
    last_entry_id: row.last_entry as number,
    metadata: JSON.parse(row.metadata as string) as JsonObject,
    created_at: row.created_at as string,
  };
}

export function decodeChain(row: Row): Chain {
  return {
    id: row.id as string,
    org_id: row.org_id as string,
    project_id: projectOf(row.project_id),
    workspace: row.workspace as string,
    session_id: row.session_id as string,
    origin: row.origin as Chain["origin"],
    parent_chain_id: row.parent_id as string | null,
    fork_entry_id: row.fork_entry as number,
    last_entry_id: row.last_entry as number,
    hash: row.hash as string,
    archived_at: row.archived_at as string | null,
    created_at: row.created_at as string,
  };
}

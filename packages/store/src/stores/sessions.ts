import type { ChangeRecords, PinnedEntry, Scope, SessionStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { originHash } from "../ops/entry-hash.ts";
import { listPins } from "../ops/pins.ts";
import {
  listChains,
  listSessions,
  readEntries,
  readLineageSegments,
  readSession,
  readSessionEntries,
  readSinceAnchor,
} from "../ops/session-reads.ts";
import { readChainRow } from "../ops/sessions.ts";
import { checkSpan, readSpanRows } from "../ops/spans.ts";
import { encodeRecords } from "./change-records.ts";
import { encodeClaim } from "./idempotency.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, scopeColumns } from "./scope.ts";
import {
  decodeChain,
  decodeEntry,
  decodeSession,
  encodeChain,
  encodeEntry,
  encodeHold,
  encodeSession,
  encodeTape,
  keyColumns,
} from "./session-row.ts";

export function createSessionStore(backend: Backend): SessionStore {
  const notify = <T>(value: T, records: ChangeRecords): T => {
    if (records.events !== undefined) backend.notifyAppended();
    return value;
  };
  return {
    async create(session, chain, first, records, once) {
      const row = await backend.write("createSession", {
        session: encodeSession(session),
        chain: encodeChain(chain),
        first: first.map(encodeEntry),
        records: encodeRecords(records),
        once: encodeClaim(backend, once),
      });
      return notify(decodeSession(row), records);
    },
    async get(key) {
      const row = await backend.read(() => readSession(keyColumns(key)));
      return row === undefined ? null : decodeSession(row);
    },
    async list(scope, filter, page) {
      const rows = await backend.read(() =>
        listSessions({
          ...scopeColumns(scope),
          workspace: filter.workspace ?? null,
          before: pageCursor(page),
          limit: page.limit + 1,
        }),
      );
      return toPage(rows, page, (row) => row.root_chain as string, decodeSession);
    },
    async patch(key, metadata) {
      const changes = JSON.stringify(metadata);
      return decodeSession(await backend.write("patchSession", { key: keyColumns(key), changes }));
    },
    async getChain(scope, id) {
      const row = await backend.read(() => readChainRow(scope.org_id, projectColumn(scope.project_id), id));
      return row === undefined ? null : decodeChain(row);
    },
    async listChains(key, page) {
      const rows = await backend.read(() => listChains(keyColumns(key), pageCursor(page), page.limit + 1));
      return toPage(rows, page, (row) => row.id as string, decodeChain);
    },
    append(key, entries, chain_id, once) {
      const rows = { key: keyColumns(key), chain_id: chain_id ?? null, entries: entries.map(encodeEntry) };
      const key_claim = encodeClaim(backend, once);
      if (key_claim === null) return backend.write("appendEntries", rows);
      return backend.write("appendOnce", { ...rows, hold: null, once: key_claim });
    },
    appendIdle: (key, entries) =>
      backend.write("appendIdle", { key: keyColumns(key), entries: entries.map(encodeEntry) }),
    appendTape(tape, once) {
      const { hold, ...rows } = encodeTape(tape);
      const key_claim = encodeClaim(backend, once);
      if (key_claim !== null)
        return backend.write("appendOnce", { ...rows, hold, chain_id: null, once: key_claim });
      if (hold !== null) return backend.write("appendForTurn", { ...rows, hold });
      return backend.write("appendEntries", { ...rows, chain_id: null });
    },
    async listEntries(scope, chain_id, after_id, limit) {
      const rows = await backend.read(() =>
        readEntries(scope.org_id, projectColumn(scope.project_id), chain_id, after_id, limit),
      );
      return rows.map(decodeEntry);
    },
    async replay(key, after_id, limit) {
      const rows = await backend.read(() => readSessionEntries(keyColumns(key), after_id, limit));
      return rows.map(decodeEntry);
    },
    async listSinceAnchor(scope, chain_id) {
      const rows = await backend.read(() =>
        readSinceAnchor(scope.org_id, projectColumn(scope.project_id), chain_id),
      );
      return rows.map(decodeEntry);
    },
    async fork(from, chain, into, records, once) {
      const row = await backend.write("forkChain", {
        ...scopeColumns(from.scope),
        chain_id: from.chain_id,
        at: from.at ?? null,
        chain: encodeChain(chain),
        into: into === null ? null : encodeSession(into),
        records: encodeRecords(records),
        once: encodeClaim(backend, once),
      });
      return notify(decodeChain(row), records);
    },
    async reset(key, expected_head, chain, first, records) {
      const row = await backend.write("resetSession", {
        key: keyColumns(key),
        expected_head,
        chain: encodeChain(chain),
        first: first.map(encodeEntry),
        records: encodeRecords(records),
      });
      return row === null ? null : notify(decodeChain(row), records);
    },
    async compact(key, expected, chain, first, records, { hold, execution_id } = {}) {
      const row = await backend.write("compactSession", {
        key: keyColumns(key),
        expected,
        chain: encodeChain(chain),
        first: first.map(encodeEntry),
        records: encodeRecords(records),
        hold: hold === undefined ? null : encodeHold(hold),
        execution_id: execution_id ?? null,
      });
      return row === null ? null : notify(decodeChain(row), records);
    },
    async moveHead(key, from, to, records) {
      const written = await backend.write("moveHead", {
        key: keyColumns(key),
        from,
        to,
        records: encodeRecords(records),
      });
      return written ? notify(true, records) : false;
    },
    async pin(key, entry_id, pinned_by, pinned_at) {
      const row = { key: keyColumns(key), entry_id, pinned_by, pinned_at, max: MAX_PINS };
      await backend.write("pinEntry", row);
    },
    unpin: (key, entry_id) => backend.write("unpinEntry", { key: keyColumns(key), entry_id }),
    async listPins(key) {
      const rows = await backend.read(() => listPins(keyColumns(key)));
      return rows.map((row) => row as unknown as PinnedEntry);
    },
    verify: (scope, chain_id) => verifyChain(backend, scope, chain_id),
  };
}

/** All pinned entries stay in the context of the model, and a compaction reads them together. */
const MAX_PINS = 100;
const VERIFY_WINDOW = 1_000;

/**
 * Follows the hashes from the oldest ancestor. A chain continues from the last entry that is visible from its
 * ancestors, and the row of the newest chain records its last hash, so a truncated end is detected like a changed byte.
 */
async function verifyChain(
  backend: Backend,
  { org_id, project_id }: Scope,
  chain_id: string,
): Promise<{ chain_id: string; entry_id: number } | null> {
  const lineage = await backend.readUnchecked(() =>
    readLineageSegments(org_id, projectColumn(project_id), chain_id, 0),
  );
  let visible_hash = "";
  let hash = "";
  let last = 0;
  for (const segment of lineage) {
    hash = originHash(visible_hash, segment.chain_id, segment.parent_id, segment.fork_entry);
    let at = segment.lower;
    for (let from = at; from < segment.upper; from += VERIFY_WINDOW) {
      const to = Math.min(from + VERIFY_WINDOW, segment.upper);
      for (const row of await backend.readUnchecked(() => readSpanRows(segment.chain_id, from, to))) {
        // A span that crosses the border of two windows is read with both.
        if ((row.last_id as number) <= at) continue;
        const checked = checkSpan(segment.chain_id, row, hash, segment.upper);
        if ("broken" in checked) return { chain_id: segment.chain_id, entry_id: checked.broken };
        hash = checked.hash;
        visible_hash = hash;
        at = checked.last_id;
      }
    }
    last = Math.max(last, at);
  }
  return lineage.at(-1)?.hash === hash ? null : { chain_id, entry_id: last };
}

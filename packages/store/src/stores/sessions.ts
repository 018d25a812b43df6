import type { Facts, SessionStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import {
  listChains,
  listSessions,
  readEntries,
  readSession,
  readSessionEntries,
  readSinceAnchor,
} from "../ops/session-reads.ts";
import { readChainRow } from "../ops/sessions.ts";
import { encodeFacts } from "./facts.ts";
import { encodeOnce } from "./once-key.ts";
import { beforeOf, pageOf, projectColumn } from "./scope.ts";
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
  scopeColumns,
} from "./session-row.ts";
import { verifyChain } from "./verify-chain.ts";

export function createSessionStore(backend: Backend): SessionStore {
  const told = <T>(value: T, facts: Facts): T => {
    if (facts.events !== undefined) backend.appended();
    return value;
  };
  return {
    async create(session, chain, first, facts, once) {
      const row = await backend.write("createSession", {
        session: encodeSession(session),
        chain: encodeChain(chain),
        first: first.map(encodeEntry),
        facts: encodeFacts(facts),
        once: encodeOnce(backend, once),
      });
      return told(decodeSession(row), facts);
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
          before: beforeOf(page),
          limit: page.limit + 1,
        }),
      );
      return pageOf(rows, page, (row) => row.root_chain as string, decodeSession);
    },
    async patch(key, metadata) {
      const changes = JSON.stringify(metadata);
      return decodeSession(await backend.write("patchSession", { key: keyColumns(key), changes }));
    },
    async chain(scope, id) {
      const row = await backend.read(() => readChainRow(scope.org_id, projectColumn(scope.project_id), id));
      return row === undefined ? null : decodeChain(row);
    },
    async chains(key, page) {
      const rows = await backend.read(() => listChains(keyColumns(key), beforeOf(page), page.limit + 1));
      return pageOf(rows, page, (row) => row.id as string, decodeChain);
    },
    append(key, entries, chain_id, once) {
      const rows = { key: keyColumns(key), chain_id: chain_id ?? null, entries: entries.map(encodeEntry) };
      const taken = encodeOnce(backend, once);
      if (taken === null) return backend.write("appendEntries", rows);
      return backend.write("appendOnce", { ...rows, hold: null, once: taken });
    },
    appendTape(tape, once) {
      const { hold, ...rows } = encodeTape(tape);
      const taken = encodeOnce(backend, once);
      if (taken !== null) return backend.write("appendOnce", { ...rows, hold, chain_id: null, once: taken });
      if (hold !== null) return backend.write("appendHeld", { ...rows, hold });
      return backend.write("appendEntries", { ...rows, chain_id: null });
    },
    async entries(scope, chain_id, after_id, limit) {
      const rows = await backend.read(() =>
        readEntries(scope.org_id, projectColumn(scope.project_id), chain_id, after_id, limit),
      );
      return rows.map(decodeEntry);
    },
    async replay(key, after_id, limit) {
      const rows = await backend.read(() => readSessionEntries(keyColumns(key), after_id, limit));
      return rows.map(decodeEntry);
    },
    async sinceAnchor(scope, chain_id) {
      const rows = await backend.read(() =>
        readSinceAnchor(scope.org_id, projectColumn(scope.project_id), chain_id),
      );
      return rows.map(decodeEntry);
    },
    async fork(from, chain, into, facts, once) {
      const row = await backend.write("forkChain", {
        ...scopeColumns(from.scope),
        chain_id: from.chain_id,
        at: from.at ?? null,
        chain: encodeChain(chain),
        into: into === null ? null : encodeSession(into),
        facts: encodeFacts(facts),
        once: encodeOnce(backend, once),
      });
      return told(decodeChain(row), facts);
    },
    async reset(key, expected_head, chain, first, facts) {
      const row = await backend.write("resetSession", {
        key: keyColumns(key),
        expected_head,
        chain: encodeChain(chain),
        first: first.map(encodeEntry),
        facts: encodeFacts(facts),
      });
      return row === null ? null : told(decodeChain(row), facts);
    },
    async compact(key, expected, chain, first, facts, hold) {
      const row = await backend.write("compactSession", {
        key: keyColumns(key),
        expected,
        chain: encodeChain(chain),
        first: first.map(encodeEntry),
        facts: encodeFacts(facts),
        hold: hold === undefined ? null : encodeHold(hold),
      });
      return row === null ? null : told(decodeChain(row), facts);
    },
    async moveHead(key, from, to, facts) {
      const hit = await backend.write("moveHead", {
        key: keyColumns(key),
        from,
        to,
        facts: encodeFacts(facts),
      });
      return hit ? told(true, facts) : false;
    },
    verify: (scope, chain_id) => verifyChain(backend, scope, chain_id),
  };
}

/** Migrates databases whose schema has tapes and calls, but neither runs nor spans. */
import type { Store } from "@backplane/ports";
import { expect } from "vitest";
import { type EntryRow, entryHash, originHash } from "../../src/ops/entry-hash.ts";
import { encodeEntry } from "../../src/stores/session-row.ts";
import { holdOf, sampleEnd, sampleRun, tape } from "../support/sample-runs.ts";
import { message, newChain, start } from "../support/sample-sessions.ts";
import { LOCAL, sampleAudit, sampleInvocation, sampleSettlement } from "../support/samples.ts";
import { type Statement, upgradeCases } from "./upgrade-cases.ts";

const key = { scope: LOCAL, workspace: "/w", session_id: "s" };
const row = sampleInvocation({ session_id: "s" });

const ROOT = newChain().id;
const CHILD = newChain().id;
const child = { ...key, session_id: "child" };
const ENTRIES: EntryRow[] = [start, message("a"), message("b"), unusualText()].map(encodeEntry);

/** Characters that the JSON functions of a database might escape differently. */
function unusualText() {
  return {
    ...message("b"),
    kind: "event" as const,
    payload: { name: "x.a", data: 'q"\\ \u0000 ü \ud800 \u2028' },
  };
}

/** Inserts two sessions with their tapes into the earlier schema. */
function oldTape(): Statement[] {
  const { org_id, project_id } = LOCAL;
  const session = (id: string, chain: string, parent: string | null): Statement => [
    "insert into sessions values ($1, $2, '/w', $3, 'n', $4, $5, $5, 4, '{}', '2026-01-01T00:00:00.000Z')",
    [org_id, project_id!, id, parent, chain],
  ];
  const chain = (id: string, session_id: string, fork: number, hash: string): Statement => [
    "insert into chains values ($1, $2, $3, '/w', $4, $5, $6, $7, 4, $8, null, '2026-01-01T00:00:00.000Z')",
    [
      id,
      org_id,
      project_id!,
      session_id,
      fork === 0 ? "start" : "fork",
      fork === 0 ? null : ROOT,
      fork,
      hash,
    ],
  ];
  let hash = originHash("", ROOT, null, 0);
  const entry_statements = ENTRIES.map((entry, index): Statement => {
    hash = entryHash(hash, ROOT, index + 1, entry);
    return ["insert into entries values ($1, $2, $3, $4, $5, $6, $7)", [ROOT, index + 1, ...entry, hash]];
  });
  return [
    session("s", ROOT, null),
    chain(ROOT, "s", 0, hash),
    session("child", CHILD, "s"),
    chain(CHILD, "child", 4, originHash(hash, CHILD, ROOT, 4)),
    ...entry_statements,
  ];
}

/** Earlier calls had neither a turn nor a role. */
const OLD_CALLS = {
  sqlite: "update invocations set body = json_remove(body, '$.turn', '$.role')",
  postgres: "update invocations set body = (body::jsonb - 'turn' - 'role')::text",
};

async function fill(store: Store) {
  await store.invocations.open(row, { records: { audit: sampleAudit() } });
}

async function check(store: Store) {
  // The stored text has no turn and no role.
  expect(await store.invocations.get(LOCAL, row.id)).toEqual({ ...row, turn: null, role: "user" });
  const settled = await store.invocations.settleWithTape(row.id, 1, sampleSettlement(), {}, tape(key, "c"));
  expect(settled).toEqual({ chain_id: ROOT, first_id: 5, last_id: 5 });
  const run = sampleRun(child);
  expect((await store.runs.list(LOCAL, {}, { limit: 9 })).items).toEqual([]);
  await store.runs.start(run, tape(child, "d"), 1, {});
  await store.runs.end(LOCAL, holdOf(run), 0, sampleEnd(), tape(child, "e"), {});
  expect(await store.runs.get(LOCAL, run.id)).toMatchObject({ status: "completed", output: { entry_id: 6 } });
  expect((await store.sessions.replay(child, 0, 9)).map((entry) => entry.payload.content)).toEqual([
    undefined,
    "a",
    "b",
    undefined,
    "d",
    "e",
  ]);
  expect((await store.sessions.listEntries(LOCAL, ROOT, 3, 1))[0]!.payload).toEqual(unusualText().payload);
  expect((await store.sessions.listSinceAnchor(LOCAL, CHILD)).map(({ id }) => id)).toEqual([
    1, 2, 3, 4, 5, 6,
  ]);
  for (const id of [ROOT, CHILD]) expect(await store.sessions.verify(LOCAL, id)).toBeNull();
  expect(await store.audit.verify()).toBeNull();
}

upgradeCases({ before: 4, fill, oldStatements: (engine) => [[OLD_CALLS[engine], []], ...oldTape()], check });

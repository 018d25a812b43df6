/** Migrates sessions with two running turns, which earlier versions could leave; the newest turn is kept. */
import type { Store } from "@backplane/ports";
import { expect } from "vitest";
import { holdOf, sampleEnd, sampleRun, tape } from "../support/sample-runs.ts";
import { newChain, newSession, start } from "../support/sample-sessions.ts";
import { LOCAL } from "../support/samples.ts";
import { type Statement, upgradeCases } from "./upgrade-cases.ts";

const key = { scope: LOCAL, workspace: "/w", session_id: "s" };
const other = { ...key, session_id: "t" };
const [older, newer, other_run] = [sampleRun(key), sampleRun(key), sampleRun(other)];

/** Inserts a run into the earlier schema. */
function oldRun({ id, session_id, input, usage, started_at }: ReturnType<typeof sampleRun>): Statement {
  const body = JSON.stringify({
    parent_run_id: null,
    trigger: "message",
    strategy: "react",
    input,
    requested_by: "admin",
    started_at,
    usage,
    iterations: 0,
  });
  return [
    `insert into runs (id, org_id, project_id, workspace, session_id, chain_id, status, node_id, body)
      values ($1, $2, $3, '/w', $4, 'ch', 'running', 'node_a', $5)`,
    [id, LOCAL.org_id, LOCAL.project_id!, session_id, body],
  ];
}

async function fill(store: Store) {
  for (const session of [key, other])
    await store.sessions.create(newSession(session), newChain(), [start], {});
}

async function check(store: Store) {
  const readStatus = async (id: string) => (await store.runs.get(LOCAL, id))?.status;
  expect(await readStatus(older.id)).toBe("failed");
  expect((await store.runs.get(LOCAL, older.id))?.error).toMatchObject({ code: "session.busy" });
  expect([await readStatus(newer.id), await readStatus(other_run.id)]).toEqual(["running", "running"]);
  await expect(store.runs.start(sampleRun(key), tape(key, "x"), 1, {})).rejects.toMatchObject({
    code: "session.busy",
    details: { run_id: newer.id },
  });
  expect(await store.runs.end(LOCAL, holdOf(newer), 0, sampleEnd(), tape(key, "end"), {})).not.toBeNull();
  await store.runs.start(sampleRun(key), tape(key, "next"), 1, {});
}

upgradeCases({ before: 14, fill, oldStatements: () => [older, newer, other_run].map(oldRun), check });

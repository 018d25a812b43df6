/** Migrates runs of a schema in which runs did not have the id of their first entry. */
import type { Store } from "@backplane/ports";
import { expect } from "vitest";
import { sampleRun } from "../support/sample-runs.ts";
import { message, newChain, newSession, start } from "../support/sample-sessions.ts";
import { LOCAL } from "../support/samples.ts";
import { type Statement, upgradeCases } from "./upgrade-cases.ts";

const key = { scope: LOCAL, workspace: "/w", session_id: "s" };
const forked = { ...key, session_id: "forked" };
const [first, crashed, last, child] = [sampleRun(key), sampleRun(key), sampleRun(key), sampleRun(forked)];

/** Inserts a run into the earlier schema. */
function oldRun(
  { id, session_id, input, usage, started_at }: ReturnType<typeof sampleRun>,
  status: string,
  output_entry: number | null,
): Statement {
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
    `insert into runs (id, org_id, project_id, workspace, session_id, chain_id, status, node_id, body, output_entry)
      values ($1, $2, $3, '/w', $4, 'ch', $5, 'node_a', $6, $7)`,
    [id, LOCAL.org_id, LOCAL.project_id!, session_id, status, body, output_entry],
  ];
}

const parent = newChain();
const fork = newChain();

async function fill(store: Store) {
  await store.sessions.create(newSession(key), parent, [start], {});
  await store.sessions.append(key, [message("a"), message("b"), message("c")]);
}

/** The current store also writes tables that the earlier schema does not have, so the fork is written here. */
const OLD_FORK: Statement[] = [
  [
    `insert into sessions (org_id, project_id, workspace, id, name, parent_id, head_chain, root_chain, last_entry,
      metadata, created_at) values ($1, $2, '/w', 'forked', 'n', 's', $3, $3, 3, '{}', $4)`,
    [LOCAL.org_id, LOCAL.project_id!, fork.id, fork.created_at],
  ],
  [
    `insert into chains (id, org_id, project_id, workspace, session_id, origin, parent_id, fork_entry, last_entry, hash,
      archived_at, created_at) values ($3, $1, $2, '/w', 'forked', 'fork', $5, 3, 3, '', null, $4)`,
    [LOCAL.org_id, LOCAL.project_id!, fork.id, fork.created_at, parent.id],
  ],
];

async function check(store: Store) {
  const readFirstEntry = async ({ id }: typeof first) => (await store.runs.get(LOCAL, id))?.first_entry_id;
  expect(await readFirstEntry(first)).toBe(1);
  expect([await readFirstEntry(crashed), await readFirstEntry(last)]).toEqual([4, 4]);
  expect(await readFirstEntry(child)).toBe(4);
}

const OLD_RUNS = [
  ...OLD_FORK,
  oldRun(first, "completed", 3),
  oldRun(crashed, "failed", null),
  oldRun(last, "running", null),
  oldRun(child, "running", null),
];

// Rows of later versions have a checksum, which these statements do not write.
upgradeCases({ before: 14, fill, oldStatements: () => OLD_RUNS, check });

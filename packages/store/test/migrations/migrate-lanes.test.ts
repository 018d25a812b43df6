/** Migrates deliveries that were stored before lanes existed: each gets a lane, and finished ones get an end time. */
import type { Store } from "@backplane/ports";
import { expect } from "vitest";
import { type Statement, upgradeCases } from "./upgrade-cases.ts";

const job = (id: string, queue: string, group: string | null, state: string) =>
  `insert into jobs (id, queue, group_name, open_group, state, run_at, due_at, max_attempts, last_attempt, attempt, fence, payload)
    values ('${id}', '${queue}', ${group === null ? "null" : `'${group}'`}, ${state === "ready" ? `'${group}'` : "null"},
      '${state}', 1000, ${state === "ready" ? 1000 : "null"}, 3, 3, 1, 1, '{"org_id":"org_a"}')`;
const OLD = [
  job("j1", "deliveries", "bind_a/invocation/inv_1", "ready"),
  job("j2", "deliveries", "bind_b/invocation/inv_1", "ready"),
  job("j3", "deliveries", "bind_b/invocation/inv_2", "done"),
  job("j4", "deliveries", "bind_b/invocation/inv_3", "dead"),
  job("j5", "cancel/node_a", null, "done"),
];

async function check(store: Store): Promise<void> {
  expect(await store.jobs.listLanes("deliveries", 1_000)).toEqual([
    { lane: "bind_a", due_in: 0, org_id: "org_a" },
    { lane: "bind_b", due_in: 0, org_id: "org_a" },
  ]);
  expect((await store.jobs.claim("deliveries", "n", 1_000, 100, 9, "bind_b")).map(({ id }) => id)).toEqual([
    "j2",
  ]);
  expect(await store.retention.removeJobs("done", 2_000, 1_001, 9)).toBe(0);
  expect(await store.retention.removeJobs("done", 2_000, 1_000, 9)).toBe(2);
  expect(await store.retention.removeJobs("dead", 2_000, 1_000, 9)).toBe(1);
}

upgradeCases({
  before: 5,
  fill: async () => {},
  oldStatements: () => OLD.map((text): Statement => [text, []]),
  check,
  caller_clock: true,
});

/**
 * Nodes that share a database use its clock, because their own clocks may differ by an hour. Covers leases, jobs,
 * orphans, quotas and keys.
 */

import type { Store } from "@backplane/ports";
import { openPostgresStore } from "@backplane/store";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres, type TestPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { sampleRun, tape } from "../support/sample-runs.ts";
import { freshKey, newChain, newSession, start } from "../support/sample-sessions.ts";
import { ids, sampleBinding, sampleInvocation, sampleJob, samplePackage } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

const HOUR = 3_600_000;
const TTL = 60_000;

interface Node {
  id: string;
  store: Store;
  now(): number;
}

let server: TestPostgres;
let direct: pg.Client;
let slow: Node;
let fast: Node;

beforeAll(async () => {
  server = await startPostgres();
  const [first, second] = await Promise.all([
    openPostgresStore({ url: server.url }),
    openPostgresStore({ url: server.url }),
  ]);
  slow = { id: ids.next("node"), store: first, now: () => Date.now() - HOUR / 2 };
  fast = { id: ids.next("node"), store: second, now: () => Date.now() + HOUR / 2 };
  direct = new pg.Client({ connectionString: server.url });
  await direct.connect();
});

afterAll(async () => {
  await direct?.end();
  await slow?.store.close();
  await fast?.store.close();
  await server?.stop();
});

const acquireLease = (node: Node, name: string) => node.store.leases.acquire(name, node.id, node.now(), TTL);

test("uses one clock for a lease on all nodes", async () => {
  for (const [holder, other] of [
    [slow, fast],
    [fast, slow],
  ] as const) {
    const name = ids.next("request");
    expect(await acquireLease(holder, name)).toBe(1);
    expect(await acquireLease(other, name)).toBeNull();
    expect(await holder.store.leases.renew([name], holder.id, holder.now(), TTL)).toBe(1);
    await direct.query("update leases set expires_at = expires_at - $2 where name = $1", [name, TTL + 1_000]);
    expect(await holder.store.leases.renew([name], holder.id, holder.now(), TTL)).toBe(0);
    expect(await acquireLease(other, name)).toBe(2);
  }
});

verifies("bind.concurrency", "never exceeds the number of slots with clocks an hour apart", async () => {
  const name = ids.next("request");
  const acquireSlot = (node: Node) => node.store.leases.acquireSlot(name, 2, node.id, node.now(), TTL);
  expect(await acquireSlot(slow)).not.toBeNull();
  expect(await acquireSlot(fast)).not.toBeNull();
  expect([await acquireSlot(slow), await acquireSlot(fast)]).toEqual([null, null]);
});

test("makes a job due for both nodes, leases it to one, and makes it due again after its retry delay", async () => {
  for (const [maker, other] of [
    [slow, fast],
    [fast, slow],
  ] as const) {
    const queue = ids.next("request");
    const claim = (node: Node) => node.store.jobs.claim(queue, node.id, node.now(), TTL, 9);
    await maker.store.jobs.enqueue([sampleJob({ queue })], maker.now());
    const [job] = await claim(other);
    expect(job).toMatchObject({ attempt: 1 });
    expect(await claim(maker)).toEqual([]);
    expect(await other.store.jobs.extend(job!.id, job!.fence, other.now(), TTL)).toBe(true);
    expect(await claim(maker)).toEqual([]);
    await other.store.jobs.fail(job!.id, job!.fence, "refused", other.now(), TTL);
    expect(await claim(maker)).toEqual([]);
    const [lane] = await maker.store.jobs.listLanes(queue, maker.now());
    expect(lane!.due_in).toBeGreaterThan(TTL / 2);
    expect(lane!.due_in).toBeLessThanOrEqual(TTL);
    await direct.query("update jobs set due_at = due_at - $2 where queue = $1", [queue, TTL]);
    expect(await claim(maker)).toMatchObject([{ attempt: 2 }]);
  }
});

test("does not take over calls and turns of a live node", async () => {
  const scope = freshOrg();
  const key = freshKey();
  for (const [holder, other] of [
    [slow, fast],
    [fast, slow],
  ] as const) {
    await acquireLease(holder, `node/${holder.id}`);
    const row = sampleInvocation({ ...scope, node_id: holder.id });
    await holder.store.invocations.open(row, { records: {} });
    const claimOrphans = async () =>
      (await other.store.invocations.claimOrphans(other.id, other.now(), 100)).map(({ id }) => id);
    expect(await claimOrphans()).not.toContain(row.id);
    await holder.store.leases.release(`node/${holder.id}`, holder.id);
    expect(await claimOrphans()).toContain(row.id);
  }
  await acquireLease(slow, `node/${slow.id}`);
  await slow.store.sessions.create(newSession(key), newChain(), [start], {});
  const run = sampleRun(key, { node_id: slow.id });
  await slow.store.runs.start(run, tape(key, "hello"), 1, {});
  expect(await fast.store.runs.claimOrphans(fast.id, fast.now(), 100)).toEqual([]);
});

test("uses one clock for a quota on all nodes", async () => {
  const scope = freshOrg();
  await slow.store.packages.insert(samplePackage({ org_id: scope.org_id }), {});
  const binding = sampleBinding({ scope });
  await slow.store.bindings.create(binding, {});
  const countUse = (node: Node) =>
    node.store.sampling.countUse(scope.org_id, binding.binding_id, 2, HOUR / 4, node.now());
  expect([await countUse(slow), await countUse(fast), await countUse(slow), await countUse(fast)]).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("keeps an idempotency key claimed for all nodes", async () => {
  const scope = freshOrg();
  expect(await slow.store.idempotency.begin(scope, "k", "d", slow.now(), TTL)).toEqual({ state: "new" });
  expect(await fast.store.idempotency.begin(scope, "k", "d", fast.now(), TTL)).toEqual({
    state: "in_progress",
  });
  await slow.store.idempotency.finish(scope, "k", 200, "{}", slow.now());
  expect(await fast.store.idempotency.sweep(fast.now() + 30 * HOUR)).toBe(0);
  expect(await fast.store.idempotency.find(scope, "k", "d", fast.now(), TTL)).toMatchObject({
    state: "done",
  });
});

import { INVOCATION_LIMITS } from "@backplane/contract";
import type { WatchItem } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, type TestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

async function collectEvents(
  fixture: TestKernel,
  id: string,
  after = 0,
  stop = new AbortController().signal,
) {
  const seqs: number[] = [];
  let settled: string | null = null;
  for await (const item of fixture.kernel.invocations.watch(user, id, after, stop)) {
    if ("settled" in item) settled = item.settled.status;
    else seqs.push(item.seq);
  }
  return { seqs, settled };
}

const countUpTo = (count: number, from = 1) => Array.from({ length: count - from + 1 }, (_, i) => i + from);

test("sends watchers every event once and in order, then the settled record", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("talk", {}, { streaming: true })]));
  let emit = () => {};
  const waitForEmit = () => new Promise<void>((resolve) => (emit = resolve));
  fixture.runner.script = async ({ event }) => {
    for (let i = 1; i <= 200; i++) event({ type: "progress", i });
    await waitForEmit();
    for (let i = 201; i <= 500; i++) {
      event({ type: "progress", i });
      if (i % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return ok();
  };
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "talk" });
  const early = collectEvents(fixture, ticket.id);
  await until(() => fixture.runner.running === 1);
  const resumed = collectEvents(fixture, ticket.id, 150);
  await new Promise((resolve) => setTimeout(resolve, 20));
  emit();
  expect(await early).toEqual({ seqs: countUpTo(500), settled: "succeeded" });
  expect(await resumed).toEqual({ seqs: countUpTo(500, 151), settled: "succeeded" });
  // A watcher that starts after the end reads only from the store.
  expect(await collectEvents(fixture, ticket.id)).toEqual({ seqs: countUpTo(500), settled: "succeeded" });
  expect(await collectEvents(fixture, ticket.id, 498)).toEqual({ seqs: [499, 500], settled: "succeeded" });
});

test("delivers all events to a slow watcher whose queue overflows", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("flood")]));
  let flood = () => {};
  const watched = new Promise<void>((resolve) => (flood = resolve));
  fixture.runner.script = async ({ event }) => {
    event({ type: "progress", i: 1 });
    await watched;
    // More events in one turn of the event loop than the queue of a watcher holds.
    for (let i = 2; i <= 900; i++) event({ type: "progress", i });
    return ok();
  };
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "flood" });
  const seqs: number[] = [];
  for await (const item of fixture.kernel.invocations.watch(
    user,
    ticket.id,
    0,
    new AbortController().signal,
  )) {
    if ("seq" in item) seqs.push(item.seq);
    if (seqs.length === 1) flood();
    if (seqs.length % 300 === 1) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  expect(seqs).toEqual(countUpTo(900));
});

test("drops events beyond the bound and reports their number in a last event", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("flood")]));
  const max_events = INVOCATION_LIMITS.events_kept;
  fixture.runner.script = ({ event }) => {
    for (let i = 0; i < max_events + 500; i++) event({ type: "progress", i });
    return ok();
  };
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "flood" });
  await ticket.settled;
  const items: WatchItem[] = [];
  for await (const item of fixture.kernel.invocations.watch(
    user,
    ticket.id,
    0,
    new AbortController().signal,
  )) {
    items.push(item);
  }
  expect(items).toHaveLength(max_events + 2);
  expect(items[max_events]).toMatchObject({
    seq: max_events + 1,
    event: { type: "events_dropped", dropped: 500 },
  });
  expect(items[max_events + 1]).toHaveProperty("settled");
});

test("ends a watcher immediately when it is stopped, and rejects a watcher of an unknown call", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("slow")]));
  fixture.runner.script = () => new Promise<never>(() => {});
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "slow" });
  const stop = new AbortController();
  const watching = collectEvents(fixture, ticket.id, 0, stop.signal);
  await until(() => fixture.runner.running === 1);
  stop.abort();
  expect(await watching).toEqual({ seqs: [], settled: null });
  const unknown_call = collectEvents(fixture, "inv_00000000000000000000000000");
  await expect(unknown_call).rejects.toMatchObject({ code: "invocation.not_found" });
});

test("reports 0 events on the ticket of a call without events", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("read")]));
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "read" });
  await ticket.settled;
  expect(ticket.events).toBe(0);
});

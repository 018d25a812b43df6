import { BackplaneError, isTerminal } from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";

test("cancels calls immediately on stop, waits for the grace period, and writes a terminal record for each", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("quick"), toolExport("slow")]));
  await fixture.kernel.bindings.create(user, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "slow",
  });
  let finish = () => {};
  const finished = new Promise<void>((resolve) => (finish = resolve));
  fixture.runner.script = async ({ request, cancelled }) => {
    if (request.export_id === "quick") {
      await finished;
      return ok();
    }
    // The call receives the cancellation and ignores it.
    reasons.push(await cancelled);
    return await new Promise<never>(() => {});
  };
  fixture.runner.honors_cancel = false;
  const reasons: string[] = [];
  const tickets = [];
  for (let i = 0; i < 50; i++) {
    tickets.push(
      await fixture.kernel.invocations.invoke(user, { export_id: i % 2 === 0 ? "quick" : "slow" }),
    );
  }
  await until(() => fixture.runner.running === 50);
  const started_at = performance.now();
  const stopping = fixture.kernel.stop(100);
  await expect(fixture.kernel.invocations.invoke(user, { export_id: "quick" })).rejects.toMatchObject({
    code: "gateway_stopping",
  });
  expect((await fixture.kernel.health()).stopping).toBe(true);
  await until(() => reasons.length === 25);
  finish();
  await stopping;
  expect(performance.now() - started_at).toBeLessThan(5_000);
  expect(new Set(reasons)).toEqual(new Set(["shutdown"]));
  for (const [i, ticket] of tickets.entries()) {
    const row = await fixture.kernel.invocations.get(user, ticket.id);
    expect(isTerminal(row.status)).toBe(true);
    if (i % 2 === 0) expect(row.status).toBe("succeeded");
    else expect(row).toMatchObject({ status: "failed", error: { code: "gateway_stopping" } });
    expect(await ticket.settled).toEqual(row);
  }
  await until(() => fixture.clock.timers === 0);
  const list = await fixture.kernel.invocations.list(user, {}, { limit: 100 });
  expect(list.items).toHaveLength(50);
});

verifies("fault.disk", "stops completely while the store rejects leases and jobs", async () => {
  const fixture = await createTestKernel();
  const fail = async () => {
    throw new BackplaneError("store.unavailable");
  };
  const { leases, jobs } = fixture.store;
  // Waits until the gateway has the lease of the dispatcher.
  await until(async () => (await leases.acquire("outbox/hooks", "other", fixture.clock.now(), 1)) === null);
  for (const part of [leases, jobs])
    for (const name of Object.keys(part)) (part as unknown as Record<string, unknown>)[name] = fail;
  await fixture.kernel.stop(100);
  await until(() => fixture.clock.timers === 0);
  expect(fixture.logged.map(({ message }) => message)).toContain("the dispatcher did not stop cleanly");
});

test("reports the health of the store and the runner, and the running work", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("slow")]));
  fixture.runner.script = async ({ cancelled }) => ended("cancelled", await cancelled);
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "slow" });
  await until(() => fixture.runner.running === 1);
  expect(await fixture.kernel.health()).toMatchObject({
    store: { ok: true },
    runner: { running: 1 },
    invocations: { running: 1, waiting_approval: 0, queued: 0 },
    stopping: false,
  });
  fixture.store.ping = () => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.1"));
  expect((await fixture.kernel.health()).store).toEqual({ ok: false, error: "The store does not respond." });
  await fixture.kernel.invocations.cancel(user, ticket.id);
  expect((await ticket.settled).status).toBe("cancelled");
});

test("deletes expired data in the background soon after the start", async () => {
  const host = { recovery: { interval_ms: 20, node_ttl_ms: 30_000 } };
  const fixture = await createTestKernel({ host, start: false });
  let swept = 0;
  fixture.importer.sweep = async () => ++swept;
  await fixture.kernel.start();
  await until(() => swept === 1);
  await until(() => fixture.logged.some(({ message }) => message === "deleted expired data"));
  await fixture.kernel.stop(0);
  expect(swept).toBe(1);
});

verifies("fault.disk", "leaves no timer behind when a stop cannot record the end of a call", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("slow")]));
  fixture.runner.script = () => new Promise<never>(() => {});
  fixture.runner.honors_cancel = false;
  await fixture.kernel.invocations.invoke(user, { export_id: "slow" });
  await until(() => fixture.runner.running === 1);
  // The store rejects the record, and the log of that rejection fails too.
  const { invocations } = fixture.store;
  const settle = invocations.settle.bind(invocations);
  invocations.settle = () => Promise.reject(new BackplaneError("store.unavailable"));
  const lines = fixture.logged;
  const push = lines.push.bind(lines);
  lines.push = (...added) => {
    if (added[0]?.message.startsWith("could not write the end")) throw new Error("ENOSPC");
    return push(...added);
  };
  await fixture.kernel.stop(10);
  expect(lines.map(({ message }) => message)).toContain("the calls did not stop cleanly");
  expect(fixture.clock.timers).toBe(0);
  invocations.settle = settle;
});

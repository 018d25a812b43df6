import type { KernelDeps } from "@backplane/ports";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { ConcurrencyLimits } from "../../src/calls/concurrency.ts";

const content = (max_concurrency: number) => manifest([toolExport("narrow", { max_concurrency })]);

verifies(
  "bind.concurrency",
  "enforces max_concurrency, runs queued calls in order and rejects calls when the queue is full",
  async () => {
    const fixture = await createTestKernel({ host: { queue_per_binding: 5 } });
    await fixture.bind(content(2));
    const release: (() => void)[] = [];
    let peak = 0;
    fixture.runner.script = async () => {
      peak = Math.max(peak, fixture.runner.running);
      await new Promise<void>((resolve) => release.push(resolve));
      return ok();
    };
    const tickets = [];
    for (let i = 0; i < 7; i++) {
      tickets.push(await fixture.kernel.invocations.invoke(user, { export_id: "narrow", input: { i } }));
    }
    const full = await fixture.kernel.invocations.invoke(user, { export_id: "narrow" }).then(
      () => null,
      (error: { code: string; details: { invocation_id: string } }) => error,
    );
    expect(full?.code).toBe("invocation.queue_full");
    expect(await fixture.kernel.invocations.get(user, full!.details.invocation_id)).toMatchObject({
      status: "failed",
      error: { code: "invocation.queue_full" },
    });
    await until(() => release.length === 2);
    expect((await fixture.kernel.health()).invocations).toMatchObject({ running: 2, queued: 5 });
    for (let i = 0; i < 7; i++) {
      await until(() => release.length > i);
      release[i]!();
    }
    for (const ticket of tickets) expect((await ticket.settled).status).toBe("succeeded");
    expect(peak).toBe(2);
    const served = fixture.runner.requests.map((request) => (request.body.input as { i: number }).i);
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6]);
    // The first slot is free again.
    await until(async () => {
      const slot = await fixture.store.leases.acquireSlot(
        `slot/${fixture.runner.requests[0]!.binding_id}`,
        1,
        "probe",
        fixture.clock.now(),
        1,
      );
      return slot !== null;
    });
  },
);

test("records the start of a queued call when it gets its slot", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("one", { max_concurrency: 1 })]));
  const ends: (() => void)[] = [];
  fixture.runner.script = async () => {
    await new Promise<void>((resolve) => ends.push(resolve));
    return ok();
  };
  const { invocations } = fixture.kernel;
  const first = await invocations.invoke(user, { export_id: "one" });
  await until(() => ends.length === 1);
  const second = await invocations.invoke(user, { export_id: "one" });
  expect((await invocations.get(user, second.id)).started_at).toBeNull();
  ends[0]!();
  expect((await first.settled).started_at).not.toBeNull();
  await until(() => ends.length === 2);
  ends[1]!();
  expect((await second.settled).started_at).not.toBeNull();
});

describe("limits of a binding", () => {
  /** Limits whose store always has a free slot. */
  function createLimits(): ConcurrencyLimits {
    const clock = new TestClock();
    onTestFinished(() => clock.halt());
    let slots = 0;
    const leases = {
      acquireSlot: async (name: string) => ({ name: `${name}#${slots++}`, fence: 1 }),
      release: async () => true,
    };
    const host = { queue_per_binding: 0 };
    return new ConcurrencyLimits({
      clock,
      host,
      node_id: "node_1",
      store: { leases },
    } as unknown as KernelDeps);
  }

  test("never use more slots than the maximum on one node, whatever the store leases", async () => {
    const limits = createLimits();
    const [first, second] = [limits.reserve("bind_1", 1), limits.reserve("bind_1", 1)];
    const deadline = performance.now() + 60_000;
    expect(await first.acquire(deadline, () => {})).toBe(true);
    let acquired = false;
    const waiting_call = second
      .acquire(deadline, () => {})
      .then((got) => {
        acquired = got;
      });
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(acquired).toBe(false);
    first.release();
    await waiting_call;
    expect(acquired).toBe(true);
  });

  test("free a reservation only once, even if a call releases it twice", () => {
    const limits = createLimits();
    const first = limits.reserve("bind_1", 1);
    limits.reserve("bind_1", 1);
    first.release();
    first.release();
    expect(limits.isFull("bind_1", 1)).toBe(true);
  });
});

test("removes a cancelled call from the queue", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content(1));
  const release: (() => void)[] = [];
  fixture.runner.script = async () => {
    await new Promise<void>((resolve) => release.push(resolve));
    return ok();
  };
  const first = await fixture.kernel.invocations.invoke(user, { export_id: "narrow" });
  await until(() => release.length === 1);
  const second = await fixture.kernel.invocations.invoke(user, { export_id: "narrow" });
  const third = await fixture.kernel.invocations.invoke(user, { export_id: "narrow" });
  await fixture.kernel.invocations.cancel(user, second.id);
  expect((await second.settled).status).toBe("cancelled");
  release[0]!();
  await first.settled;
  await until(() => release.length === 2);
  release[1]!();
  expect((await third.settled).status).toBe("succeeded");
  expect(fixture.runner.requests).toHaveLength(2);
});

verifies(
  "bind.concurrency",
  "does not reuse the slot of a killed gateway before its lease expires",
  async () => {
    const first = await createTestKernel();
    await first.bind(content(1));
    first.runner.script = () => new Promise<never>(() => {});
    await first.kernel.invocations.invoke(user, { export_id: "narrow" });
    await until(() => first.runner.running === 1);
    await first.crash();
    const second = await createTestKernel({ file: first.file });
    const early = await second.call({ export_id: "narrow", timeout_ms: 300 });
    expect(early).toMatchObject({ status: "failed", error: { code: "timeout" } });
    second.clock.wall_offset = 31_000;
    const later = await second.call({ export_id: "narrow", timeout_ms: 10_000 });
    expect(later.status).toBe("succeeded");
  },
);

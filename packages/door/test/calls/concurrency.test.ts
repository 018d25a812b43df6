import { manifest, tool } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const content = (max_concurrency: number) => manifest([tool("narrow", { max_concurrency })]);

verifies(
  "bind.concurrency",
  "enforces max_concurrency, serves the queue in order and rejects calls when it is full",
  async () => {
    const fixture = await createTestKernel({ host: { queue_per_binding: 5 } });
    await fixture.bind(content(2));
    const release: (() => void)[] = [];
    let most = 0;
    fixture.runner.script = async () => {
      most = Math.max(most, fixture.runner.running);
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
    expect(most).toBe(2);
    const served = fixture.runner.requests.map((request) => (request.body.input as { i: number }).i);
    expect(served).toEqual([0, 1, 2, 3, 4, 5, 6]);
    // Every slot is free again.
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

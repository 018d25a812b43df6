import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { computeRemainingTime } from "../../src/invoke/recover.ts";

verifies(
  "inv.deadline",
  "takes the timeout from caller, binding or export, caps it, and counts it in monotonic time after any approval",
  async () => {
    const fixture = await createTestKernel({ host: { max_timeout_ms: 9_000 } });
    const content = manifest([
      toolExport("plain", { default_timeout_ms: 2_000 }),
      toolExport("bound", { default_timeout_ms: 2_000, max_timeout_ms: 4_000 }),
      toolExport("wide", { default_timeout_ms: 2_000, max_timeout_ms: 60_000 }),
      toolExport("request", { default_timeout_ms: 2_000 }, { requires_approval: true }),
    ]);
    await fixture.bind(content);
    await fixture.bind(content, { export_id: "bound", policy: { timeout_ms: 3_000 } });
    await fixture.bind(content, { export_id: "wide" });
    await fixture.bind(content, { export_id: "request" });
    const readTimeout = async (body: { export_id: string; timeout_ms?: number }) => {
      const invocation = await fixture.call(body);
      const request = fixture.runner.requests.at(-1)!;
      expect(request.timeout_ms).toBeLessThanOrEqual(invocation.timeout_ms);
      expect(request.timeout_ms).toBeGreaterThan(invocation.timeout_ms - 500);
      return invocation.timeout_ms;
    };
    expect(await readTimeout({ export_id: "plain" })).toBe(2_000);
    expect(await readTimeout({ export_id: "bound" })).toBe(3_000);
    expect(await readTimeout({ export_id: "bound", timeout_ms: 1_000 })).toBe(1_000);
    expect(await readTimeout({ export_id: "bound", timeout_ms: 60_000 })).toBe(4_000);
    expect(await readTimeout({ export_id: "plain", timeout_ms: 60_000 })).toBe(9_000);
    // The host's maximum caps an export that allows itself more.
    expect(await readTimeout({ export_id: "wide", timeout_ms: 60_000 })).toBe(9_000);
    // The wall clock jumps an hour in either direction between two attempts; the remaining time does not change.
    for (const jump of [3_600_000, -3_600_000]) {
      let tries = 0;
      fixture.runner.script = () => {
        if (++tries > 1) return ok();
        fixture.clock.wall_offset += jump;
        return {
          ...ok(null),
          status: "retryable_failure",
          error: { code: "plugin_retryable", message: "later" },
        };
      };
      const jumped = await fixture.call({ export_id: "plain", timeout_ms: 5_000 });
      expect(jumped).toMatchObject({ status: "succeeded", retry_count: 1 });
      expect(fixture.runner.requests.at(-1)!.timeout_ms).toBeGreaterThan(4_000);
      expect(fixture.runner.requests.at(-1)!.timeout_ms).toBeLessThan(5_000);
    }
    // Time awaiting approval does not count, because the deadline starts when the call is approved.
    fixture.runner.script = () => ok();
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "request", timeout_ms: 1_000 });
    const [approval] = (await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 1 })).items;
    await new Promise((resolve) => setTimeout(resolve, 300));
    await fixture.kernel.approvals.answer(admin, approval!.id, { response: "approve" });
    await ticket.settled;
    const request = fixture.runner.requests.at(-1)!;
    expect(request.invocation_id).toBe(ticket.id);
    expect(request.timeout_ms).toBeGreaterThan(800);
    const deadline = Date.parse(request.context.deadline_at);
    expect(deadline - Date.parse((await ticket.settled).created_at)).toBeGreaterThan(1_200);
  },
);

test("ends a queued call with timeout when its deadline passes", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("one", { max_concurrency: 1 })]));
  const release: (() => void)[] = [];
  fixture.runner.script = async () => {
    await new Promise<void>((resolve) => release.push(resolve));
    return ok();
  };
  const first = await fixture.kernel.invocations.invoke(user, { export_id: "one" });
  await until(() => release.length === 1);
  const second = await fixture.call({ export_id: "one", timeout_ms: 50 });
  expect(second).toMatchObject({ status: "failed", error: { code: "timeout" }, started_at: null });
  expect(fixture.runner.requests).toHaveLength(1);
  release[0]!();
  expect((await first.settled).status).toBe("succeeded");
});

test.each([
  [60_000, 0, 60_000],
  [60_000, 40_000, 20_000],
  // If the gateway was down for longer than the deadline, or the clock was set ahead, the minimum time is left.
  [60_000, 3_600_000, 5_000],
  [2_000, 1_500, 2_000],
  // If the clock was set back, the full timeout is left and no more.
  [60_000, -3_600_000, 60_000],
])(
  "a call with a timeout of %i ms that is recovered %i ms after its start has %i ms left",
  (timeout_ms, later, left) => {
    const created_at = "2026-11-01T10:00:00.000Z";
    const started_at = "2026-11-01T11:00:00.000Z";
    const row = { timeout_ms, created_at, started_at };
    expect(computeRemainingTime(row, Date.parse(started_at) + later)).toBe(left);
    // A call that had not started counts from its creation.
    expect(computeRemainingTime({ ...row, started_at: null }, Date.parse(created_at) + later)).toBe(left);
  },
);

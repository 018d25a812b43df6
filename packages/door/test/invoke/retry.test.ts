import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { createTestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const content = manifest([
  toolExport("read"),
  toolExport("put", {}, { effect_class: "idempotent_write" }),
  toolExport("post", {}, { effect_class: "non_idempotent_write" }),
  toolExport("odd", {}, { effect_class: "unknown" }),
  hookExport("notify", ["package.installed", "binding.changed"]),
]);
const endRetryable = () => ended("retryable_failure", "plugin_retryable");

verifies(
  "inv.retry",
  "retries retryable_failure, but not failed, under one key if the effect class allows it, and redelivers hooks",
  async () => {
    const fixture = await createTestKernel({
      host: { deliveries: { concurrency: 4, per_binding: 4, max_attempts: 10, base_ms: 5, max_ms: 50 } },
    });
    await fixture.bind(content);
    for (const export_id of ["put", "post", "odd"])
      await fixture.kernel.bindings.create(user, exportReference(export_id));
    const { requests } = fixture.runner;
    fixture.runner.script = endRetryable;
    for (const export_id of ["read", "put"]) {
      requests.length = 0;
      const invocation = await fixture.call({ export_id });
      expect(invocation).toMatchObject({ status: "retryable_failure", retry_count: 2 });
      expect(requests).toHaveLength(3);
      expect(requests.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
      const keys = new Set(requests.map((request) => request.body.tool_execution_id));
      expect([...keys]).toEqual([invocation.execution_id]);
    }
    for (const export_id of ["post", "odd"]) {
      requests.length = 0;
      expect(await fixture.call({ export_id })).toMatchObject({
        status: "retryable_failure",
        retry_count: 0,
      });
      expect(requests).toHaveLength(1);
    }
    // No retry starts after the deadline.
    requests.length = 0;
    fixture.runner.script = () => {
      fixture.clock.monotonic_offset += 60_000;
      return endRetryable();
    };
    const short = await fixture.call({ export_id: "read", timeout_ms: 60_000 });
    expect(short.status).toBe("retryable_failure");
    expect(requests).toHaveLength(1);
    // A `failed` from the plugin's code is not retried.
    requests.length = 0;
    fixture.runner.script = () => ended("failed", "plugin_failed");
    expect(await fixture.call({ export_id: "read" })).toMatchObject({ status: "failed", retry_count: 0 });
    expect(requests).toHaveLength(1);
    // A hook's ack is a success. After any outcome but ack and the hook's own `failed`, the event is delivered again
    // under the same id.
    const deliveries: { delivery_id: unknown; attempt: unknown }[] = [];
    const outcomes = [endRetryable, () => ended("failed", "timeout"), () => ok(null)];
    fixture.runner.script = ({ request }) => {
      if (request.op !== "hook.handle") return ok();
      deliveries.push({ delivery_id: request.body.delivery_id, attempt: request.body.attempt });
      return outcomes[deliveries.length - 1]?.() ?? ok(null);
    };
    await fixture.kernel.bindings.create(user, exportReference("notify"));
    await until(() => deliveries.length >= 3);
    await until(async () => (await listHookStatuses()).includes("succeeded"));
    expect(deliveries.slice(0, 3).map((delivery) => delivery.attempt)).toEqual([1, 2, 3]);
    expect(new Set(deliveries.slice(0, 3).map((delivery) => delivery.delivery_id)).size).toBe(1);
    async function listHookStatuses() {
      const list = await fixture.kernel.invocations.list(user, { export_id: "notify" }, { limit: 10 });
      return list.items.map(({ status }) => status);
    }
  },
);

function exportReference(export_id: string) {
  return { package_id: "acme/devkit", package_version: "0.1.0", export_id };
}

test("retries a failure with a retryable code, even of a non-idempotent write, if the call never reached the plugin", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { export_id: "post" });
  const codes = ["crashed", "backpressure"];
  fixture.runner.script = () => {
    const code = codes.shift();
    return code === undefined ? ok() : ended("failed", code, { dispatched: false });
  };
  const retried = await fixture.call({ export_id: "post" });
  expect(retried).toMatchObject({ status: "succeeded", retry_count: 2 });
  expect(retried.earlier_attempts).toMatchObject([
    { reason: "retry", error: { code: "crashed" } },
    { reason: "retry", error: { code: "backpressure" } },
  ]);
  const times = retried.earlier_attempts!.flatMap(({ started_at, ended_at, retried_at }) => [
    started_at,
    ended_at!,
    retried_at,
  ]);
  expect([retried.created_at, ...times, retried.ended_at!]).toEqual(
    [retried.created_at, ...times, retried.ended_at!].toSorted(),
  );
  expect(await fixture.kernel.invocations.get(user, retried.id)).toEqual(retried);
  fixture.runner.requests.length = 0;
  for (const code of ["crashed", "launch_failed", "crash_loop"]) {
    fixture.runner.script = () => ended("failed", code, { dispatched: code === "crashed" });
    expect(await fixture.call({ export_id: "post" })).toMatchObject({ error: { code }, retry_count: 0 });
  }
  expect(fixture.runner.requests).toHaveLength(3);
});

test("retries retryable_failure before dispatch, even of a non-idempotent write, with pauses that double", async () => {
  const fixture = await createTestKernel({ host: { retry: { max_attempts: 4, base_ms: 7 } } });
  await fixture.bind(content, { export_id: "post" });
  const pauses: number[] = [];
  const after = fixture.clock.after.bind(fixture.clock);
  fixture.clock.after = (ms, run) => {
    pauses.push(ms);
    return after(ms, run);
  };
  fixture.runner.script = () => ended("retryable_failure", "plugin_retryable", { dispatched: false });
  expect(await fixture.call({ export_id: "post" })).toMatchObject({
    status: "retryable_failure",
    retry_count: 3,
  });
  expect(pauses.filter((ms) => ms % 7 === 0 && ms > 0 && ms < 100)).toEqual([7, 14, 28]);
});

verifies("launch.slow", "retries a slow start, whatever its error code", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content, { export_id: "post" });
  const codes = ["slow_start", "handshake_failed"];
  fixture.runner.script = () => {
    const code = codes.shift();
    if (code === undefined) return ok();
    const error = { code, message: "It did not start in time.", details: { slow_start: true } };
    return { ...ended("failed", code, { dispatched: false }), error };
  };
  expect(await fixture.call({ export_id: "post" })).toMatchObject({ status: "succeeded", retry_count: 2 });
  fixture.runner.script = () => ended("failed", "handshake_failed", { dispatched: false });
  expect(await fixture.call({ export_id: "post" })).toMatchObject({ status: "failed", retry_count: 0 });
});

test("ends a call immediately when it is cancelled between two attempts", async () => {
  const fixture = await createTestKernel({ host: { retry: { max_attempts: 3, base_ms: 20_000 } } });
  await fixture.bind(content);
  fixture.runner.script = endRetryable;
  const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "read" });
  await until(() => fixture.runner.requests.length === 1 && fixture.runner.running === 0);
  await fixture.kernel.invocations.cancel(user, ticket.id);
  expect(await ticket.settled).toMatchObject({
    status: "cancelled",
    error: { code: "cancelled" },
    retry_count: 0,
  });
  expect(fixture.runner.requests).toHaveLength(1);
});

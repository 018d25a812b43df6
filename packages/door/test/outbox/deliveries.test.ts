/** Deliveries to hooks: what an operator can see and do, pausing and disabling, filters, limits, and recovery. */
import type { DeliveryStatus } from "@backplane/contract";
import type { HostPolicy } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  guest,
  orgUser,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const content = manifest([
  toolExport("echo"),
  hookExport("notify", ["invocation.settled", "binding.changed"], {
    hook: {
      subscribes_to: ["invocation.settled", "binding.changed"],
      filter: { "subject.kind": ["invocation", "run"] },
    },
  }),
]);
/** How long a gateway holds a delivery (packages/door/src/outbox/deliver.ts). */
const LEASE_MS = 30_000;

const deliveries: HostPolicy["deliveries"] = {
  concurrency: 4,
  per_binding: 2,
  max_attempts: 2,
  base_ms: 5,
  max_ms: 20,
};

interface HookKernel extends TestKernel {
  hook: string;
  hookCalls(): TestKernel["runner"]["requests"];
  list(status?: DeliveryStatus): ReturnType<TestKernel["kernel"]["deliveries"]["list"]>;
}

async function createHookKernel(policy: object = {}): Promise<HookKernel> {
  const fixture = await createTestKernel({ host: { deliveries } });
  await fixture.bind(content);
  const { binding_id } = await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "notify",
    policy,
  });
  return {
    ...fixture,
    hook: binding_id,
    hookCalls: () => fixture.runner.requests.filter(({ op }) => op === "hook.handle"),
    list: (status) =>
      fixture.kernel.deliveries.list(user, status === undefined ? {} : { status }, { limit: 50 }),
  };
}

const crashed = () => ended("failed", "crashed", { dispatched: true });

verifies(
  ["api.deliveries", "hook.contract"],
  "shows dead letters only in their scope, replays them under the same id with rising attempts, and discards them",
  async () => {
    const fixture = await createHookKernel();
    const { deliveries: facade } = fixture.kernel;
    fixture.runner.script = ({ request }) => (request.op === "hook.handle" ? crashed() : ok());
    const { id: subject } = await fixture.call({ export_id: "echo" });
    await until(async () => (await fixture.list("dead")).items.length === 1);
    const [dead] = (await fixture.list("dead")).items;
    expect(dead).toMatchObject({
      binding_id: fixture.hook,
      project_id: "proj_default",
      status: "dead",
      attempt: 2,
      max_attempts: 2,
      next_attempt_at: null,
      error: expect.stringContaining("crashed"),
      test: false,
      event: { type: "invocation.settled", subject: { kind: "invocation", id: subject } },
    });
    const call = await fixture.kernel.invocations.get(user, dead!.invocation_id!);
    expect(call).toMatchObject({ execution_id: dead!.id, retry_count: 1, export_id: "notify" });
    const stranger = { ...user, scope: { ...user.scope, project_id: "proj_other" } };
    for (const action of ["get", "replay", "discard"] as const) {
      await expect(facade[action](stranger, dead!.id)).rejects.toMatchObject({ code: "delivery.not_found" });
    }
    expect((await facade.list(stranger, {}, { limit: 9 })).items).toEqual([]);
    expect((await facade.list(orgUser, {}, { limit: 9 })).items).toHaveLength(1);
    await expect(facade.replay(guest, dead!.id)).rejects.toMatchObject({ code: "policy.denied" });

    fixture.runner.script = ({ request }) =>
      request.op === "hook.handle" && request.body.attempt !== 4 ? crashed() : ok(null);
    expect(await facade.replay(user, dead!.id)).toMatchObject({ id: dead!.id });
    await until(async () => (await facade.get(user, dead!.id)).status === "delivered");
    expect(await facade.get(user, dead!.id)).toMatchObject({ attempt: 4, error: null });
    expect(fixture.hookCalls().map(({ body }) => [body.delivery_id, body.attempt])).toEqual(
      [1, 2, 3, 4].map((attempt) => [dead!.id, attempt]),
    );
    await expect(facade.replay(user, dead!.id)).rejects.toMatchObject({
      code: "delivery.conflict",
      details: { status: "delivered" },
    });
    await expect(facade.discard(user, dead!.id)).rejects.toMatchObject({ code: "delivery.conflict" });

    fixture.runner.script = ({ request }) => (request.op === "hook.handle" ? crashed() : ok());
    await fixture.call({ export_id: "echo" });
    await until(async () => (await fixture.list("dead")).items.length === 1);
    const [second] = (await fixture.list("dead")).items;
    expect(await facade.discard(user, second!.id)).toMatchObject({ status: "discarded", attempt: 2 });
    expect((await fixture.list("dead")).items).toEqual([]);
    const actions = (await fixture.kernel.audit.list(admin, {}, { limit: 50 })).items
      .filter(({ action }) => action.startsWith("delivery."))
      .map(({ action, subject: delivery_id }) => [action, delivery_id]);
    expect(actions).toEqual([
      ["delivery.discard", second!.id],
      ["delivery.replay", dead!.id],
    ]);
  },
);

verifies("hook.contract", "keeps the events for a paused hook and delivers them after a resume", async () => {
  const fixture = await createHookKernel({ deliveries: { paused: true } });
  for (let n = 0; n < 3; n++) await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.list("pending")).items.length === 3);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(fixture.hookCalls()).toEqual([]);
  const { policy } = await fixture.kernel.bindings.get(admin, fixture.hook);
  await fixture.kernel.bindings.patch(
    admin,
    fixture.hook,
    { policy: { ...policy, deliveries: {} } },
    undefined,
  );
  await until(async () => (await fixture.list("delivered")).items.length === 3);
  expect(fixture.hookCalls().map(({ body }) => body.attempt)).toEqual([1, 1, 1]);
});

const setPaused = async ({ kernel, hook }: HookKernel, paused: boolean) => {
  const { policy } = await kernel.bindings.get(admin, hook);
  await kernel.bindings.patch(admin, hook, { policy: { ...policy, deliveries: { paused } } }, undefined);
};

verifies("hook.contract", "starts no new delivery to a hook that was paused while it was idle", async () => {
  const fixture = await createHookKernel();
  for (let n = 0; n < 2; n++) {
    await fixture.call({ export_id: "echo" });
    await until(async () => (await fixture.list("delivered")).items.length === n + 1);
  }
  await setPaused(fixture, true);
  await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.list("pending")).items.length === 1);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(fixture.hookCalls()).toHaveLength(2);
  await setPaused(fixture, false);
  await until(async () => (await fixture.list("delivered")).items.length === 3);
});

verifies("hook.contract", "starts no reserved delivery to a hook after it was paused", async () => {
  const fixture = await createHookKernel();
  const gate = Promise.withResolvers<void>();
  fixture.runner.script = async ({ request }) => {
    if (request.op === "hook.handle") await gate.promise;
    return ok(null);
  };
  for (let n = 0; n < 5; n++) await fixture.call({ export_id: "echo" });
  await until(() => fixture.hookCalls().length === 2);
  await setPaused(fixture, true);
  await fixture.call({ export_id: "echo" });
  gate.resolve();
  await until(async () => (await fixture.list("delivered")).items.length === 2);
  await until(async () => (await fixture.list("pending")).items.length === 4);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(fixture.hookCalls()).toHaveLength(2);
  await setPaused(fixture, false);
  await until(async () => (await fixture.list("delivered")).items.length === 6);
  expect(fixture.hookCalls().map(({ body }) => body.attempt)).toEqual([1, 1, 1, 1, 1, 1]);
});

const setStatus = ({ kernel, hook }: HookKernel, status: "active" | "disabled") =>
  kernel.bindings.patch(admin, hook, { status }, undefined);

/** Leaves two deliveries that have failed once and are due again soon, and no running one. */
async function leaveDeliveriesWaiting(fixture: HookKernel): Promise<string[]> {
  const gate = Promise.withResolvers<void>();
  fixture.runner.script = async ({ request }) => {
    if (request.op !== "hook.handle") return ok();
    await gate.promise;
    return crashed();
  };
  for (let n = 0; n < 2; n++) await fixture.call({ export_id: "echo" });
  await until(() => fixture.hookCalls().length === 2);
  await setStatus(fixture, "disabled");
  gate.resolve();
  await until(async () => (await fixture.list("pending")).items.length === 2);
  fixture.runner.script = () => ok(null);
  return (await fixture.list("pending")).items.map(({ id }) => id);
}

verifies(
  "hook.contract",
  "keeps the queued deliveries to a disabled hook and delivers them after it is enabled",
  async () => {
    const fixture = await createHookKernel();
    const waiting_ids = await leaveDeliveriesWaiting(fixture);
    const { id: missed } = await fixture.call({ export_id: "echo" });
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect((await fixture.list("pending")).items.map(({ id }) => id)).toEqual(waiting_ids);
    expect(fixture.hookCalls()).toHaveLength(2);
    await setStatus(fixture, "active");
    await until(async () => (await fixture.list("delivered")).items.length === 2);
    const delivered = fixture.hookCalls().slice(2);
    expect(new Set(delivered.map(({ body }) => body.delivery_id))).toEqual(new Set(waiting_ids));
    // An event that happens while the hook is disabled is not delivered.
    const subjects = (await fixture.list()).items.map(({ event }) => (event.subject as { id: string }).id);
    expect(subjects).not.toContain(missed);
  },
);

verifies(
  "hook.contract",
  "does not count an attempt that a disabled hook refused, even if it is the last one",
  async () => {
    const fixture = await createHookKernel({ deliveries: { max_attempts: 1 } });
    const get = fixture.store.bindings.get.bind(fixture.store.bindings);
    // The deliverer reads the binding before it is disabled, and the door after that.
    const read = vi.spyOn(fixture.store.bindings, "get");
    let disabled: Promise<unknown> | null = null;
    read.mockImplementation(async (...args) => {
      const stored = await get(...args);
      if (args[1] === fixture.hook && disabled === null) {
        disabled = Promise.resolve();
        await setStatus(fixture, "disabled");
      }
      return stored;
    });
    await fixture.call({ export_id: "echo" });
    await until(async () => (await fixture.list()).items.length === 1 && disabled !== null);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect((await fixture.list()).items).toMatchObject([{ status: "pending" }]);
    expect(fixture.hookCalls()).toEqual([]);
    await setStatus(fixture, "active");
    await until(async () => (await fixture.list("delivered")).items.length === 1);
  },
);

verifies("hook.contract", "discards the deliveries to a removed hook and records why", async () => {
  const fixture = await createHookKernel();
  const waiting_ids = await leaveDeliveriesWaiting(fixture);
  await fixture.kernel.bindings.remove(admin, fixture.hook);
  await until(async () => (await fixture.list("discarded")).items.length === 2);
  const { items } = await fixture.list("discarded");
  expect(items.map(({ id }) => id)).toEqual(waiting_ids);
  for (const { error } of items) expect(error).toContain("binding.not_found");
  const audit = (await fixture.kernel.audit.list(admin, {}, { limit: 50 })).items;
  expect(audit.find(({ action }) => action === "binding.remove")).toMatchObject({
    subject: fixture.hook,
    details: { waiting_deliveries: 2 },
  });
});

verifies(
  "hook.contract",
  "keeps the deliveries of an archived project until the project is restored",
  async () => {
    const fixture = await createHookKernel();
    const archive = (archived: boolean) => fixture.kernel.policy.patch(admin, "project", { archived });
    const gate = Promise.withResolvers<void>();
    fixture.runner.script = async ({ request }) => {
      if (request.op !== "hook.handle") return ok();
      await gate.promise;
      return crashed();
    };
    await fixture.call({ export_id: "echo" });
    await until(() => fixture.hookCalls().length === 1);
    await archive(true);
    gate.resolve();
    await until(async () => (await fixture.list("pending")).items.length === 1);
    // The next attempt would be due by now.
    await new Promise((resolve) => setTimeout(resolve, 150));
    expect(fixture.hookCalls()).toHaveLength(1);
    fixture.runner.script = () => ok(null);
    await archive(false);
    await until(async () => (await fixture.list("delivered")).items.length === 1);
  },
);

verifies("hook.contract", "delivers only events that pass the filters of author and binding", async () => {
  const filter = { "summary.export_id": "echo", "summary.status": ["failed"] };
  const fixture = await createHookKernel({ deliveries: { filter, max_attempts: 7 } });
  await fixture.call({ export_id: "echo" });
  fixture.runner.script = ({ request }) =>
    request.op === "hook.handle" ? ok(null) : ended("failed", "plugin_failed");
  const failed = await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.list("delivered")).items.length === 1);
  // The hook also subscribes to binding.changed, but its own filter leaves out that subject.
  const { items } = await fixture.list();
  expect(items).toMatchObject([{ event: { subject: { id: failed.id } }, max_attempts: 7 }]);
});

test("starts the next delivery to a hook while the settlement of the previous one is written", async () => {
  const fixture = await createHookKernel({ deliveries: { concurrency: 1 } });
  const { invocations } = fixture.store;
  const settle = invocations.settle.bind(invocations);
  const gate = Promise.withResolvers<void>();
  vi.spyOn(invocations, "settle").mockImplementation(async (...call) => {
    if (call[4] !== undefined) await gate.promise;
    return settle(...call);
  });
  for (let n = 0; n < 2; n++) await fixture.call({ export_id: "echo" });
  await until(() => fixture.hookCalls().length === 2);
  expect((await fixture.list("delivered")).items).toEqual([]);
  gate.resolve();
  await until(async () => (await fixture.list("delivered")).items.length === 2);
});

verifies(
  "hook.contract",
  "runs as many deliveries to a hook at the same time as its binding allows",
  async () => {
    const fixture = await createHookKernel({ deliveries: { concurrency: 1 } });
    let running = 0;
    let peak = 0;
    fixture.runner.script = async ({ request }) => {
      if (request.op !== "hook.handle") return ok();
      peak = Math.max(peak, ++running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      running--;
      return ok(null);
    };
    for (let n = 0; n < 5; n++) await fixture.call({ export_id: "echo" });
    await until(async () => (await fixture.list("delivered")).items.length === 5);
    expect(peak).toBe(1);
  },
);

/** A hook that has ended one call quickly and now blocks: two calls run, and two more are opened in advance. */
async function createBlockedHook(policy: object = {}) {
  const fixture = await createHookKernel({ deliveries: policy });
  const gate = Promise.withResolvers<void>();
  await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.list("delivered")).items.length === 1);
  fixture.runner.script = async ({ request }) => {
    if (request.op === "hook.handle") await gate.promise;
    return ok(null);
  };
  for (let n = 0; n < 7; n++) await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.list()).items.length === 8);
  const countRunning = async () => (await fixture.list("running")).items.length;
  return { ...fixture, countRunning, gate };
}

verifies(
  "hook.contract",
  "opens calls to a quick hook in advance and runs them within its limit",
  async () => {
    const fixture = await createBlockedHook();
    await until(async () => (await fixture.countRunning()) === 4);
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(await fixture.countRunning()).toBe(4);
    expect(fixture.runner.running).toBe(2);
    expect(fixture.hookCalls()).toHaveLength(3);
    fixture.gate.resolve();
    await until(async () => (await fixture.list("delivered")).items.length === 8);
    expect(fixture.hookCalls()).toHaveLength(8);
  },
);

verifies("hook.contract", "opens no call in advance for a hook that allows one attempt", async () => {
  const fixture = await createBlockedHook({ max_attempts: 1 });
  await until(() => fixture.hookCalls().length === 3);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await fixture.countRunning()).toBe(2);
  fixture.gate.resolve();
  await until(async () => (await fixture.list("delivered")).items.length === 8);
});

verifies("hook.contract", "withdraws calls that were opened in advance when the hook is paused", async () => {
  const fixture = await createBlockedHook();
  await until(async () => (await fixture.countRunning()) === 4);
  await setPaused(fixture, true);
  await until(async () => (await fixture.list("pending")).items.length === 5);
  expect((await fixture.list("pending")).items.map(({ attempt }) => attempt)).toEqual([0, 0, 0, 0, 0]);
  fixture.gate.resolve();
  await until(async () => (await fixture.list("delivered")).items.length === 3);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(fixture.hookCalls()).toHaveLength(3);
  await setPaused(fixture, false);
  await until(async () => (await fixture.list("delivered")).items.length === 8);
  expect(fixture.hookCalls().map(({ body }) => body.attempt)).toEqual(Array(8).fill(1));
});

test("does not count the attempts of calls that were only opened in advance when the gateway stops", async () => {
  const fixture = await createBlockedHook();
  await until(async () => (await fixture.countRunning()) === 4);
  await fixture.kernel.stop(100);
  const uncounted = async () => {
    const { items } = await fixture.store.jobs.list(user.scope, { lane: fixture.hook }, { limit: 50 });
    return items.filter(({ state, attempt }) => state === "ready" && attempt === 0).length;
  };
  await expect.poll(uncounted).toBe(5);
  fixture.gate.resolve();
});

verifies(
  "hook.contract",
  "delivers an example event once, marked as a test, regardless of filters",
  async () => {
    const fixture = await createHookKernel({ deliveries: { filter: { "subject.kind": "run" } } });
    const { deliveries: facade } = fixture.kernel;
    fixture.runner.script = ({ request }) => (request.op === "hook.handle" ? crashed() : ok());
    const sent = await facade.test(user, fixture.hook, { type: "binding.changed" });
    expect(sent).toMatchObject({
      test: true,
      max_attempts: 1,
      event: { type: "binding.changed", test: true },
    });
    await until(async () => (await facade.get(user, sent.id)).status === "dead");
    const [call] = fixture.hookCalls();
    expect(call!.body).toMatchObject({ delivery_id: sent.id, attempt: 1, event: { test: true } });
    expect(call!.context.trace_id).toBe(sent.event.trace_id);
    expect(fixture.hookCalls()).toHaveLength(1);
    await expect(facade.test(user, fixture.hook, { type: "run.failed" })).rejects.toMatchObject({
      code: "request.invalid",
    });
    const tool = (await fixture.kernel.bindings.list(user, { kind: "tool" }, { limit: 1 })).items[0]!;
    await expect(facade.test(user, tool.binding_id, {})).rejects.toMatchObject({ code: "request.invalid" });
    await expect(facade.test(user, "bind_none", {})).rejects.toMatchObject({ code: "binding.not_found" });
  },
);

test("refuses to test a hook that is not active and enqueues nothing", async () => {
  const fixture = await createHookKernel();
  await fixture.kernel.bindings.patch(admin, fixture.hook, { status: "disabled" }, undefined);
  const test_run = fixture.kernel.deliveries.test(user, fixture.hook, { type: "binding.changed" });
  await expect(test_run).rejects.toMatchObject({
    code: "binding.not_active",
    message: `The binding ${fixture.hook} is disabled.`,
  });
  expect((await fixture.list()).items.filter(({ test }) => test)).toEqual([]);
});

test("resumes the deliveries of a killed gateway before their leases expire, with the next attempt", async () => {
  const fixture = await createHookKernel();
  fixture.runner.script = ({ request, cancelled }) =>
    request.op === "hook.handle" ? cancelled.then(() => ended("cancelled", "cancelled")) : ok();
  for (let n = 0; n < 3; n++) await fixture.call({ export_id: "echo" });
  await until(() => fixture.hookCalls().length === 2);
  const interrupted_ids = fixture.hookCalls().map(({ body }) => body.delivery_id);
  await fixture.crash();
  const from = performance.now();
  const next = await createTestKernel({ file: fixture.file, host: { deliveries } });
  const calls = () => next.runner.requests.filter(({ op }) => op === "hook.handle");
  await until(() => calls().length === 3);
  expect(performance.now() - from).toBeLessThan(LEASE_MS);
  const attempts = new Map(calls().map(({ body }) => [body.delivery_id, body.attempt]));
  // The third was leased in advance and not started, so this is its first attempt.
  expect(attempts.size).toBe(3);
  expect([...attempts.values()].filter((attempt) => attempt === 1)).toHaveLength(1);
  for (const id of interrupted_ids) expect(attempts.get(id)).toBe(2);
});

import type { JsonObject } from "@backplane/contract";
import type { HostPolicy } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test, vi } from "vitest";

const content = manifest([
  toolExport("echo"),
  hookExport("notify", ["invocation.settled"]),
  hookExport("poison", ["invocation.settled"]),
]);
const deliveries: HostPolicy["deliveries"] = {
  concurrency: 4,
  per_binding: 2,
  max_attempts: 3,
  base_ms: 5,
  max_ms: 20,
};

async function bindHooks(fixture: TestKernel, ...ids: string[]): Promise<void> {
  await fixture.bind(content);
  for (const export_id of ids) {
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id,
    });
  }
}

const exportReference = (export_id: string) => ({
  package_id: "acme/devkit",
  package_version: "0.1.0",
  export_id,
});

const listHookRequests = (fixture: TestKernel, export_id = "notify") =>
  fixture.runner.requests.filter((request) => request.export_id === export_id);

const isDone = async (fixture: TestKernel) =>
  (await fixture.store.jobs.listLanes("deliveries", 0)).length === 0;

test("delivers an event to its hook once, and skips events of the hook's own call", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await bindHooks(fixture, "notify");
  const done = await fixture.call({ export_id: "echo", session_id: "sess_1" });
  await until(() => listHookRequests(fixture).length === 1);
  expect(listHookRequests(fixture)[0]!.body).toEqual({
    delivery_id: expect.stringMatching(/^del_/),
    attempt: 1,
    event: {
      type: "invocation.settled",
      occurred_at: expect.any(String),
      subject: { kind: "invocation", id: done.id },
      summary: expect.objectContaining({ status: "succeeded", export_id: "echo", session_id: "sess_1" }),
      session_id: "sess_1",
      trace_id: done.trace_id,
    },
  });
  // The settled event of the hook's own call is skipped, so two calls lead to exactly two deliveries.
  await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 2);
  await until(
    async () =>
      (await fixture.store.outbox.read(await fixture.store.outbox.getCursor("hooks"), 1)).length === 0,
  );
  expect(listHookRequests(fixture)).toHaveLength(2);
});

test("marks the events of a hook's own call", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await bindHooks(fixture, "notify");
  const { id } = await fixture.call({ export_id: "echo" });
  const settled = async () =>
    (await fixture.store.outbox.read(0, 100)).filter(({ type }) => type === "invocation.settled");
  await until(async () => (await settled()).length === 2);
  expect((await settled()).map(({ subject, from_hook }) => [subject.id === id, from_hook])).toEqual([
    [true, false],
    [false, true],
  ]);
});

test("skips events without a subscribed hook and does not read them", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await bindHooks(fixture);
  const read = vi.spyOn(fixture.store.outbox, "read");
  await fixture.call({ export_id: "echo" });
  await until(
    async () =>
      (await fixture.store.outbox.summarize(await fixture.store.outbox.getCursor("hooks"), 1)) === null,
  );
  expect(read).not.toHaveBeenCalled();
  read.mockRestore();
  await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "notify",
  });
  await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 1);
});

test("marks a failing hook's job dead after its last attempt, without delaying other hooks", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await bindHooks(fixture, "notify", "poison");
  fixture.runner.script = ({ request }) =>
    request.export_id === "poison" ? ended("failed", "crashed", { dispatched: true }) : ok();
  for (let i = 0; i < 5; i++) await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 5);
  await until(async () => (await fixture.store.jobs.listDead("deliveries", 10)).length === 5);
  expect(listHookRequests(fixture, "poison")).toHaveLength(15);
  const [dead] = await fixture.store.jobs.listDead("deliveries", 1);
  expect(dead).toMatchObject({ attempt: 3, last_error: expect.stringContaining("crashed") });
  const attempts = new Map<unknown, unknown[]>();
  for (const { body } of listHookRequests(fixture, "poison")) {
    attempts.set(body.delivery_id, [...(attempts.get(body.delivery_id) ?? []), body.attempt]);
  }
  expect([...attempts.values()]).toEqual(Array(5).fill([1, 2, 3]));
});

test("does not retry after the plugin reports failed, and delivers nothing to a disabled hook", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await bindHooks(fixture, "notify");
  fixture.runner.script = ({ request }) =>
    request.export_id === "notify" ? ended("failed", "plugin_failed") : ok();
  await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 1);
  await until(async () => await isDone(fixture));
  expect(listHookRequests(fixture)).toHaveLength(1);
  const [binding] = (await fixture.kernel.bindings.list(user, { kind: "hook" }, { limit: 1 })).items;
  await fixture.kernel.bindings.patch(admin, binding!.binding_id, { status: "disabled" }, undefined);
  await fixture.call({ export_id: "echo" });
  await until(
    async () =>
      (await fixture.store.outbox.read(await fixture.store.outbox.getCursor("hooks"), 1)).length === 0,
  );
  expect(await isDone(fixture)).toBe(true);
  expect(listHookRequests(fixture)).toHaveLength(1);
});

test("keeps the order of deliveries for one subject", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  const bound = manifest([toolExport("echo"), hookExport("notify", ["binding.changed"])]);
  const target = await fixture.bind(bound);
  await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "notify",
  });
  const generations: number[] = [];
  fixture.runner.script = async ({ request }) => {
    const event = request.body.event as JsonObject & {
      subject: { id: string };
      summary: { generation: number };
    };
    await new Promise((resolve) => setTimeout(resolve, generations.length % 3));
    if (event.subject.id === target.binding_id) generations.push(event.summary.generation);
    return ok(null);
  };
  for (let i = 0; i < 20; i++) {
    await fixture.kernel.bindings.patch(admin, target.binding_id, { config: { i } }, undefined);
  }
  await until(() => generations.at(-1) === 21);
  expect(generations).toEqual([...generations].sort((a, b) => a - b));
});

test("keeps one timer in an idle kernel", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await bindHooks(fixture, "notify");
  await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 1);
  await until(async () => (await isDone(fixture)) && fixture.clock.timers <= 1);
  expect(fixture.clock.timers).toBe(1);
});

test("does not delay a hook while other hooks hang", async () => {
  const fixture = await createTestKernel({ host: { deliveries: { ...deliveries, concurrency: 20 } } });
  const hanging = Array.from({ length: 8 }, (_, n) => `hangs${n}`);
  const hooks = [...hanging, "notify"].map((id) => hookExport(id, ["invocation.settled"]));
  await fixture.bind(manifest([toolExport("echo"), ...hooks]));
  for (const { id } of hooks) await fixture.kernel.bindings.create(admin, exportReference(id));
  fixture.runner.script = ({ request, cancelled }) =>
    hanging.includes(request.export_id) ? cancelled.then(() => ended("cancelled", "cancelled")) : ok(null);
  for (let i = 0; i < 6; i++) await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 6);
  // Each hook runs only as many calls as its limit allows, and its waiting jobs are not read repeatedly.
  await until(() => fixture.runner.running === 16);
  for (const id of hanging) expect(listHookRequests(fixture, id)).toHaveLength(2);
  // None of their calls is opened in advance either.
  const running = () => fixture.kernel.deliveries.list(user, { status: "running" }, { limit: 50 });
  await until(async () => (await running()).items.length === 16);
  const reads = vi.spyOn(fixture.store.jobs, "reserve");
  await new Promise((resolve) => setTimeout(resolve, 350));
  expect(reads).not.toHaveBeenCalled();
  await fixture.call({ export_id: "echo" });
  await until(() => listHookRequests(fixture).length === 7);
});

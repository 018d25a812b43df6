import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  scope,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { Retention } from "../../src/retention/retention.ts";

const DAY = 86_400_000;
const content = manifest([
  toolExport("echo"),
  hookExport("notify", ["invocation.settled"]),
  hookExport("poison", ["invocation.settled"]),
]);
const deliveries = { concurrency: 4, per_binding: 2, max_attempts: 1, base_ms: 5, max_ms: 20 };

/** Leaves one call with a progress event, one completed delivery and one dead delivery. */
async function leaveOldData(fixture: TestKernel): Promise<string> {
  await fixture.bind(content);
  for (const export_id of ["notify", "poison"]) {
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id,
    });
  }
  fixture.runner.script = ({ request, event }) => {
    if (request.export_id === "poison") return ended("failed", "crashed");
    event({ type: "progress" });
    return ok(request.export_id === "notify" ? null : undefined);
  };
  const { id } = await fixture.call({ export_id: "echo" });
  await until(async () => (await fixture.store.jobs.listDead("deliveries", 9)).length === 1);
  await until(async () => (await fixture.store.jobs.listLanes("deliveries", 0)).length === 0);
  await until(
    async () =>
      (await fixture.store.outbox.summarize(await fixture.store.outbox.getCursor("hooks"), 1)) === null,
  );
  return id;
}

const findRecords = async (fixture: TestKernel, id: string) => ({
  events: (await fixture.store.outbox.read(0, 100)).length > 0,
  dead: (await fixture.store.jobs.listDead("deliveries", 9)).length,
  progress: (await fixture.store.invocations.listEvents(id, 0, 9)).length,
  call: (await fixture.kernel.invocations.get(user, id)).status,
});

test("deletes events, dead jobs and progress after their retention periods and keeps calls", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  const id = await leaveOldData(fixture);
  const retention = new Retention(fixture.deps);
  const all = { events: true, dead: 1, progress: 1, call: "succeeded" };
  fixture.clock.wall_offset = 6.9 * DAY;
  await retention.sweep();
  expect(await findRecords(fixture, id)).toEqual(all);
  fixture.clock.wall_offset = 7.1 * DAY;
  await retention.sweep();
  expect(await findRecords(fixture, id)).toEqual({ ...all, events: false });
  fixture.clock.wall_offset = 30.1 * DAY;
  await retention.sweep();
  expect(await findRecords(fixture, id)).toEqual({ events: false, dead: 0, progress: 0, call: "succeeded" });
  expect((await fixture.store.audit.list(scope, {}, { limit: 9 })).items.length).toBeGreaterThan(0);
});

test("discards deliveries that waited too long for a paused or disabled hook", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  await fixture.bind(content);
  const hooks = new Map<string, string>();
  for (const export_id of ["notify", "poison"]) {
    const reference = { package_id: "acme/devkit", package_version: "0.1.0", export_id };
    const policy = { deliveries: { paused: true } };
    const { binding_id } = await fixture.kernel.bindings.create(admin, { ...reference, policy });
    hooks.set(export_id, binding_id);
  }
  await fixture.call({ export_id: "echo" });
  const listDeliveries = async () => (await fixture.kernel.deliveries.list(user, {}, { limit: 9 })).items;
  await until(async () => (await listDeliveries()).length === 2);
  const disabled = { status: "disabled", policy: { deliveries: {} } } as const;
  await fixture.kernel.bindings.patch(admin, hooks.get("notify")!, disabled, undefined);
  const retention = new Retention(fixture.deps);
  fixture.clock.wall_offset = 29.9 * DAY;
  await retention.sweep();
  expect((await listDeliveries()).map(({ status }) => status)).toEqual(["pending", "pending"]);
  fixture.clock.wall_offset = 30.1 * DAY;
  await retention.sweep();
  for (const { status, error } of await listDeliveries()) {
    expect([status, error]).toEqual(["discarded", expect.stringContaining("retention.dead_jobs_days")]);
  }
  expect(await listDeliveries()).toHaveLength(2);
});

test("keeps data forever with a retention of 0", async () => {
  const none = {
    done_jobs_ms: 0,
    dead_jobs_ms: 0,
    outbox_ms: 0,
    progress_ms: 0,
    blobs_ms: 0,
    artifacts_ms: 0,
  };
  const fixture = await createTestKernel({ host: { deliveries, retention: none } });
  const id = await leaveOldData(fixture);
  fixture.clock.wall_offset = 900 * DAY;
  await new Retention(fixture.deps).sweep();
  expect(await findRecords(fixture, id)).toEqual({ events: true, dead: 1, progress: 1, call: "succeeded" });
});

test("sweeps rows on one node and package bytes in each home", async () => {
  const fixture = await createTestKernel({ host: { deliveries } });
  const id = await leaveOldData(fixture);
  const swept: number[] = [];
  fixture.deps.importer.sweep = async (used, min_age_ms) => {
    const [row] = (await fixture.store.packages.list(scope.org_id, { limit: 1 })).items;
    expect([await used(row!.digest), await used("sha256:none")]).toEqual([true, false]);
    swept.push(min_age_ms);
    return 0;
  };
  const artifacts = {
    store: async () => {},
    open: async () => null,
    sweep: async (ms: number) => swept.push(ms),
  };
  Object.assign(fixture.deps, { artifacts });
  fixture.clock.wall_offset = 31 * DAY;
  await fixture.store.leases.acquire("retention", "node_other", fixture.clock.now(), 60_000);
  const retention = new Retention(fixture.deps);
  await retention.sweep();
  expect(await findRecords(fixture, id)).toMatchObject({ events: true, dead: 1 });
  await fixture.store.leases.release("retention", "node_other");
  await retention.sweep();
  expect(await findRecords(fixture, id)).toMatchObject({ events: false, dead: 0 });
  expect(swept).toEqual([30 * DAY, DAY, 30 * DAY, DAY]);
});

test("sweeps in small steps with pauses and stops after the current step", async () => {
  const fixture = await createTestKernel();
  const limits: number[] = [];
  fixture.store.retention.removeJobs = async (_state, _now, _keep, limit) => {
    limits.push(limit);
    return limit;
  };
  const retention = new Retention(fixture.deps);
  retention.start();
  retention.start();
  await until(() => limits.length === 3);
  await retention.stop();
  const steps = limits.length;
  expect(Math.max(...limits)).toBeLessThanOrEqual(500);
  retention.start();
  await new Promise((resolve) => setTimeout(resolve, 60));
  expect(limits).toHaveLength(steps);
});

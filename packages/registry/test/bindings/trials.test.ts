/** Trials of a new version, for all calls or for a share of them. */
import { BackplaneError, type BindingUpgrade } from "@backplane/contract";
import type { RunOutcome } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test, vi } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const PACKAGE = "acme/devkit";
const TOOLS = [toolExport("greet"), toolExport("wave")];

async function createBoundKernel(exports = TOOLS) {
  const fixture = await createTestKernel();
  const bound = await fixture.bind(manifest(exports), { config: { team: "ops" } });
  await fixture.kernel.bindings.create(admin, {
    package_id: PACKAGE,
    package_version: "0.1.0",
    export_id: "wave",
  });
  await install(fixture, "0.2.0", exports);
  return { fixture, bound };
}

async function install(fixture: TestKernel, version: string, exports = TOOLS): Promise<void> {
  await fixture.kernel.packages.install(admin, fixture.importer.add({ ...manifest(exports), version }));
}

const upgrade = (
  fixture: TestKernel,
  package_version: string,
  more: Partial<BindingUpgrade> = {},
  caller = admin,
) => fixture.kernel.bindings.upgrade(caller, { package_id: PACKAGE, package_version, ...more });
const greet = (fixture: TestKernel) => fixture.call({ export_id: "greet", input: {} });
const listBindings = async (fixture: TestKernel) =>
  (await fixture.kernel.bindings.list(admin, {}, { limit: 50 })).items;
const listVersions = async (fixture: TestKernel) =>
  (await listBindings(fixture)).map(({ package_version }) => package_version);
const listRollbacks = async (fixture: TestKernel) =>
  (await fixture.store.audit.list(admin.scope, { action: "binding.rollback" }, { limit: 20 })).items;

/** Makes calls to these versions end with the given outcome; all other calls succeed. */
function endCalls(fixture: TestKernel, outcomes: Record<string, RunOutcome>): void {
  fixture.runner.script = ({ request }) => outcomes[request.package.version] ?? ok();
}

verifies("bind.hot", "rolls all bindings of a version back when one of its calls crashes", async () => {
  const { fixture, bound } = await createBoundKernel();
  const moved = await upgrade(fixture, "0.2.0");
  expect(moved.map(({ trial }) => trial)).toEqual([
    expect.objectContaining({ from_version: "0.1.0", max_error_percent: 50 }),
    expect.objectContaining({ from_version: "0.1.0" }),
  ]);
  endCalls(fixture, { "0.2.0": ended("failed", "crashed") });
  expect(await greet(fixture)).toMatchObject({ fallback_from: { package_version: "0.2.0" } });
  await expect.poll(() => listVersions(fixture), { timeout: 10_000 }).toEqual(["0.1.0", "0.1.0"]);
  expect(await greet(fixture)).toMatchObject({ status: "succeeded", package_version: "0.1.0" });
  const restored = await fixture.kernel.bindings.get(admin, bound.binding_id);
  expect(restored).toMatchObject({
    config: { team: "ops" },
    rolled_back: { package_version: "0.2.0", reason: "A call ended with crashed." },
  });
  expect(restored).not.toHaveProperty("trial");
  expect(await listRollbacks(fixture)).toMatchObject([
    { actor: "kernel", details: { reason: "A call ended with crashed.", version: "0.2.0" } },
    { actor: "kernel" },
  ]);
});

verifies("bind.hot", "rolls a version back when too many of its calls fail, and not before", async () => {
  const { fixture } = await createBoundKernel();
  await upgrade(fixture, "0.2.0", { trial: { max_error_percent: 30 } });
  let calls = 0;
  fixture.runner.script = () => (++calls % 2 === 0 ? ended("failed", "author_code") : ok());
  for (let call = 0; call < 19; call++) await greet(fixture);
  expect(await listVersions(fixture)).toEqual(["0.2.0", "0.2.0"]);
  await greet(fixture);
  await expect.poll(() => listVersions(fixture), { timeout: 10_000 }).toEqual(["0.1.0", "0.1.0"]);
  expect((await listRollbacks(fixture))[0]!.details).toMatchObject({ reason: "10 of 20 calls failed." });
});

test("does not count calls that a user cancels in a trial", async () => {
  const { fixture } = await createBoundKernel();
  await upgrade(fixture, "0.2.0");
  fixture.runner.script = () => new Promise<never>(() => {});
  for (let call = 0; call < 20; call++) {
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "greet", input: {} });
    await fixture.kernel.invocations.cancel(user, ticket.invocation.id);
    expect(await ticket.settled).toMatchObject({ status: "cancelled", package_version: "0.2.0" });
  }
  endCalls(fixture, { "0.2.0": ended("failed", "author_code") });
  for (let call = 0; call < 19; call++) await greet(fixture);
  expect(await listVersions(fixture)).toEqual(["0.2.0", "0.2.0"]);
  await greet(fixture);
  await expect.poll(() => listVersions(fixture), { timeout: 10_000 }).toEqual(["0.1.0", "0.1.0"]);
  expect((await listRollbacks(fixture))[0]!.details).toMatchObject({ reason: "20 of 20 calls failed." });
});

test("does not roll back a version after its trial or after an operator's change", async () => {
  const { fixture, bound } = await createBoundKernel();
  endCalls(fixture, { "0.2.0": ended("failed", "crashed") });
  await upgrade(fixture, "0.2.0", { trial: { seconds: 5 } });
  fixture.clock.wall_offset += 5_001;
  await greet(fixture);
  await fixture.kernel.bindings.rollback(admin, bound.binding_id);
  await upgrade(fixture, "0.2.0", { trial: { seconds: 0 } });
  expect(await fixture.kernel.bindings.get(admin, bound.binding_id)).not.toHaveProperty("trial");
  await greet(fixture);
  await fixture.kernel.bindings.rollback(admin, bound.binding_id);
  await upgrade(fixture, "0.2.0");
  // A later rollback of the trial would undo this stricter policy, so the change ends the trial.
  await fixture.kernel.bindings.patch(admin, bound.binding_id, { policy: { approval: "always" } }, undefined);
  expect(await fixture.kernel.bindings.get(admin, bound.binding_id)).not.toHaveProperty("trial");
  expect((await listRollbacks(fixture)).map(({ actor }) => actor)).toEqual(["admin", "admin"]);
});

verifies("bind.hot", "continues the trial after a crash of the gateway in the middle of it", async () => {
  const { fixture } = await createBoundKernel();
  await upgrade(fixture, "0.2.0");
  await fixture.crash();
  const next = await createTestKernel({ file: fixture.file });
  expect(await listVersions(next)).toEqual(["0.2.0", "0.2.0"]);
  endCalls(next, { "0.2.0": ended("failed", "launch_failed") });
  await greet(next);
  await expect.poll(() => listVersions(next), { timeout: 10_000 }).toEqual(["0.1.0", "0.1.0"]);
});

verifies("bind.rollout", "gives a version a growing share of the calls, and then all of them", async () => {
  const { fixture, bound } = await createBoundKernel();
  const first = await upgrade(fixture, "0.2.0", { percent: 10 });
  expect(first).toHaveLength(4);
  const share = first.find(({ share_of }) => share_of === bound.binding_id)!;
  expect(share).toMatchObject({
    package_version: "0.2.0",
    config: { team: "ops" },
    rollout: { traffic_percent: 10 },
    trial: { from_version: "0.1.0", until: null },
  });
  expect(share).not.toHaveProperty("previous");
  const countServed = async (calls: number) => {
    const counts: Record<string, number> = { "0.1.0": 0, "0.2.0": 0 };
    for (let call = 0; call < calls; call++) {
      const { package_version } = await greet(fixture);
      counts[package_version] = counts[package_version]! + 1;
    }
    return counts;
  };
  expect((await countServed(100))["0.2.0"]).toBeLessThan(40);
  const widened = await upgrade(fixture, "0.2.0", { percent: 90 });
  expect(widened.map(({ rollout }) => rollout.traffic_percent).toSorted((a, b) => a - b)).toEqual([
    90, 90, 100, 100,
  ]);
  expect(widened.map(({ binding_id }) => binding_id)).toContain(share.binding_id);
  expect((await countServed(100))["0.2.0"]).toBeGreaterThan(60);
  const all = await upgrade(fixture, "0.2.0");
  expect(all).toHaveLength(2);
  expect(all.find(({ binding_id }) => binding_id === bound.binding_id)).toMatchObject({
    package_version: "0.2.0",
    config: { team: "ops" },
    previous: { package_version: "0.1.0", shares: [share.binding_id] },
    trial: { until: expect.any(String) },
  });
  expect(await listBindings(fixture)).toHaveLength(2);
  expect(await countServed(5)).toEqual({ "0.1.0": 0, "0.2.0": 5 });
});

verifies(
  "bind.rollout",
  "finishes the calls to a share that wait in its queue when the rollout ends",
  async () => {
    const limited = [toolExport("greet", { max_concurrency: 1 }), toolExport("wave")];
    for (const end of ["complete", "rollback"] as const) {
      const { fixture } = await createBoundKernel(limited);
      const shares = await upgrade(fixture, "0.2.0", { percent: 99.99 });
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      let running = 0;
      fixture.runner.script = async () => {
        running++;
        await released;
        return ok();
      };
      const calls = [greet(fixture), greet(fixture), greet(fixture)];
      await until(() => running === 1);
      if (end === "complete") await upgrade(fixture, "0.2.0");
      else
        for (const { binding_id, share_of } of shares)
          if (share_of !== undefined) await fixture.kernel.bindings.rollback(admin, binding_id);
      // Gives the waiting calls time to check their binding. Each call checks it again before it starts.
      await new Promise((resolve) => setTimeout(resolve, 300));
      fixture.clock.monotonic_offset += 1_000;
      release();
      for (const call of await Promise.all(calls)) expect(call).toMatchObject({ status: "succeeded" });
    }
  },
);

verifies("bind.rollout", "sends no more calls to a share that crashed, and keeps the reason", async () => {
  const { fixture, bound } = await createBoundKernel();
  await upgrade(fixture, "0.2.0", { percent: 99.99 });
  endCalls(fixture, { "0.2.0": ended("failed", "handshake_failed") });
  await greet(fixture);
  await expect.poll(() => listRollbacks(fixture), { timeout: 10_000 }).toHaveLength(2);
  expect(await greet(fixture)).toMatchObject({ status: "succeeded", package_version: "0.1.0" });
  const shares = (await listBindings(fixture)).filter(({ share_of }) => share_of !== undefined);
  expect(shares).toMatchObject([
    { rollout: { traffic_percent: 0 }, rolled_back: { reason: "A call ended with handshake_failed." } },
    { rollout: { traffic_percent: 0 } },
  ]);
  // The next upgrade removes the share.
  await install(fixture, "0.3.0");
  const moved = await upgrade(fixture, "0.3.0");
  expect(moved.map(({ package_version }) => package_version)).toEqual(["0.3.0", "0.3.0"]);
  expect((await fixture.kernel.bindings.get(admin, bound.binding_id)).package_version).toBe("0.3.0");
});

test("refuses a second rollout while another one is running, and a share that does not start", async () => {
  const { fixture } = await createBoundKernel();
  fixture.runner.probe = async () => {
    throw new BackplaneError("handshake_failed", "It wrote nothing.");
  };
  await expect(upgrade(fixture, "0.2.0", { percent: 10 })).rejects.toMatchObject({ code: "binding.invalid" });
  expect(await listBindings(fixture)).toHaveLength(2);
  delete fixture.runner.probe;
  await upgrade(fixture, "0.2.0", { percent: 10 });
  await install(fixture, "0.3.0");
  await expect(upgrade(fixture, "0.3.0")).rejects.toMatchObject({
    code: "binding.conflict",
    message: "acme/devkit 0.2.0 gets 10% of the calls in a rollout.",
  });
});

test.each([1, 2, 3])(
  "does not roll a trial back to a version whose content is replaced after read %i of the plan",
  async (replace_after) => {
    const { fixture, bound } = await createBoundKernel();
    await upgrade(fixture, "0.2.0");
    const { packages } = fixture.store;
    const find = packages.find.bind(packages);
    let replaced = false;
    let reads = 0;
    vi.spyOn(packages, "find").mockImplementation(async (...args) => {
      const pack = await find(...args);
      // The gateway first compares the content, then reads the package for its plan.
      if (args[2] !== "0.1.0" || ++reads !== replace_after) return pack;
      replaced = true;
      const { items } = await fixture.kernel.packages.list(admin, { limit: 5 });
      await fixture.kernel.packages.remove(admin, items.find(({ version }) => version === "0.1.0")!.id);
      await install(fixture, "0.1.0", [...TOOLS, toolExport("other")]);
      return pack;
    });
    endCalls(fixture, { "0.2.0": ended("failed", "crashed") });
    await greet(fixture);
    await until(() => fixture.logged.some(({ message }) => message.startsWith("could not roll back")));
    expect(replaced).toBe(true);
    expect(await listVersions(fixture)).toEqual(["0.2.0", "0.2.0"]);
    expect((await fixture.kernel.bindings.get(admin, bound.binding_id)).rollback_failed).toMatchObject({
      problem: "acme/devkit 0.1.0 was installed again with different content than before the upgrade.",
    });
  },
);

verifies(
  "upgrade.moves",
  "does not roll a trial back if the previous version now has different bytes, and reports how to proceed",
  async () => {
    for (const reinstalled of [true, false]) {
      const { fixture, bound } = await createBoundKernel();
      await upgrade(fixture, "0.2.0");
      const { items } = await fixture.kernel.packages.list(admin, { limit: 5 });
      await fixture.kernel.packages.remove(admin, items.find(({ version }) => version === "0.1.0")!.id);
      if (reinstalled) await install(fixture, "0.1.0", [...TOOLS, toolExport("other")]);
      endCalls(fixture, { "0.2.0": ended("failed", "crashed") });
      const call = await greet(fixture);
      expect(call).toMatchObject({ status: "failed", package_version: "0.2.0" });
      const log = () => fixture.logged.find(({ message }) => message.startsWith("could not roll back"));
      await until(() => log() !== undefined);
      expect(await listVersions(fixture)).toEqual(["0.2.0", "0.2.0"]);
      const fix = reinstalled
        ? "Check the content of 0.1.0 (backplane plugin info acme/devkit@0.1.0), or upgrade to another version. If you trust it: backplane plugin rollback acme/devkit"
        : "Install acme/devkit 0.1.0 again, or upgrade to another version. Then: backplane plugin rollback acme/devkit";
      const problem = reinstalled
        ? "acme/devkit 0.1.0 was installed again with different content than before the upgrade."
        : "acme/devkit 0.1.0 is no longer installed.";
      expect(log()!.fields).toMatchObject({ fix, invocation_id: call.id });
      const stuck = await fixture.kernel.bindings.get(admin, bound.binding_id);
      expect(stuck.rollback_failed).toMatchObject({ problem, fix, invocation_id: call.id });
      expect(await fixture.kernel.bindings.listWaitingUpgrades(admin)).toEqual([
        {
          waits_for: "rollback",
          package_id: PACKAGE,
          version: "0.2.0",
          other_version: "0.1.0",
          scope: bound.scope,
          binding_ids: expect.toSatisfy((ids: string[]) => ids.length === 2),
          since: expect.any(String),
          message: `acme/devkit 0.2.0 failed its trial and is still in use. A call ended with crashed. The gateway could not return to 0.1.0: ${problem}`,
          fix,
        },
      ]);
      const audit = await fixture.store.audit.list(
        admin.scope,
        { action: "binding.rollback_failed" },
        { limit: 9 },
      );
      expect(audit.items).toHaveLength(2);
      // Further crashes change nothing, and the next upgrade clears the failed rollback.
      await greet(fixture);
      expect((await fixture.kernel.bindings.get(admin, bound.binding_id)).generation).toBe(stuck.generation);
      await install(fixture, "0.3.0");
      await upgrade(fixture, "0.3.0");
      expect(await fixture.kernel.bindings.listWaitingUpgrades(admin)).toEqual([]);
    }
  },
);

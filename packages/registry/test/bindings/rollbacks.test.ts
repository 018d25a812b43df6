/** Rollbacks of a whole package, and shares of a rollout that follow their binding. */
import type { Binding, BindingUpgrade } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const PACKAGE = "acme/devkit";
const TOOLS = [toolExport("greet"), toolExport("wave")];

/** `greet` and `wave` are bound in version 0.1.0, and version 0.2.0 is installed. */
async function createBoundKernel() {
  const fixture = await createTestKernel();
  const bound = await fixture.bind(manifest(TOOLS), { config: { team: "ops" } });
  await bindTool(fixture, "wave", "0.1.0");
  await install(fixture, "0.2.0");
  return { fixture, bound };
}

const bindTool = (fixture: TestKernel, export_id: string, package_version: string, org_wide = false) =>
  fixture.kernel.bindings.create(admin, { package_id: PACKAGE, package_version, export_id, org_wide });

async function install(fixture: TestKernel, version: string): Promise<void> {
  await fixture.kernel.packages.install(admin, fixture.importer.add({ ...manifest(TOOLS), version }));
}

const upgrade = (fixture: TestKernel, package_version: string, more: Partial<BindingUpgrade> = {}) =>
  fixture.kernel.bindings.upgrade(admin, { package_id: PACKAGE, package_version, ...more });
const rollBack = (fixture: TestKernel, org_wide = false, caller: Caller = admin) =>
  fixture.kernel.bindings.rollbackPackage(caller, { package_id: PACKAGE, org_wide });
const greet = (fixture: TestKernel) => fixture.call({ export_id: "greet", input: {} });

async function listBindings(fixture: TestKernel): Promise<Binding[]> {
  return (await fixture.kernel.bindings.list(admin, {}, { limit: 50 })).items;
}

async function listVersions(fixture: TestKernel, project_id: string | null = admin.scope.project_id) {
  const bindings = await listBindings(fixture);
  return bindings
    .filter(({ scope }) => scope.project_id === project_id)
    .map(({ package_version }) => package_version);
}

async function findShare(fixture: TestKernel, main: Binding): Promise<Binding> {
  return (await listBindings(fixture)).find(({ share_of }) => share_of === main.binding_id)!;
}

verifies(
  "upgrade.moves",
  "rolls all bindings of a package back once, however often it is requested",
  async () => {
    const { fixture } = await createBoundKernel();
    await upgrade(fixture, "0.2.0");
    const attempts = await Promise.allSettled([rollBack(fixture), rollBack(fixture)]);
    expect(attempts.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await listVersions(fixture)).toEqual(["0.1.0", "0.1.0"]);
    await expect(rollBack(fixture)).rejects.toMatchObject({
      code: "request.invalid",
      message: "acme/devkit was already rolled back from 0.2.0 to 0.1.0.",
      fix: "To use 0.2.0 again: backplane plugin upgrade acme/devkit@0.2.0",
    });
    // Another upgrade can be rolled back again.
    await upgrade(fixture, "0.2.0");
    expect((await rollBack(fixture)).map(({ package_version }) => package_version)).toEqual([
      "0.1.0",
      "0.1.0",
    ]);
  },
);

verifies("upgrade.moves", "rolls back all bindings of a package or none", async () => {
  const fixture = await createTestKernel();
  const permissions = {
    network: "none",
    filesystem: "none",
    gateway_api_scopes: [],
    secret_slots: ["token"],
  };
  const exports = [toolExport("greet"), toolExport("wave", { permissions })];
  await fixture.kernel.secrets.put(admin, "token", "value-of-the-token");
  await fixture.bind(manifest(exports));
  await fixture.kernel.bindings.create(admin, {
    package_id: PACKAGE,
    package_version: "0.1.0",
    export_id: "wave",
    secrets: { token: "secret://org_local/token" },
  });
  await install(fixture, "0.2.0");
  await upgrade(fixture, "0.2.0");
  // Version 0.2.0 has no slot, so nothing uses the secret.
  await fixture.kernel.secrets.remove(admin, "token");
  for (let attempt = 0; attempt < 2; attempt++) {
    await expect(rollBack(fixture)).rejects.toMatchObject({ code: "binding.invalid" });
    expect(await listVersions(fixture)).toEqual(["0.2.0", "0.2.0"]);
  }
});

verifies(
  ["upgrade.moves", "bind.hot"],
  "does not return to a version that the gateway has rolled back",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    fixture.runner.script = ({ request }) =>
      request.package.version === "0.2.0" ? ended("failed", "crashed") : ok();
    await upgrade(fixture, "0.2.0");
    await greet(fixture);
    await expect.poll(() => listVersions(fixture), { timeout: 10_000 }).toEqual(["0.1.0", "0.1.0"]);
    const refused = {
      code: "request.invalid",
      message: expect.stringMatching(/rolled back from 0\.2\.0 to 0\.1\.0 by the gateway .*crashed/),
      fix: expect.stringContaining("backplane plugin upgrade acme/devkit@0.2.0"),
    };
    await expect(rollBack(fixture)).rejects.toMatchObject(refused);
    await expect(fixture.kernel.bindings.rollback(admin, bound.binding_id)).rejects.toMatchObject(refused);
    expect(await listVersions(fixture)).toEqual(["0.1.0", "0.1.0"]);
  },
);

verifies("upgrade.moves", "rolls back only the bindings of the requested scope", async () => {
  const { fixture } = await createBoundKernel();
  await bindTool(fixture, "greet", "0.1.0", true);
  await upgrade(fixture, "0.2.0");
  await upgrade(fixture, "0.2.0", { org_wide: true });
  expect(await rollBack(fixture, false, user)).toHaveLength(2);
  expect(await listVersions(fixture)).toEqual(["0.1.0", "0.1.0"]);
  expect(await listVersions(fixture, null)).toEqual(["0.2.0"]);
  expect(await rollBack(fixture, true)).toHaveLength(1);
  expect(await listVersions(fixture, null)).toEqual(["0.1.0"]);
});

verifies(
  "bind.rollout",
  "ends a rollout for all bindings of a package, and then has nothing left to roll back",
  async () => {
    const { fixture } = await createBoundKernel();
    await upgrade(fixture, "0.2.0", { percent: 50 });
    const ended_shares = await rollBack(fixture);
    expect(ended_shares.map(({ rollout }) => rollout.traffic_percent)).toEqual([0, 0]);
    await expect(rollBack(fixture)).rejects.toMatchObject({ code: "binding.not_found" });
    expect(await greet(fixture)).toMatchObject({ package_version: "0.1.0" });
  },
);

verifies("bind.rollout", "sends calls to a share even if its version is older", async () => {
  const { fixture } = await createBoundKernel();
  await upgrade(fixture, "0.2.0");
  await upgrade(fixture, "0.1.0", { percent: 99.99 });
  expect(await greet(fixture)).toMatchObject({ package_version: "0.1.0" });
});

verifies("bind.rollout", "disables and enables the shares of a binding together with it", async () => {
  const { fixture, bound } = await createBoundKernel();
  await upgrade(fixture, "0.2.0", { percent: 99.99 });
  const setStatus = (status: "active" | "disabled") =>
    fixture.kernel.bindings.patch(admin, bound.binding_id, { status }, undefined);
  await setStatus("disabled");
  expect((await findShare(fixture, bound)).status).toBe("disabled");
  await expect(greet(fixture)).rejects.toMatchObject({ code: "export.not_found" });
  await setStatus("active");
  expect(await greet(fixture)).toMatchObject({ package_version: "0.2.0" });
});

verifies(
  "bind.rollout",
  "refuses to change the settings of a binding whose share would keep the old ones",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    const changes = [
      { policy: { approval: "always" } },
      { config: { team: "dev" } },
      { secrets: {} },
      { package_version: "0.2.0" },
    ] as const;
    await upgrade(fixture, "0.2.0", { percent: 50 });
    const share = await findShare(fixture, bound);
    for (const change of changes)
      await expect(
        fixture.kernel.bindings.patch(admin, bound.binding_id, change, undefined),
      ).rejects.toMatchObject({
        code: "binding.conflict",
        details: { share: share.binding_id },
        fix: expect.stringContaining("backplane plugin rollback acme/devkit"),
      });
    await rollBack(fixture);
    const changed = await fixture.kernel.bindings.patch(
      admin,
      bound.binding_id,
      { policy: { approval: "always" } },
      undefined,
    );
    expect(changed.policy.approval).toBe("always");
  },
);

test("does not start a rollout if the settings change while the new version starts", async () => {
  const { fixture, bound } = await createBoundKernel();
  // The change is stored while the upgrade starts the new version.
  fixture.runner.probe = async () => {
    delete fixture.runner.probe;
    const policy = { approval: "always" } as const;
    await fixture.kernel.bindings.patch(admin, bound.binding_id, { policy }, undefined);
  };
  await expect(upgrade(fixture, "0.2.0", { percent: 50 })).rejects.toMatchObject({
    code: "binding.conflict",
  });
  expect(await listBindings(fixture)).toHaveLength(2);
});

verifies(
  "bind.rollout",
  "removes the shares of a binding together with it, so that no call goes to a share alone",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    await upgrade(fixture, "0.2.0", { percent: 50 });
    await fixture.kernel.bindings.remove(admin, bound.binding_id);
    const left = await listBindings(fixture);
    expect(left.map(({ export_id }) => export_id)).toEqual(["wave", "wave"]);
    const completed = await upgrade(fixture, "0.2.0");
    expect(completed).toMatchObject([{ export_id: "wave", package_version: "0.2.0" }]);
  },
);

verifies("bind.rollout", "binds another version after a rollout was rolled back", async () => {
  for (const bindNext of [
    (fixture: TestKernel) => bindTool(fixture, "greet", "0.2.0"),
    (fixture: TestKernel) => upgrade(fixture, "0.2.0"),
    async (fixture: TestKernel, { binding_id }: Binding) =>
      await fixture.kernel.bindings.patch(admin, binding_id, { package_version: "0.2.0" }, undefined),
    (fixture: TestKernel) =>
      fixture.kernel.installations.install(
        admin,
        fixture.importer.add({ ...manifest(TOOLS), version: "0.2.0" }),
        {
          bind: true,
        },
      ),
  ]) {
    const { fixture, bound } = await createBoundKernel();
    await upgrade(fixture, "0.2.0", { percent: 50 });
    await rollBack(fixture);
    await bindNext(fixture, bound);
    const greet_bindings = (await listBindings(fixture)).filter(({ export_id }) => export_id === "greet");
    expect(greet_bindings).toMatchObject([{ binding_id: bound.binding_id, package_version: "0.2.0" }]);
  }
});

test("refuses upgrade settings for an unknown export, and a trial period for a share of the calls", async () => {
  const { fixture } = await createBoundKernel();
  const policy = { approval: "always" } as const;
  await expect(upgrade(fixture, "0.2.0", { bindings: { typo: { policy } } })).rejects.toMatchObject({
    code: "request.invalid",
    details: { issues: [{ path: "body.bindings.typo" }] },
    fix: "Use one of: greet, wave.",
  });
  await expect(upgrade(fixture, "0.2.0", { percent: 10, trial: { seconds: 5 } })).rejects.toMatchObject({
    code: "request.invalid",
  });
});

/** Changes to a binding apply to the next call, and a version that does not start changes nothing (bind.hot). */
import { BackplaneError, type ErrorCode } from "@backplane/contract";
import type { DescribeRequest } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const TOOL = toolExport("greet", { permissions: { secret_slots: ["token"] } });

async function createBoundKernel(status: "active" | "disabled" = "active") {
  const fixture = await createTestKernel();
  await fixture.kernel.secrets.put(admin, "token", "first-value");
  const secrets = { token: "secret://org_local/token" };
  const bound = await fixture.bind(manifest([TOOL]), { secrets, status });
  const patch = (body: object) => fixture.kernel.bindings.patch(admin, bound.binding_id, body, undefined);
  return { fixture, bound, patch };
}

async function install(fixture: TestKernel, version: string, exports = [TOOL]) {
  const source = fixture.importer.add({ ...manifest(exports), version });
  await fixture.kernel.packages.install(admin, source);
  return source;
}

/**
 * Makes the probe of a version throw its entry in `failures`, if any. Returns the list to which each probe adds its
 * request.
 */
function failProbes(fixture: TestKernel, failures: Record<string, ErrorCode | null>): DescribeRequest[] {
  const probed: DescribeRequest[] = [];
  fixture.runner.probe = async (request) => {
    probed.push(request);
    const code = failures[request.package.version];
    if (code != null) throw new BackplaneError(code, "It wrote nothing.");
  };
  return probed;
}

verifies(
  "bind.hot",
  "applies a new status, config or secret to the next call, while a call in flight finishes",
  async () => {
    const { fixture, patch } = await createBoundKernel();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const settings: unknown[] = [];
    fixture.runner.script = async ({ request }) => {
      settings.push([request.context.config, request.context.secrets.token]);
      if (settings.length === 1) await released;
      return ok();
    };
    const running = fixture.call({ export_id: "greet" });
    while (settings.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    await patch({ config: { team: "ops" } });
    expect(await fixture.call({ export_id: "greet" })).toMatchObject({ status: "succeeded" });
    await fixture.kernel.secrets.put(admin, "token", "second-value");
    expect(await fixture.call({ export_id: "greet" })).toMatchObject({ status: "succeeded" });
    await patch({ status: "disabled" });
    await expect(fixture.call({ export_id: "greet" })).rejects.toMatchObject({
      code: "export.not_found",
      message: expect.stringContaining("disabled"),
    });
    release();
    expect(await running).toMatchObject({ status: "succeeded" });
    await patch({ status: "active" });
    expect(await fixture.call({ export_id: "greet" })).toMatchObject({ status: "succeeded" });
    const [ops, first, second] = [{ team: "ops" }, "first-value", "second-value"];
    expect(settings).toEqual([
      [{}, first],
      [ops, first],
      [ops, second],
      [ops, second],
    ]);
    // Each generation has its own processes.
    const keys = fixture.runner.requests.map(({ pool_key }) => pool_key);
    expect([keys[0] === keys[1], keys[1] === keys[2], keys[2] === keys[3]]).toEqual([false, true, false]);
  },
);

verifies("bind.hot", "keeps the version in use when the next one fails its handshake", async () => {
  const { fixture, bound, patch } = await createBoundKernel();
  const probed = failProbes(fixture, { "0.2.0": "handshake_failed", "0.3.0": null });
  const source = await install(fixture, "0.2.0");
  const { package_id, export_id } = bound;
  const { bindings, installations, packages } = fixture.kernel;
  const next = { package_id, package_version: "0.2.0" };
  const refused = {
    code: "binding.invalid",
    message: `${package_id} 0.2.0 does not start (handshake_failed): It wrote nothing. 0.1.0 stays in use.`,
    fix: expect.stringContaining(`backplane binding disable ${bound.binding_id}`),
    details: { code: "handshake_failed" },
  };
  await expect(bindings.upgrade(admin, next)).rejects.toMatchObject(refused);
  await expect(bindings.create(admin, { ...next, export_id })).rejects.toMatchObject(refused);
  await expect(patch({ package_version: "0.2.0" })).rejects.toMatchObject(refused);
  const { items } = await packages.list(admin, { limit: 5 });
  await packages.remove(admin, items.find(({ version }) => version === "0.2.0")!.id);
  await expect(installations.install(admin, source, { bind: true })).rejects.toMatchObject(refused);
  expect((await packages.list(admin, { limit: 5 })).items.map(({ version }) => version)).toEqual(["0.1.0"]);
  expect(await bindings.get(admin, bound.binding_id)).toEqual(bound);
  expect(fixture.runner.retired).toEqual([]);
  expect(await fixture.call({ export_id: "greet" })).toMatchObject({ package_version: "0.1.0" });
  // The process that was tried had the settings of the binding.
  expect(probed).toHaveLength(4);
  expect(probed[0]!.context).toMatchObject({ secrets: { token: "first-value" } });
  await install(fixture, "0.3.0");
  await bindings.upgrade(admin, { package_id, package_version: "0.3.0" });
  expect(await fixture.call({ export_id: "greet" })).toMatchObject({ package_version: "0.3.0" });
});

test("starts a version once for all its exports, and not for a rollback or a change without a new version", async () => {
  const { fixture, bound, patch } = await createBoundKernel();
  const probed = failProbes(fixture, {});
  const both = [TOOL, toolExport("wave")];
  await install(fixture, "0.2.0", both);
  await patch({ config: { team: "ops" } });
  expect(probed).toEqual([]);
  await fixture.kernel.bindings.upgrade(admin, { package_id: bound.package_id, package_version: "0.2.0" });
  await fixture.kernel.bindings.create(admin, {
    package_id: bound.package_id,
    package_version: "0.2.0",
    export_id: "wave",
  });
  await install(fixture, "0.3.0", both);
  await fixture.kernel.bindings.upgrade(admin, { package_id: bound.package_id, package_version: "0.3.0" });
  expect(probed.map((request) => request.package.version)).toEqual(["0.2.0", "0.3.0"]);
  failProbes(fixture, { "0.2.0": "crashed" });
  expect(await fixture.kernel.bindings.rollback(admin, bound.binding_id)).toMatchObject({
    package_version: "0.2.0",
  });
});

test("upgrades a disabled binding, and a binding that the host currently cannot start", async () => {
  for (const [status, code] of [
    ["disabled", "crashed"],
    ["active", "sandbox.unavailable"],
    ["active", "slow_start"],
  ] as const) {
    const { fixture, bound } = await createBoundKernel(status);
    failProbes(fixture, { "0.2.0": code });
    await install(fixture, "0.2.0");
    const next = { package_id: bound.package_id, package_version: "0.2.0" };
    expect(await fixture.kernel.bindings.upgrade(admin, next)).toMatchObject([{ package_version: "0.2.0" }]);
  }
});

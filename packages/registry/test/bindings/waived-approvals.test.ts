/** `policy.approval = never`: who may set it, for which risk, and when a binding loses it. */
import type { Manifest } from "@backplane/contract";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import {
  admin,
  createTestKernel,
  owner,
  type TestKernel,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const NEVER = { approval: "never" as const };
const PACKAGE = { package_id: "acme/devkit" };

const writerTool = (version = "0.1.0", more: Record<string, unknown> = {}, part: object = {}): Manifest =>
  manifest([toolExport("write", more, { effect_class: "idempotent_write", ...part })], { version });

async function needsApproval({ kernel }: TestKernel): Promise<boolean> {
  const ticket = await kernel.invocations.invoke(user, { export_id: "write" }, { context: "conversation" });
  return ticket.invocation.status === "waiting_approval";
}

async function upgrade(fixture: TestKernel, to: Manifest, policy?: object, caller = admin) {
  await fixture.kernel.packages.install(admin, fixture.importer.add(to));
  const settings = policy === undefined ? {} : { bindings: { write: { policy } } };
  const body = { ...PACKAGE, package_version: to.version, ...settings };
  return (await fixture.kernel.bindings.upgrade(caller, body))[0]!;
}

verifies(
  "allow.rules",
  "runs calls to a binding with approval = never up to the policy's risk limit, and lets only an admin set it",
  async () => {
    const fixture = await createTestKernel();
    const { binding_id } = await fixture.bind(writerTool());
    const { bindings, policy } = fixture.kernel;
    expect(await needsApproval(fixture)).toBe(true);
    const by_user = bindings.patch(user, binding_id, { policy: NEVER }, undefined);
    await expect(by_user).rejects.toMatchObject({ code: "policy.denied" });
    await bindings.patch(admin, binding_id, { policy: NEVER }, undefined);
    expect(await needsApproval(fixture)).toBe(false);
    // A user may change other settings of such a binding.
    await bindings.patch(user, binding_id, { policy: { ...NEVER, timeout_ms: 5_000 } }, undefined);
    await policy.patch(owner, "org", { lasting_approvals: "low" });
    expect(await needsApproval(fixture)).toBe(true);
  },
);

test.each([
  [
    "a critical tool",
    { risk: "critical" },
    "full" as const,
    "write is critical, and critical calls always need approval",
  ],
  [
    "a tool above the policy's risk limit",
    {},
    "low" as const,
    "the risk of write is medium, and the policy's lasting_approvals is low",
  ],
])("refuses approval = never for %s", async (_what, part, lasting_approvals, reason) => {
  const fixture = await createTestKernel();
  await fixture.kernel.policy.patch(owner, "org", { lasting_approvals });
  await expect(fixture.bind(writerTool("0.1.0", {}, part), { policy: NEVER })).rejects.toMatchObject({
    code: "binding.invalid",
    message: expect.stringContaining(reason),
  });
});

test("refuses approval = never for a whole package with a critical tool", async () => {
  const fixture = await createTestKernel();
  const content = manifest([toolExport("read"), toolExport("wipe", {}, { risk: "critical" })]);
  await expect(fixture.bind(content, { export_id: "*", policy: NEVER })).rejects.toMatchObject({
    message: expect.stringContaining("wipe is critical"),
  });
  await fixture.kernel.policy.patch(owner, "org", { risks: { wipe: "high" } });
  expect(
    (
      await fixture.kernel.bindings.create(admin, {
        ...PACKAGE,
        package_version: "0.1.0",
        export_id: "*",
        policy: NEVER,
      })
    ).policy,
  ).toEqual(NEVER);
});

test("keeps approval = never when an admin upgrades to a version that adds no rights", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(writerTool(), { policy: NEVER });
  const moved = await upgrade(fixture, writerTool("0.2.0"), undefined, admin);
  expect(moved.policy.approval).toBe("never");
  expect(moved.previous!.trust_dropped).toEqual([]);
  expect(await needsApproval(fixture)).toBe(false);
});

verifies(
  "upgrade.moves",
  "drops approval = never when somebody who may not set it changes the version",
  async () => {
    const fixture = await createTestKernel();
    const { binding_id } = await fixture.bind(writerTool(), { policy: NEVER });
    const moved = await upgrade(fixture, writerTool("0.2.0"), undefined, user);
    expect(moved.policy.approval).toBeUndefined();
    expect(moved.previous!.trust_dropped).toEqual(["approval"]);
    expect(await needsApproval(fixture)).toBe(true);
    await fixture.kernel.bindings.patch(admin, binding_id, { policy: NEVER }, undefined);
    const { bindings } = fixture.kernel;
    await fixture.kernel.packages.install(admin, fixture.importer.add(writerTool("0.3.0")));
    const patched = await bindings.patch(user, binding_id, { package_version: "0.3.0" }, undefined);
    expect(patched.policy.approval).toBeUndefined();
    // These bytes had the waiver before.
    expect((await bindings.rollback(admin, binding_id)).policy.approval).toBe("never");
  },
);

test("drops approval = never when the new version is critical, and a rollback by an admin restores it", async () => {
  const fixture = await createTestKernel();
  const { binding_id } = await fixture.bind(writerTool(), { policy: NEVER });
  const moved = await upgrade(fixture, writerTool("0.2.0", {}, { risk: "critical" }), undefined, admin);
  expect(moved.policy.approval).toBeUndefined();
  expect(moved.previous!.trust_dropped).toEqual(["approval"]);
  expect((await fixture.kernel.bindings.rollback(user, binding_id)).policy.approval).toBeUndefined();
  await upgrade(fixture, writerTool("0.3.0"), NEVER);
  await upgrade(fixture, writerTool("0.4.0", {}, { risk: "critical" }));
  expect((await fixture.kernel.bindings.rollback(admin, binding_id)).policy.approval).toBe("never");
});

test("drops approval = never when the new version has a wider grant, unless an admin sets it for that version", async () => {
  const fixture = await createTestKernel();
  await fixture.kernel.secrets.put(admin, "token", "hunter2");
  const { binding_id } = await fixture.bind(writerTool(), { policy: NEVER });
  const more = { permissions: { secret_slots: ["token"] } };
  const secrets = { token: "secret://org_local/token" };
  await fixture.kernel.packages.install(admin, fixture.importer.add(writerTool("0.2.0", more)));
  const upgradeWith = (caller: typeof admin, settings: object) =>
    fixture.kernel.bindings.upgrade(caller, {
      ...PACKAGE,
      package_version: "0.2.0",
      bindings: { write: { secrets, ...settings } },
    });
  await expect(upgradeWith(user, { policy: NEVER })).rejects.toMatchObject({ code: "policy.denied" });
  const [moved] = await upgradeWith(admin, {});
  expect(moved!.policy.approval).toBeUndefined();
  expect(moved!.previous!.trust_dropped).toEqual(["approval"]);
  await fixture.kernel.bindings.rollback(admin, binding_id);
  const [upgraded] = await upgradeWith(admin, { policy: NEVER });
  expect(upgraded!.policy.approval).toBe("never");
});

test("lets only an admin widen the grant of a binding with approval = never", async () => {
  const fixture = await createTestKernel();
  const permissions = { network: "egress", allowed_domains: ["a.example.com", "b.example.com"] };
  const domains = (...allowed_domains: string[]) => ({ policy: { ...NEVER, allowed_domains } });
  const { binding_id } = await fixture.bind(writerTool("0.1.0", { permissions }), domains("a.example.com"));
  const patch = (caller: typeof admin) =>
    fixture.kernel.bindings.patch(caller, binding_id, domains("a.example.com", "b.example.com"), undefined);
  await expect(patch(user)).rejects.toMatchObject({ code: "policy.denied" });
  expect((await patch(admin)).policy.approval).toBe("never");
});

test("does not copy approval = never to a binding that shares the traffic", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(writerTool(), { policy: { ...NEVER, timeout_ms: 5_000 } });
  await fixture.kernel.packages.install(admin, fixture.importer.add(writerTool("0.2.0")));
  const canary = await fixture.kernel.bindings.create(user, {
    ...PACKAGE,
    package_version: "0.2.0",
    export_id: "write",
    rollout: { traffic_percent: 10 },
  });
  expect(canary.policy).toEqual({ timeout_ms: 5_000 });
});

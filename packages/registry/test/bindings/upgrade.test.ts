/** A binding moves to another version of its package with its policy and without the trust in its old version. */

import type { Binding } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const PACKAGE = "acme/devkit";
const SECRET = { token: "secret://org_local/token" };
const operator: Caller = { ...admin, actor: "key_operator", admin: false };

const toolWithSlot = (id: string, more: object = {}) =>
  toolExport(id, { permissions: { secret_slots: ["token"], ...more } });

async function createBoundKernel(
  first = manifest([toolWithSlot("greet")]),
  body: Partial<Parameters<TestKernel["bind"]>[1]> = {},
): Promise<{ fixture: TestKernel; bound: Binding }> {
  const fixture = await createTestKernel();
  await fixture.kernel.secrets.put(admin, "token", "s3cr3t-value");
  const settings = {
    config: { team: "ops" },
    secrets: SECRET,
    policy: { approval: "always" as const, timeout_ms: 5_000 },
    ...body,
  };
  return { fixture, bound: await fixture.bind(first, settings) };
}

async function install(
  fixture: TestKernel,
  version: string,
  exports = [toolWithSlot("greet")],
  schemas = {},
) {
  const content = { ...manifest(exports), version };
  await fixture.kernel.packages.install(admin, fixture.importer.add(content, schemas));
}

const bindVersion = (fixture: TestKernel, package_version: string, more: object = {}, caller = admin) =>
  fixture.kernel.bindings.create(caller, {
    package_id: PACKAGE,
    package_version,
    export_id: "greet",
    ...more,
  });
const listBindings = async (fixture: TestKernel) =>
  (await fixture.kernel.bindings.list(admin, {}, { limit: 50 })).items;
const listAuditDetails = async (fixture: TestKernel, action: string) =>
  (await fixture.deps.store.audit.list(admin.scope, { action }, { limit: 5 })).items.map(
    ({ details }) => details,
  );

verifies(
  "upgrade.moves",
  "moves the existing binding, with its policy, when the next version is bound",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    await install(fixture, "0.2.0");
    const moved = await bindVersion(fixture, "0.2.0");
    expect(moved).toMatchObject({
      binding_id: bound.binding_id,
      package_version: "0.2.0",
      generation: bound.generation + 1,
      config: { team: "ops" },
      secrets: SECRET,
      policy: { approval: "always", timeout_ms: 5_000 },
      rollout: { traffic_percent: 100 },
      previous: { package_version: "0.1.0", trust_dropped: [], permissions_held: [] },
    });
    expect(await listBindings(fixture)).toEqual([moved]);
    // The policy applies to the call.
    const ticket = await fixture.kernel.invocations.invoke(user, { export_id: "greet", input: {} });
    expect((await fixture.kernel.invocations.get(user, ticket.id)).status).toBe("waiting_approval");
  },
);

verifies("upgrade.moves", "copies the policy to a binding that takes a share of the calls", async () => {
  const { fixture, bound } = await createBoundKernel();
  await install(fixture, "0.2.0");
  const canary = await bindVersion(fixture, "0.2.0", { rollout: { traffic_percent: 10 } });
  expect(canary.binding_id).not.toBe(bound.binding_id);
  expect(canary).toMatchObject({
    config: bound.config,
    secrets: SECRET,
    policy: bound.policy,
    rollout: { traffic_percent: 10 },
  });
  // The share gets no more permissions than the rest.
  await fixture.kernel.bindings.remove(admin, canary.binding_id);
  await install(fixture, "0.2.1", [
    toolWithSlot("greet", { network: "egress", allowed_domains: ["b.example"] }),
  ]);
  const wider = await bindVersion(fixture, "0.2.1", { rollout: { traffic_percent: 10 } });
  expect(wider.policy).toEqual({ ...bound.policy, permissions: { network: "none" } });
  // The request does not say which of the two bindings to move.
  await install(fixture, "0.3.0");
  await expect(bindVersion(fixture, "0.3.0")).rejects.toMatchObject({ code: "binding.conflict" });
});

describe("trust in the old version", () => {
  const TRUSTED = { policy: { approval: "always", host_target: true, class: "worker" } } as const;

  verifies("upgrade.moves", "is dropped, even when an admin changes only the version", async () => {
    const { fixture, bound } = await createBoundKernel(undefined, TRUSTED);
    expect(bound).toMatchObject({ policy: TRUSTED.policy, class_lowered_by: "admin" });
    await install(fixture, "0.2.0");
    const moved = await fixture.kernel.bindings.patch(
      admin,
      bound.binding_id,
      { package_version: "0.2.0" },
      1,
    );
    expect(moved.policy).toEqual({ approval: "always" });
    expect(moved).toMatchObject({
      class_lowered_by: null,
      previous: { trust_dropped: ["host_target", "class"] },
    });
    expect(await listAuditDetails(fixture, "binding.change")).toMatchObject([
      { from_version: "0.1.0", trust_dropped: ["host_target", "class"] },
    ]);
  });

  verifies("upgrade.moves", "does not prevent an operator from upgrading", async () => {
    const { fixture } = await createBoundKernel(undefined, TRUSTED);
    await install(fixture, "0.2.0");
    const [moved] = await fixture.kernel.bindings.upgrade(operator, {
      package_id: PACKAGE,
      package_version: "0.2.0",
    });
    expect(moved!.policy).toEqual({ approval: "always" });
    expect(await listAuditDetails(fixture, "binding.upgrade")).toMatchObject([
      { from_version: "0.1.0", trust_dropped: ["host_target", "class"] },
    ]);
  });

  test("is kept if the admin names it together with the version", async () => {
    const { fixture, bound } = await createBoundKernel(undefined, TRUSTED);
    await install(fixture, "0.2.0");
    const body = { package_version: "0.2.0", changes: { policy: TRUSTED.policy } };
    const moved = await fixture.kernel.bindings.patch(admin, bound.binding_id, body, 1);
    expect(moved).toMatchObject({ policy: TRUSTED.policy, previous: { trust_dropped: [] } });
  });
});

describe("rollback", () => {
  verifies("upgrade.moves", "restores the settings of the previous version", async () => {
    const { fixture, bound } = await createBoundKernel();
    await install(fixture, "0.2.0");
    await bindVersion(fixture, "0.2.0", { config: { team: "dev" }, policy: { timeout_ms: 9_000 } });
    const rolled_back = await fixture.kernel.bindings.rollback(operator, bound.binding_id);
    expect(rolled_back).toMatchObject({
      package_version: "0.1.0",
      generation: 3,
      config: { team: "ops" },
      policy: bound.policy,
      secrets: SECRET,
      previous: { package_version: "0.2.0", config: { team: "dev" } },
    });
    // A second rollback undoes the first.
    expect(await fixture.kernel.bindings.rollback(operator, bound.binding_id)).toMatchObject({
      package_version: "0.2.0",
      config: { team: "dev" },
    });
    expect(await listAuditDetails(fixture, "binding.rollback")).toHaveLength(2);
  });

  verifies(
    "upgrade.moves",
    "treats other content under the previous version number as a new version",
    async () => {
      const { fixture, bound } = await createBoundKernel();
      await install(fixture, "0.2.0");
      await bindVersion(fixture, "0.2.0", { config: { team: "dev" }, policy: { timeout_ms: 9_000 } });
      const { items } = await fixture.kernel.packages.list(admin, { limit: 5 });
      await fixture.kernel.packages.remove(admin, items.find(({ version }) => version === "0.1.0")!.id);
      await install(fixture, "0.1.0", [
        toolWithSlot("greet", { network: "egress", allowed_domains: ["evil.example"] }),
      ]);
      const rolled_back = await fixture.kernel.bindings.rollback(admin, bound.binding_id);
      expect(rolled_back).toMatchObject({
        package_version: "0.1.0",
        config: { team: "dev" },
        policy: { approval: "always", timeout_ms: 9_000, permissions: { network: "none" } },
        previous: { permissions_held: ["network"] },
      });
    },
  );

  test("restores trust only for the same content and only for the admin", async () => {
    const policy = { host_target: true } as const;
    const { fixture, bound } = await createBoundKernel(undefined, { policy });
    await install(fixture, "0.2.0");
    await bindVersion(fixture, "0.2.0");
    const by_operator = await fixture.kernel.bindings.rollback(operator, bound.binding_id);
    expect(by_operator.policy).toEqual({});
    await fixture.kernel.bindings.patch(admin, bound.binding_id, { policy }, undefined);
    await bindVersion(fixture, "0.2.0");
    expect((await fixture.kernel.bindings.rollback(admin, bound.binding_id)).policy).toEqual(policy);
    // Other content under the same version number is not trusted.
    await bindVersion(fixture, "0.2.0");
    const { items } = await fixture.kernel.packages.list(admin, { limit: 10 });
    await fixture.kernel.packages.remove(admin, items.find(({ version }) => version === "0.1.0")!.id);
    const other_content = fixture.importer.add(manifest([toolWithSlot("greet")]), {}, "other bytes");
    await fixture.kernel.packages.install(admin, other_content);
    expect((await fixture.kernel.bindings.rollback(admin, bound.binding_id)).policy).toEqual({});
  });

  test("is refused for a binding that was never upgraded", async () => {
    const { fixture, bound } = await createBoundKernel();
    await expect(fixture.kernel.bindings.rollback(admin, bound.binding_id)).rejects.toMatchObject({
      code: "request.invalid",
    });
  });
});

describe("a version that does not fit the binding", () => {
  const STRICT = { "c.json": { type: "object", properties: { team: { type: "number" } } } };

  const CASES: [string, () => [Parameters<typeof install>[2], object], RegExp][] = [
    [
      "a stricter config schema",
      () => [[toolExport("greet", { config_schema: "c.json" })], STRICT],
      /config\/team/,
    ],
    [
      "a new secret slot",
      () => [[toolExport("greet", { permissions: { secret_slots: ["token", "extra"] } })], {}],
      /extra.*stays on 0\.1\.0/,
    ],
    ["a missing export", () => [[toolWithSlot("other")], {}], /exports other, not greet/],
    ["another kind", () => [[{ id: "greet", kind: "compactor", compactor: {} }], {}], /was a tool/],
  ];

  test.each(CASES)("leaves the old version in use: %s", async (_name, next, expectedText) => {
    const { fixture, bound } = await createBoundKernel();
    const [exports, schemas] = next();
    await install(fixture, "0.2.0", exports, schemas);
    const body = { package_id: PACKAGE, package_version: "0.2.0" };
    await expect(fixture.kernel.bindings.upgrade(admin, body)).rejects.toMatchObject({
      code: "binding.invalid",
      message: expect.stringMatching(expectedText),
    });
    expect(await listBindings(fixture)).toEqual([bound]);
  });

  test("is accepted if the upgrade supplies the missing settings", async () => {
    const { fixture } = await createBoundKernel();
    await install(fixture, "0.2.0", [
      toolExport("greet", { permissions: { secret_slots: ["token", "extra"] } }),
    ]);
    const [moved] = await fixture.kernel.bindings.upgrade(admin, {
      package_id: PACKAGE,
      package_version: "0.2.0",
      bindings: { greet: { secrets: { extra: SECRET.token } } },
    });
    expect(moved).toMatchObject({ status: "active", secrets: { ...SECRET, extra: SECRET.token } });
  });

  test("moves no binding of the package if one cannot move", async () => {
    const { fixture } = await createBoundKernel(manifest([toolWithSlot("greet"), toolExport("wave")]));
    await fixture.kernel.bindings.create(admin, {
      package_id: PACKAGE,
      package_version: "0.1.0",
      export_id: "wave",
    });
    const initial_bindings = await listBindings(fixture);
    await install(fixture, "0.2.0", [toolWithSlot("greet")]);
    const body = { package_id: PACKAGE, package_version: "0.2.0" };
    await expect(fixture.kernel.bindings.upgrade(admin, body)).rejects.toMatchObject({
      code: "binding.invalid",
    });
    expect(await listBindings(fixture)).toEqual(initial_bindings);
  });
});

verifies("upgrade.moves", "withholds and lists permissions that only the new version requests", async () => {
  const { fixture, bound } = await createBoundKernel();
  const wider = {
    network: "egress",
    filesystem: "scratch",
    gateway_api_scopes: ["sessions:read"],
    allowed_domains: ["api.example.com"],
  };
  await install(fixture, "0.2.0", [toolWithSlot("greet", wider)]);
  const moved = await bindVersion(fixture, "0.2.0");
  expect(moved.previous!.permissions_held).toEqual(["network", "filesystem", "gateway_api_scopes"]);
  const { grant } = await fixture.kernel.bindings.validate(admin, bound.binding_id);
  expect(grant).toMatchObject({ network: "none", filesystem: "none", gateway_api_scopes: [] });
  // The next version requests a further domain, and the one in use already has the network.
  const { permissions: _held, ...policy } = moved.policy;
  await fixture.kernel.bindings.patch(admin, bound.binding_id, { policy }, undefined);
  await install(fixture, "0.3.0", [
    toolWithSlot("greet", { ...wider, allowed_domains: ["api.example.com", "evil.test"] }),
  ]);
  const again = await bindVersion(fixture, "0.3.0");
  expect(again.previous!.permissions_held).toEqual(["allowed_domains"]);
  const now = await fixture.kernel.bindings.validate(admin, bound.binding_id);
  expect(now.grant.allowed_domains).toEqual(["api.example.com"]);
});

verifies("upgrade.moves", "applies only one of several concurrent upgrades", async () => {
  const { fixture } = await createBoundKernel();
  const versions = ["0.2.0", "0.3.0", "0.4.0", "0.5.0"];
  for (const version of versions) await install(fixture, version);
  const ended = await Promise.allSettled(
    versions.map((package_version) =>
      fixture.kernel.bindings.upgrade(admin, { package_id: PACKAGE, package_version }),
    ),
  );
  const succeeded = ended.flatMap((result) => (result.status === "fulfilled" ? result.value : []));
  expect(succeeded).toHaveLength(1);
  for (const result of ended)
    if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "binding.conflict" });
  expect(await listBindings(fixture)).toEqual(succeeded);
  expect(succeeded[0]!.generation).toBe(2);
});

test("reports a move only with the change that moved the binding", async () => {
  const { fixture, bound } = await createBoundKernel();
  await install(fixture, "0.2.0");
  await bindVersion(fixture, "0.2.0");
  await fixture.kernel.bindings.patch(admin, bound.binding_id, { config: { team: "dev" } }, undefined);
  expect(await listAuditDetails(fixture, "binding.upgrade")).toMatchObject([{ from_version: "0.1.0" }]);
  const [change] = await listAuditDetails(fixture, "binding.change");
  expect(change).not.toHaveProperty("from_version");
});

test("refuses one of two patches that move a binding to different versions", async () => {
  const { fixture, bound } = await createBoundKernel();
  for (const version of ["0.2.0", "0.3.0"]) await install(fixture, version);
  const move = (package_version: string) =>
    fixture.kernel.bindings.patch(admin, bound.binding_id, { package_version }, undefined);
  const ended = await Promise.allSettled([move("0.2.0"), move("0.3.0")]);
  expect(ended.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
  const refused = ended.find((result) => result.status === "rejected");
  expect(refused?.reason).toMatchObject({ code: "binding.conflict" });
});

test("drops secrets of removed slots, and keeps a raised class and a refusal to run on the host", async () => {
  const policy = { class: "isolated", host_target: false } as const;
  const { fixture } = await createBoundKernel(undefined, { policy });
  await install(fixture, "0.2.0", [toolExport("greet")]);
  const moved = await bindVersion(fixture, "0.2.0");
  expect(moved).toMatchObject({ status: "active", policy });
  expect(moved.secrets).toEqual({});
});

test("does not hold a domain that the old version reached through a wildcard", async () => {
  const { fixture, bound } = await createBoundKernel(
    manifest([toolWithSlot("greet", { network: "egress", allowed_domains: ["*.example"] })]),
  );
  await install(fixture, "0.2.0", [
    toolWithSlot("greet", { network: "egress", allowed_domains: ["a.example"] }),
  ]);
  const moved = await bindVersion(fixture, "0.2.0");
  expect(moved.previous!.permissions_held).toEqual([]);
  expect(moved.policy).toEqual(bound.policy);
});

test("does not hold a permission that the operator has already narrowed", async () => {
  const policy = { permissions: { network: "none" } } as const;
  const { fixture } = await createBoundKernel(undefined, { policy });
  await install(fixture, "0.2.0", [
    toolWithSlot("greet", { network: "egress", allowed_domains: ["a.example"] }),
  ]);
  expect((await bindVersion(fixture, "0.2.0")).previous!.permissions_held).toEqual([]);
});

verifies("bind.hot", "finishes a call in flight on the version that it started with", async () => {
  const { fixture, bound } = await createBoundKernel(undefined, { policy: {} });
  await install(fixture, "0.2.0");
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  fixture.runner.script = async () => {
    await released;
    return ok();
  };
  const running = fixture.call({ export_id: "greet" });
  while (fixture.runner.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 2));
  const moved = await bindVersion(fixture, "0.2.0");
  expect(moved.binding_id).toBe(bound.binding_id);
  release();
  expect(await running).toMatchObject({ status: "succeeded", package_version: "0.1.0" });
});

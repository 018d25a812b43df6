/** Upgrades that await an admin's approval, and permissions that only an admin can grant. */
import type { Binding, BindingUpgrade } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const PACKAGE = "acme/devkit";
const TOOLS = [toolExport("greet"), toolExport("wave")];
const operator: Caller = { ...admin, actor: "key_operator", role: "user", admin: false };

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

verifies("upgrade.moves", "lists a held upgrade once, with the command that approves it", async () => {
  const { fixture, bound } = await createBoundKernel();
  await install(fixture, "0.3.0", WIDER);
  expect(await fixture.kernel.bindings.listWaitingUpgrades(user)).toEqual([]);
  await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
  const [waiting, ...more] = await fixture.kernel.bindings.listWaitingUpgrades(user);
  expect(more).toEqual([]);
  expect(waiting).toMatchObject({
    waits_for: "permissions",
    version: "0.1.0",
    other_version: "0.3.0",
    message:
      "acme/devkit 0.3.0 requests more permissions (network) and awaits approval by an owner or admin. 0.1.0 stays in use. Requested by key_operator.",
    fix: "backplane plugin upgrade acme/devkit@0.3.0 --grant-permissions; without them: backplane plugin upgrade acme/devkit@0.3.0 --withhold-permissions; to withdraw it: backplane plugin rollback acme/devkit",
  });
  expect(waiting!.binding_ids).toHaveLength(2);
  expect(waiting!.binding_ids).toContain(bound.binding_id);
  const other_project_user = { ...user, scope: { ...user.scope, project_id: "proj_other" } };
  expect(await fixture.kernel.bindings.listWaitingUpgrades(other_project_user)).toEqual([]);
  await upgrade(fixture, "0.3.0", { new_permissions: "grant" });
  expect(await fixture.kernel.bindings.listWaitingUpgrades(user)).toEqual([]);
});

const WIDER = [
  toolExport("greet", { permissions: { network: "egress", allowed_domains: ["b.example"] } }),
  toolExport("wave"),
];

verifies(
  "upgrade.moves",
  "holds a version that requests more permissions until an admin grants them",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    await install(fixture, "0.3.0", WIDER);
    const held = await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
    expect(held.map(({ package_version }) => package_version)).toEqual(["0.1.0", "0.1.0"]);
    const waiting = {
      package_version: "0.3.0",
      digest: expect.stringMatching(/^sha256:/),
      permissions: ["network"],
      requested_by: "key_operator",
      requested_at: expect.any(String),
    };
    expect(held.map(({ held_upgrade }) => held_upgrade)).toEqual([waiting, waiting]);
    expect(await greet(fixture)).toMatchObject({ status: "succeeded", package_version: "0.1.0" });
    // Repeating the request changes nothing.
    expect(await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator)).toEqual(held);
    await expect(upgrade(fixture, "0.3.0", { new_permissions: "grant" }, operator)).rejects.toMatchObject({
      code: "policy.denied",
    });
    const audit = await fixture.store.audit.list(
      admin.scope,
      { action: "binding.upgrade_held" },
      { limit: 5 },
    );
    expect(audit.items[0]!.details).toMatchObject({ package_version: "0.3.0", permissions: ["network"] });
    const moved = await upgrade(fixture, "0.3.0", { new_permissions: "grant" });
    const granted = moved.find(({ binding_id }) => binding_id === bound.binding_id) as Binding;
    expect(granted).toMatchObject({
      package_version: "0.3.0",
      policy: {},
      previous: { permissions_held: [] },
    });
    expect(granted).not.toHaveProperty("held_upgrade");
    await greet(fixture);
    expect(fixture.runner.requests.at(-1)!.grant).toMatchObject({
      network: "egress",
      allowed_domains: ["b.example"],
    });
  },
);

verifies(
  "upgrade.moves",
  "does not let an operator grant a held permission by an upgrade, a patch or a second binding",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    await install(fixture, "0.3.0", WIDER);
    await install(fixture, "0.4.0", WIDER);
    const policy = { permissions: { network: "egress" } } as const;
    const denied = { code: "policy.denied", details: { permissions: ["network", "allowed_domains"] } };
    const settings = { new_permissions: "hold", bindings: { greet: { policy } } } as const;
    await expect(upgrade(fixture, "0.3.0", settings, operator)).rejects.toMatchObject(denied);
    const patch = (body: object, caller: Caller) =>
      fixture.kernel.bindings.patch(caller, bound.binding_id, body, undefined);
    await expect(patch({ package_version: "0.3.0", policy }, operator)).rejects.toMatchObject(denied);
    const second = {
      package_id: bound.package_id,
      package_version: "0.3.0",
      export_id: "greet",
      rollout: { traffic_percent: 10 },
      policy,
    };
    await expect(fixture.kernel.bindings.create(operator, second)).rejects.toMatchObject(denied);
    // A permission that one upgrade withheld stays withheld after the next.
    await patch({ package_version: "0.3.0" }, operator);
    const moved = await patch({ package_version: "0.4.0" }, operator);
    expect(moved.previous!.permissions_held).toEqual(["network"]);
    for (const wider of [policy, {}])
      await expect(patch({ policy: wider }, operator)).rejects.toMatchObject({ code: "policy.denied" });
    expect(
      (await patch({ policy: { ...moved.policy, timeout_ms: 9_000 } }, operator)).policy.timeout_ms,
    ).toBe(9_000);
    expect((await patch({ policy }, admin)).policy).toEqual(policy);
  },
);

const WIDER_PERMISSIONS: Record<string, object> = {
  network: { network: "egress", allowed_domains: ["b.example"] },
  filesystem: { filesystem: "scratch" },
  gateway_api_scopes: { gateway_api_scopes: ["chains:read"] },
};

verifies(
  "upgrade.moves",
  "does not let an operator get a held permission by limiting it before the upgrade and widening it afterwards",
  async () => {
    const limits = { network: "none", filesystem: "none", gateway_api_scopes: [] } as const;
    for (const [name, permissions] of Object.entries(WIDER_PERMISSIONS)) {
      const { fixture, bound } = await createBoundKernel();
      await install(fixture, "0.3.0", [toolExport("greet", { permissions }), toolExport("wave")]);
      const patch = (body: object) =>
        fixture.kernel.bindings.patch(operator, bound.binding_id, body, undefined);
      await patch({ policy: { permissions: { [name]: limits[name as keyof typeof limits] } } });
      const moved = await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
      expect(moved.find(({ binding_id }) => binding_id === bound.binding_id)).toMatchObject({
        package_version: "0.3.0",
        previous: { permissions_held: [], permissions_limited: [name] },
      });
      await expect(patch({ policy: {} })).rejects.toMatchObject({ code: "policy.denied" });
      // A further upgrade does not forget the limit.
      await install(fixture, "0.4.0", [toolExport("greet", { permissions }), toolExport("wave")]);
      await upgrade(fixture, "0.4.0", { new_permissions: "hold" }, operator);
      await expect(patch({ policy: {} })).rejects.toMatchObject({ code: "policy.denied" });
      const widened = await fixture.kernel.bindings.patch(admin, bound.binding_id, { policy: {} }, undefined);
      expect(widened).toMatchObject({ package_version: "0.4.0", policy: {} });
    }
  },
);

verifies(
  "upgrade.moves",
  "does not let an operator get a held permission by setting it before the upgrade",
  async () => {
    for (const [name, permissions] of Object.entries(WIDER_PERMISSIONS)) {
      const { fixture, bound } = await createBoundKernel();
      await install(fixture, "0.3.0", [toolExport("greet", { permissions }), toolExport("wave")]);
      const { allowed_domains, ...set } = permissions as { allowed_domains?: string[] };
      const policy = { permissions: set, ...(allowed_domains === undefined ? {} : { allowed_domains }) };
      await fixture.kernel.bindings.patch(operator, bound.binding_id, { policy }, undefined);
      const moved = await upgrade(fixture, "0.3.0", { new_permissions: "withhold" }, operator);
      expect(moved.find(({ binding_id }) => binding_id === bound.binding_id)).toMatchObject({
        previous: { permissions_held: [name] },
      });
      await greet(fixture);
      expect(fixture.runner.requests.at(-1)!.grant).toMatchObject({
        network: "none",
        allowed_domains: [],
        filesystem: "none",
        gateway_api_scopes: [],
      });
    }
  },
);

verifies(
  "upgrade.moves",
  "does not let an operator get further domains by listing them before the upgrade",
  async () => {
    const egress = (...allowed_domains: string[]) => [
      toolExport("greet", { permissions: { network: "egress", allowed_domains } }),
      toolExport("wave"),
    ];
    const { fixture, bound } = await createBoundKernel(egress("a.example", "c.example"));
    await install(fixture, "0.3.0", egress("a.example", "b.example", "c.example"));
    const patch = (body: object) =>
      fixture.kernel.bindings.patch(operator, bound.binding_id, body, undefined);
    await patch({ policy: { allowed_domains: ["a.example", "b.example"] } });
    const held = await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
    expect(held[0]).toMatchObject({ held_upgrade: { permissions: ["allowed_domains"] } });
    await upgrade(fixture, "0.3.0", {}, operator);
    await greet(fixture);
    expect(fixture.runner.requests.at(-1)!.grant.allowed_domains).toEqual(["a.example"]);
    for (const policy of [{}, { allowed_domains: ["a.example", "b.example"] }])
      await expect(patch({ policy })).rejects.toMatchObject({ code: "policy.denied" });
    // Only the operator's list limits a version that lists no domains itself, so there is nothing to hold.
    const without_domains = [toolExport("greet", { permissions: { network: "egress" } }), toolExport("wave")];
    const next = await createBoundKernel(without_domains);
    await next.fixture.kernel.bindings.patch(
      operator,
      next.bound.binding_id,
      { policy: { allowed_domains: ["a.example"] } },
      undefined,
    );
    await install(next.fixture, "0.3.0", egress("a.example", "b.example"));
    const moved = await upgrade(next.fixture, "0.3.0", { new_permissions: "hold" }, operator);
    expect(moved.map(({ package_version }) => package_version)).toEqual(["0.3.0", "0.3.0"]);
  },
);

verifies(
  "upgrade.moves",
  "does not let an operator widen a second binding while the first serves a version that requests less",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    await install(fixture, "0.3.0", WIDER);
    const second = await fixture.kernel.bindings.create(operator, {
      package_id: bound.package_id,
      package_version: "0.3.0",
      export_id: "greet",
      rollout: { traffic_percent: 10 },
    });
    const patch = (id: string, body: object, caller: Caller) =>
      fixture.kernel.bindings.patch(caller, id, body, undefined);
    for (const policy of [{}, { permissions: { network: "egress" } }])
      await expect(patch(second.binding_id, { policy }, operator)).rejects.toMatchObject({
        code: "policy.denied",
        details: { permissions: ["network", "allowed_domains"] },
      });
    expect((await patch(second.binding_id, { policy: {} }, admin)).policy).toEqual({});
  },
);

verifies(
  "upgrade.moves",
  "withholds the domains of the gateway from a version that no longer lists its own",
  async () => {
    const { fixture, bound } = await createBoundKernel();
    const egress = (more: object) => [
      toolExport("greet", { permissions: { network: "egress", ...more } }),
      toolExport("wave"),
    ];
    await install(fixture, "0.3.0", egress({ allowed_domains: ["a.example"] }));
    await install(fixture, "0.4.0", egress({}));
    await upgrade(fixture, "0.3.0", { new_permissions: "grant" });
    const held = await upgrade(fixture, "0.4.0", { new_permissions: "hold" }, operator);
    expect(held.find(({ binding_id }) => binding_id === bound.binding_id)).toMatchObject({
      package_version: "0.3.0",
      held_upgrade: { permissions: ["allowed_domains"] },
    });
  },
);

test("withdraws a held upgrade on rollback, and does not hold a version that adds no permissions", async () => {
  const { fixture, bound } = await createBoundKernel();
  await install(fixture, "0.3.0", WIDER);
  await upgrade(fixture, "0.3.0", { new_permissions: "hold", percent: 10 });
  const rolled_back = await fixture.kernel.bindings.rollback(admin, bound.binding_id);
  expect(rolled_back).not.toHaveProperty("held_upgrade");
  expect(rolled_back.package_version).toBe("0.1.0");
  // An admin can also grant the permissions for only a share of the calls.
  const shares = await upgrade(fixture, "0.3.0", { new_permissions: "grant", percent: 10 });
  expect(shares.filter(({ share_of }) => share_of !== undefined)).toHaveLength(2);
  expect(shares.every(({ held_upgrade }) => held_upgrade === undefined)).toBe(true);
  const next = await createBoundKernel();
  const moved = await upgrade(next.fixture, "0.2.0", { new_permissions: "hold" }, user);
  expect(moved.map(({ package_version }) => package_version)).toEqual(["0.2.0", "0.2.0"]);
});

verifies("upgrade.moves", "does not give an operator a withheld permission after any rollback", async () => {
  const move = (package_version: string) => (fixture: TestKernel, id: string) =>
    fixture.kernel.bindings.patch(operator, id, { package_version }, undefined);
  const rollBack = (fixture: TestKernel, id: string) => fixture.kernel.bindings.rollback(operator, id);
  const narrow = (fixture: TestKernel, id: string) =>
    fixture.kernel.bindings.patch(operator, id, { policy: { permissions: { network: "none" } } }, undefined);
  const sequences = {
    "up, back, back": [move("0.3.0"), rollBack, rollBack],
    "up, up, back": [move("0.3.0"), move("0.4.0"), rollBack],
    "up, down, back": [move("0.3.0"), move("0.1.0"), rollBack],
    "limited, up, back, back": [narrow, move("0.3.0"), rollBack, rollBack],
  };
  for (const [name, steps] of Object.entries(sequences)) {
    const { fixture, bound } = await createBoundKernel();
    await install(fixture, "0.3.0", WIDER);
    await install(fixture, "0.4.0", WIDER);
    for (const step of steps) await step(fixture, bound.binding_id);
    await expect(
      fixture.kernel.bindings.patch(operator, bound.binding_id, { policy: {} }, undefined),
      name,
    ).rejects.toMatchObject({ code: "policy.denied" });
    await greet(fixture);
    expect(fixture.runner.requests.at(-1)!.grant, name).toMatchObject({ network: "none" });
    const { policy } = await fixture.kernel.bindings.patch(
      admin,
      bound.binding_id,
      { policy: {} },
      undefined,
    );
    expect(policy, name).toEqual({});
  }
});

verifies("upgrade.moves", "approves a held upgrade only for the content that was held", async () => {
  const { fixture } = await createBoundKernel();
  await install(fixture, "0.3.0", WIDER);
  const [held] = await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
  const replaced = (await fixture.kernel.packages.list(admin, { limit: 10 })).items.find(
    ({ version }) => version === "0.3.0",
  )!;
  await fixture.kernel.packages.remove(admin, replaced.id);
  const wider = { network: "egress", allowed_domains: ["c.example"], filesystem: "scratch" } as const;
  await install(fixture, "0.3.0", [toolExport("greet", { permissions: wider }), toolExport("wave")]);
  await expect(upgrade(fixture, "0.3.0", { new_permissions: "grant" })).rejects.toMatchObject({
    code: "package.conflict",
    details: { expected: held!.held_upgrade!.digest, actual: expect.not.stringContaining(replaced.digest) },
  });
  await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
  const [waiting] = await fixture.kernel.bindings.listWaitingUpgrades(admin);
  expect(waiting!.message).toContain("(network, filesystem)");
  const [moved] = await upgrade(fixture, "0.3.0", { new_permissions: "grant" });
  expect(moved!.package_version).toBe("0.3.0");
});

verifies(
  "upgrade.moves",
  "holds a whole package if one tool requests what only another tool had",
  async () => {
    const network = { permissions: { network: "egress", allowed_domains: ["b.example"] } } as const;
    const fixture = await createTestKernel();
    await fixture.bind(manifest([toolExport("greet"), toolExport("wave", network)]), { export_id: "*" });
    await install(fixture, "0.2.0", [
      toolExport("greet"),
      toolExport("wave", network),
      toolExport("nod", network),
    ]);
    await install(fixture, "0.3.0", [toolExport("greet", network), toolExport("wave", network)]);
    const [moved] = await upgrade(fixture, "0.2.0", { new_permissions: "hold" }, operator);
    expect(moved!.package_version).toBe("0.2.0");
    const [held] = await upgrade(fixture, "0.3.0", { new_permissions: "hold" }, operator);
    expect(held).toMatchObject({
      package_version: "0.2.0",
      held_upgrade: { package_version: "0.3.0", permissions: ["network"] },
    });
    await greet(fixture);
    expect(fixture.runner.requests.at(-1)!.grant).toMatchObject({ network: "none" });
    const [granted] = await upgrade(fixture, "0.3.0", { new_permissions: "grant" });
    expect(granted!.package_version).toBe("0.3.0");
  },
);

/**
 * Moves with settings in the same request. A client that sends the whole old settings with a new version has chosen
 * nothing for that version; a client that names a setting in `changes` has.
 */
import type { Binding, BindingPatch, Permissions } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const NEXT = "0.2.0";

interface Versions {
  /** Permissions of the version that is bound first. */
  from?: Partial<Permissions>;
  to?: Partial<Permissions>;
  settings?: Parameters<TestKernel["bind"]>[1];
}

async function createMovableKernel({ from = {}, to = {}, settings = {} }: Versions) {
  const fixture = await createTestKernel();
  for (const name of ["token", "other"]) await fixture.kernel.secrets.put(admin, name, `value of ${name}`);
  const bound = await fixture.bind(manifest([toolExport("greet", { permissions: from })]), settings);
  const next = { ...manifest([toolExport("greet", { permissions: to })]), version: NEXT };
  await fixture.kernel.packages.install(admin, fixture.importer.add(next));
  const move = (body: BindingPatch, caller: Caller = admin) =>
    fixture.kernel.bindings.patch(caller, bound.binding_id, { package_version: NEXT, ...body }, undefined);
  return { fixture, bound, move };
}

const egress = (...allowed_domains: string[]) => ({ network: "egress", allowed_domains }) as const;
const TOKEN = "secret://org_local/token";
const TRUSTED = { host_target: true, class: "worker" } as const;

describe("a request with a new version and the whole old policy", () => {
  const CASES: Record<string, Versions & { held: string }> = {
    "a domain that only the new version requests": {
      from: egress("a.example"),
      to: egress("a.example", "b.example"),
      settings: { policy: { allowed_domains: ["a.example", "b.example"] } },
      held: "allowed_domains",
    },
    "the network, which the old version did not request": {
      to: egress("b.example"),
      settings: { policy: { permissions: { network: "egress" } } },
      held: "network",
    },
  };

  for (const [name, { held, ...versions }] of Object.entries(CASES))
    for (const [who, caller] of Object.entries({ "an admin": admin, "a user": user }))
      verifies("upgrade.moves", `does not grant ${who} ${name}`, async () => {
        const by_version = await createMovableKernel(versions);
        const { policy } = await by_version.move({}, caller);
        const { bound, move } = await createMovableKernel(versions);
        const moved = await move({ policy: { ...bound.policy, timeout_ms: 9_000 } }, caller);
        expect(moved.previous!.permissions_held).toEqual([held]);
        expect(moved.policy).toEqual({ ...policy, timeout_ms: 9_000 });
      });

  verifies("upgrade.moves", "grants a permission that the request changes, and no other", async () => {
    const { move } = await createMovableKernel({
      to: egress("b.example"),
      settings: { policy: { permissions: { network: "egress", filesystem: "scratch" } } },
    });
    const kept = await move({ policy: { permissions: { network: "egress", filesystem: "none" } } });
    expect(kept.previous!.permissions_held).toEqual(["network"]);
    expect(kept.policy.permissions).toEqual({ network: "none", filesystem: "none" });
    const next = await createMovableKernel({
      to: egress("b.example"),
      settings: { policy: { permissions: { network: "none" } } },
    });
    const changed = await next.move({ policy: { permissions: { network: "egress" } } });
    expect(changed.previous!.permissions_held).toEqual([]);
    expect(changed.policy.permissions).toEqual({ network: "egress" });
  });

  verifies(
    "upgrade.moves",
    "drops trust in the old version, and keeps trust that the request adds",
    async () => {
      const { bound, move } = await createMovableKernel({ settings: { policy: TRUSTED } });
      const moved = await move({ policy: { ...bound.policy, timeout_ms: 9_000 } });
      expect(moved).toMatchObject({
        class_lowered_by: null,
        previous: { trust_dropped: ["host_target", "class"] },
      });
      expect(moved.policy).toEqual({ timeout_ms: 9_000 });
      const untrusted = await createMovableKernel({ settings: { policy: { timeout_ms: 5_000 } } });
      const trusted = await untrusted.move({ policy: { timeout_ms: 5_000, ...TRUSTED } });
      expect(trusted).toMatchObject({ policy: TRUSTED, class_lowered_by: "admin" });
    },
  );

  verifies("upgrade.moves", "drops approval = never if the new version can do more", async () => {
    const { bound, move } = await createMovableKernel({
      to: { secret_slots: ["token"] },
      settings: { policy: { approval: "never" } },
    });
    const moved = await move({ policy: bound.policy, secrets: { token: TOKEN } });
    expect(moved.policy).toEqual({});
    expect(moved.previous!.trust_dropped).toEqual(["approval"]);
  });

  test("drops the secrets of slots that the new version no longer has", async () => {
    const settings = { secrets: { token: TOKEN } };
    const { bound, move } = await createMovableKernel({ from: { secret_slots: ["token"] }, settings });
    expect((await move({ policy: bound.policy, secrets: bound.secrets })).secrets).toEqual({});
  });

  test("keeps a removed setting removed", async () => {
    const settings = { policy: { timeout_ms: 5_000, approval: "always" as const } };
    const { move } = await createMovableKernel({ settings });
    expect((await move({ policy: { approval: "always" } })).policy).toEqual({ approval: "always" });
  });
});

describe("a request with a new version and changes", () => {
  verifies("upgrade.moves", "keeps trust that an admin names again", async () => {
    const { move } = await createMovableKernel({ settings: { policy: TRUSTED } });
    const moved = await move({ changes: { policy: { class: "worker" } } });
    expect(moved).toMatchObject({ class_lowered_by: "admin", previous: { trust_dropped: ["host_target"] } });
    expect(moved.policy).toEqual({ class: "worker" });
  });

  verifies(
    "upgrade.moves",
    "does not let a user restore trust or permissions that only an admin may give",
    async () => {
      const { move } = await createMovableKernel({ to: egress("b.example"), settings: { policy: TRUSTED } });
      await expect(move({ changes: { policy: { host_target: true } } }, user)).rejects.toMatchObject({
        code: "policy.denied",
      });
      const permissions = { network: "egress" } as const;
      await expect(move({ changes: { policy: { permissions } } }, user)).rejects.toMatchObject({
        code: "policy.denied",
        details: { permissions: ["network", "allowed_domains"] },
      });
      const moved = await move({ changes: { policy: { permissions } } });
      expect(moved.previous!.permissions_held).toEqual([]);
    },
  );
});

test("changes single settings and keeps the others", async () => {
  const from = { secret_slots: ["token", "other"] };
  const policy = { approval: "always", timeout_ms: 5_000 } as const;
  const { fixture, bound } = await createMovableKernel({
    from,
    settings: { policy, secrets: { token: TOKEN } },
  });
  const change = (changes: BindingPatch["changes"], more: BindingPatch = {}): Promise<Binding> =>
    fixture.kernel.bindings.patch(user, bound.binding_id, { ...more, changes }, undefined);
  const other = "secret://org_local/other";
  expect(await change({ policy: { timeout_ms: 9_000 }, secrets: { other } })).toMatchObject({
    policy: { approval: "always", timeout_ms: 9_000 },
    secrets: { token: TOKEN, other },
    status: "active",
  });
  const removed = await change({ policy: { timeout_ms: null }, secrets: { token: null } });
  expect(removed.policy).toEqual({ approval: "always" });
  expect(removed).toMatchObject({ secrets: { other }, status: "inactive" });
  // The changes apply to the policy that the same request sets.
  const both = await change(
    { policy: { approval: null } },
    { policy: { approval: "always", timeout_ms: 1 } },
  );
  expect(both.policy).toEqual({ timeout_ms: 1 });
});

verifies(
  "upgrade.moves",
  "does not let a user remove a limit of either binding of a rollout by changing the binding",
  async () => {
    const { fixture, bound, move } = await createMovableKernel({ to: egress("b.example") });
    const { bindings } = fixture.kernel;
    const share = await bindings.create(user, {
      package_id: bound.package_id,
      package_version: NEXT,
      export_id: "greet",
      rollout: { traffic_percent: 10 },
    });
    const widen = (id: string) =>
      bindings.patch(user, id, { changes: { policy: { permissions: { network: "egress" } } } }, undefined);
    await expect(widen(share.binding_id)).rejects.toMatchObject({ code: "policy.denied" });
    await bindings.remove(user, share.binding_id);
    await move({}, user);
    const unlimited = { changes: { policy: { permissions: null } } };
    for (const change of [() => widen(bound.binding_id), () => move(unlimited, user)])
      await expect(change()).rejects.toMatchObject({ code: "policy.denied" });
  },
);

test("restores trust with a rollback if the binding has been trusted again since", async () => {
  const { fixture, bound, move } = await createMovableKernel({ settings: { policy: TRUSTED } });
  await move({});
  const { bindings } = fixture.kernel;
  await bindings.patch(admin, bound.binding_id, { changes: { policy: TRUSTED } }, undefined);
  const restored = await bindings.rollback(admin, bound.binding_id);
  expect(restored).toMatchObject({ package_version: bound.package_version, policy: TRUSTED });
});

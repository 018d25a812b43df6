import type { Binding, Manifest, Package } from "@backplane/contract";
import { type BoundPackage, hostPolicy, type Scope } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { expect, test } from "vitest";
import { ExportPlans, narrowGrant } from "../../src/exports/export-plan.ts";

const scope: Scope = { org_id: "org_local", project_id: "proj_a" };
const TOOL = toolExport("t", { permissions: { secret_slots: ["token", "other"], network: "egress" } });

const createPlans = () => new ExportPlans({ schemas: {} as never, host: hostPolicy({}) });

function bound(
  more: Partial<Binding> = {},
  pack: Partial<Package> = {},
  content = manifest([TOOL]),
): BoundPackage {
  return {
    binding: { binding_id: "bind_1", export_id: "t", generation: 1, policy: {}, ...more } as Binding,
    package: { digest: "sha256:1", manifest: content, schemas: {}, ...pack } as Package,
  };
}

test("creates a new plan when the generation, the package digest or the definitions differ", async () => {
  const plans = createPlans();
  const readClass = async (bound_package: BoundPackage) => (await plans.get(bound_package, scope)).class;
  const worker = (more: Partial<Binding> = {}) => bound({ policy: { class: "worker" }, ...more });
  expect(await readClass(bound())).toBe("isolated");
  expect(await readClass(worker({ generation: 2 }))).toBe("worker");
  const withEffect = (effect_class: string): Manifest => manifest([toolExport("t", {}, { effect_class })]);
  const readEffect = async (bound_package: BoundPackage) =>
    (await plans.get(bound_package, scope)).effect_class;
  expect(await readEffect(bound({ generation: 3 }, {}, withEffect("unknown")))).toBe("unknown");
  expect(await readEffect(bound({ generation: 3 }, { digest: "sha256:2" }, withEffect("read_only")))).toBe(
    "read_only",
  );
  const described = {
    ...bound({ generation: 3 }, { digest: "sha256:2" }, withEffect("unknown")),
    definitions_digest: "d2",
  };
  expect(await readEffect(described)).toBe("unknown");
});

test("applies the level of each project to its own plan", async () => {
  const host = hostPolicy({ projects: new Map([["org_local/proj_a", { network: "none" }]]) });
  const plans = new ExportPlans({ schemas: {} as never, host });
  const readNetwork = async (project_id: string) =>
    (await plans.get(bound(), { ...scope, project_id })).grant.network;
  expect([await readNetwork("proj_a"), await readNetwork("proj_b")]).toEqual(["none", "egress"]);
});

test("shares a process only within a project, a generation and a grant", async () => {
  const readKey = async (bound_package: BoundPackage, key_scope = scope) =>
    (await createPlans().get(bound_package, key_scope)).pool_key;
  const keys = [
    await readKey(bound()),
    await readKey(bound(), { ...scope, project_id: "proj_b" }),
    await readKey(bound({ generation: 2 })),
    await readKey(bound({ policy: { permissions: { network: "none" } } })),
    await readKey(bound({}, { digest: "sha256:2" })),
  ];
  expect(new Set(keys).size).toBe(keys.length);
  expect(await readKey(bound())).toBe(keys[0]);
  const plan = await createPlans().get(bound(), scope);
  const narrowed = narrowGrant(plan, { network: "none" }, scope);
  expect(narrowed.grant.network).toBe("none");
  expect(narrowed.pool_key).toBe(keys[3]);
  expect(narrowGrant(plan, undefined, scope).pool_key).toBe(keys[0]);
});

test("puts a secret into the environment only while its slot is granted", async () => {
  const policy = { secret_env: { token: "TOKEN", other: "OTHER" } };
  const plan = await createPlans().get(bound({ policy }), scope);
  expect(plan.grant.secret_env).toEqual(policy.secret_env);
  expect(narrowGrant(plan, { secret_slots: ["other"] }, scope).grant.secret_env).toEqual({ other: "OTHER" });
  expect(narrowGrant(plan, { secret_slots: [] }, scope).grant.secret_env).toBeUndefined();
});

test("counts the calls to each tool of a whole package separately", async () => {
  const readConcurrencyKey = async (bound_package: BoundPackage) =>
    (await createPlans().get(bound_package, scope)).concurrency_key;
  expect(await readConcurrencyKey(bound())).toBe("bind_1");
  expect(await readConcurrencyKey({ ...bound(), whole: true })).toBe("bind_1/t");
});

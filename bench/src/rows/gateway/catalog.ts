/**
 * The catalog with 2,000 tools. `lookup` is the cost of a call: the snapshot, the tool by its name, the policy of the
 * scope, and every admission rule. `list` builds the whole catalog again after a change: bindings are read, names are
 * ranked, and listing rules and risk are evaluated for each tool. The compiled plans of the bindings are kept.
 */

import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createIdSource, type Policy } from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import {
  type AdmissionState,
  assumeValidRoot,
  createToolCatalog,
  RULES,
  type RuleInput,
} from "@backplane/door";
import { type BoundPackage, Changes, hostPolicy } from "@backplane/ports";
import { ExportPlans, Policies } from "@backplane/registry";
import { openSqliteStore } from "@backplane/store";
import { createSchemas } from "@backplane/supply";
import { createRow, type Row } from "../../measuring/row.ts";
import { median } from "../../measuring/statistics.ts";

const TOOLS = 2_000;
const PER_PACKAGE = 100;
const LOOKUPS = 50_000;
const LISTS = 20;
const REPETITIONS = 5;
const LOOKUP_BOUND_US = 20;
const LIST_BOUND_MS = 20;

const scope = { org_id: "org_local", project_id: "proj_default" };
const caller = { actor: "key_bench", scope, role: "user" as const, scopes: [], admin: false };

/** A policy with one rule of every kind. */
const POLICY: Policy = {
  allowed_origins: ["core", "bundled", "plugin"],
  allowed_tool_categories: ["coding", "notes"],
  roles: { user: { allow: { origins: ["plugin"] }, deny: { tools: ["secret_*"] }, max_risk: "high" } },
  risks: { "tool_9*": "medium" },
  floor: { egress: "medium", categories: { shell: "high" } },
  rules: [{ tools: ["shell_*"], when: [{ pointer: "/path", matches: "^/etc" }], action: "deny" }],
};

const STATE: AdmissionState = {
  stopping: false,
  sandbox: () => ({ enabled: true, available: true, reason: "" }),
  isQueueFull: () => false,
  areApprovalsFull: () => false,
  max_depth: 8,
};

export async function measureCatalog(): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-bench-catalog-"));
  const store = await openSqliteStore({ file: join(folder, "store.db"), threaded: false });
  const schemas = createSchemas();
  try {
    const packages = createBoundPackages();
    const ids = createIdSource(Date.now, (bytes) => randomFillSync(bytes));
    const clock = { now: Date.now, monotonic: () => performance.now(), after: () => ({ stop() {} }) };
    const host = hostPolicy();
    const policies = new Policies({ store, schemas, clock, ids, host, changes: new Changes(console) });
    const plans = new ExportPlans({ schemas, host });
    const ours = createToolCatalog({
      clock: { monotonic: () => 0 },
      log: { warn() {}, error() {} },
      plans,
      policies,
      listBindings: async () => packages,
      isLegacy: () => false,
      hasSkills: async () => false,
      readUsage: async () => new Map(),
    });
    await policies.put({ ...caller, actor: "admin", role: "owner", admin: true }, "org", POLICY);
    const { tools } = await ours.snapshot(caller);
    if (tools.size !== TOOLS) throw new Error(`${tools.size} tools are offered`);
    const names = [...tools.keys()];
    const lookup = async (n: number): Promise<void> => {
      const name = names[(n * 7) % TOOLS]!;
      const [snapshot, policy] = await Promise.all([ours.snapshot(caller), policies.getEffective(scope)]);
      const plan = snapshot.plans.get(name)!;
      const input: RuleInput = {
        caller,
        plan,
        policy,
        context: "conversation",
        input: {},
        issues: [],
        hits: [],
        depth: 0,
        row: null,
        root: assumeValidRoot(caller),
      };
      for (const rule of RULES) {
        if (rule.decide(input, plan.grant, STATE).kind === "deny")
          throw new Error(`${name}: ${rule.name} denies`);
      }
    };
    const times = { lookup: [] as number[], list: [] as number[] };
    for (let repetition = 0; repetition <= REPETITIONS; repetition++) {
      let from = performance.now();
      for (let n = 0; n < LOOKUPS; n++) await lookup(n);
      const us = ((performance.now() - from) * 1000) / LOOKUPS;
      from = performance.now();
      for (let n = 0; n < LISTS; n++) {
        ours.forget();
        await ours.snapshot(caller);
      }
      if (repetition === 0) continue;
      times.lookup.push(us);
      times.list.push((performance.now() - from) / LISTS);
    }
    const metric = `${TOOLS.toLocaleString("en")} tools`;
    return [
      createRow("catalog.lookup", `µs, name and policy, ${metric}`, "lower", median(times.lookup), null, {
        bound: LOOKUP_BOUND_US,
      }),
      createRow("catalog.list", `ms, rebuilt, ${metric}`, "lower", median(times.list), null, {
        bound: LIST_BOUND_MS,
      }),
    ];
  } finally {
    await schemas.close();
    await store.close();
    rmSync(folder, { recursive: true });
  }
}

function createBoundPackages(): BoundPackage[] {
  const packages: BoundPackage[] = [];
  const at = new Date(0).toISOString();
  const input = { type: "object", properties: { path: { type: "string" }, text: { type: "string" } } };
  for (let p = 0; p < TOOLS / PER_PACKAGE; p++) {
    const package_id = `bench/package-${p}`;
    const manifest = ManifestSchema.parse({
      api_version: "vai.plugin.v1",
      package_id,
      version: "1.0.0",
      name: package_id,
      runtime: { protocol: "vai.rpc.v1", entrypoint: ["node"] },
      exports: Array.from({ length: PER_PACKAGE }, (_, n) => ({
        id: `tool_${p * PER_PACKAGE + n + 1000}`,
        kind: "tool",
        description: "Does one of many things, with a description of typical length.",
        tool: {
          effect_class: "read_only",
          category: n % 2 === 0 ? "coding" : "notes",
          input_schema: "in.json",
        },
      })),
    });
    const pack: BoundPackage["package"] = {
      id: `pkg_${p}`,
      org_id: scope.org_id,
      package_id,
      version: "1.0.0",
      digest: `sha256:${String(p).padStart(64, "0")}`,
      size_bytes: 1,
      origin: "folder",
      manifest,
      schemas: { "in.json": input },
      installed_at: at,
      installed_by: "bench",
    };
    for (const { id } of manifest.exports) {
      const binding: BoundPackage["binding"] = {
        binding_id: `bind_${id}`,
        package_id,
        package_version: "1.0.0",
        export_id: id,
        kind: "tool",
        scope,
        config: {},
        secrets: {},
        status: "active",
        unbound_slots: [],
        rollout: { traffic_percent: 100 },
        policy: {},
        class_lowered_by: null,
        generation: 1,
        created_at: at,
        updated_at: at,
      };
      packages.push({ binding, package: pack });
    }
  }
  return packages;
}

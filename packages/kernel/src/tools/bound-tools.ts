/**
 * A kernel tool as the door wants it: an export of a package, bound. It exists in memory only, because it is there
 * exactly while its plugin is loaded; rows name it by its binding id, so recovery and long approvals find it again.
 */
import { hash } from "node:crypto";
import { type Binding, canonicalJson, INVOCATION_LIMITS, type Json, type Package } from "@backplane/contract";
import type { BindingSource } from "../definitions/with-definitions.ts";
import type { BoundPackage, Scope } from "../ports/index.ts";
import type { RegisteredTool, ToolTable } from "../plugins/plugins-port.ts";

const KERNEL_BINDING_PREFIX = "bind_kernel_";
const PUBLISHER = "kernel";
const SCHEMA_PATH = "parameters.json";
const BORN = new Date(0).toISOString();

/** The stored bindings, and the tools of loaded plugins beside them. */
export function withKernelTools(stored: BindingSource, tools: ToolTable): BindingSource {
  // A tool of one generation is bound once per org: a call must not pay for it.
  const made = new WeakMap<RegisteredTool, Map<string, BoundPackage>>();
  const bound = (tool: RegisteredTool, { org_id }: Scope): BoundPackage => {
    let orgs = made.get(tool);
    if (orgs === undefined) {
      orgs = new Map();
      made.set(tool, orgs);
    }
    let one = orgs.get(org_id);
    if (one === undefined) {
      one = boundTool(tool, org_id);
      orgs.set(org_id, one);
    }
    return one;
  };
  return {
    /** Loaded plugins are listed by their own table. */
    discover: (scope, kind) => stored.discover(scope, kind),
    get(scope, id) {
      if (!id.startsWith(KERNEL_BINDING_PREFIX)) return stored.get(scope, id);
      const tool = tools.get(id.slice(KERNEL_BINDING_PREFIX.length));
      return Promise.resolve(tool === null ? null : bound(tool, scope));
    },
    async candidates(scope, export_id, package_id) {
      const tool = tools.get(export_id);
      if (tool !== null && (package_id === undefined || package_id === packageId(tool))) {
        return [bound(tool, scope)];
      }
      return await stored.candidates(scope, export_id, package_id);
    },
  };
}

export function kernelBindingId(tool: string): string {
  return `${KERNEL_BINDING_PREFIX}${tool}`;
}

function packageId({ plugin }: RegisteredTool): string {
  return `${PUBLISHER}/${plugin}`;
}

function boundTool(tool: RegisteredTool, org_id: string): BoundPackage {
  const { spec, version, generation } = tool;
  const package_id = packageId(tool);
  const timeout = spec.timeout_ms ?? INVOCATION_LIMITS.default_timeout_ms;
  const pack: Package = {
    id: `pkg_kernel_${tool.plugin}`,
    org_id,
    package_id,
    version,
    digest: `sha256:${hash("sha256", canonicalJson({ package_id, version, spec }), "hex")}`,
    size_bytes: 0,
    origin: "bundled",
    manifest: {
      api_version: "vai.plugin.v1",
      package_id,
      version,
      name: tool.plugin,
      description: spec.description,
      license: "",
      source: "",
      runtime: { protocol: "module.kernel", transport: "stdio", entrypoint: [tool.plugin], env: {} },
      exports: [
        {
          id: spec.name,
          kind: "tool",
          description: spec.description,
          default_timeout_ms: timeout,
          max_timeout_ms: timeout,
          permissions: { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] },
          tool: {
            effect_class: spec.effect_class ?? "unknown",
            streaming: true,
            requires_approval: spec.requires_approval ?? false,
            input_schema: SCHEMA_PATH,
          },
        },
      ],
    },
    schemas: { [SCHEMA_PATH]: spec.parameters as Json },
    installed_at: BORN,
    installed_by: "kernel",
  };
  const binding: Binding = {
    binding_id: kernelBindingId(spec.name),
    package_id,
    package_version: version,
    export_id: spec.name,
    kind: "tool",
    scope: { org_id, project_id: null },
    config: {},
    secrets: {},
    status: "active",
    unbound_slots: [],
    rollout: { traffic_percent: 100 },
    // In a process of its own until the sandbox confines it; inline only what the operator trusts.
    policy: { class: tool.mode === "inline" ? "inline" : "worker" },
    class_lowered_by: null,
    generation,
    created_at: BORN,
    updated_at: BORN,
  };
  return { binding, package: pack };
}

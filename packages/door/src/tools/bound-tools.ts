/**
 * Presents the tools of the gateway and of loaded kernel plugins to the door as bound exports of a package. These
 * bindings exist only in memory, and those of a plugin only while it is loaded. Their ids are stable, so recovery and
 * durable approvals find them again after a restart.
 */

import { hash } from "node:crypto";
import {
  type Binding,
  canonicalJson,
  INVOCATION_LIMITS,
  type Json,
  mapMaybe,
  type Package,
} from "@backplane/contract";
import {
  type BoundPackage,
  TOOL_BINDING_PREFIX as PREFIX,
  type RegisteredTool,
  type Scope,
  type ToolTable,
} from "@backplane/ports";
import type { BindingSource } from "@backplane/registry";

const PUBLISHER = "kernel";
const CORE_PUBLISHER = "core";
const SCHEMA_PATH = "parameters.json";
const EPOCH = new Date(0).toISOString();
/** Sorts after every real date. */
const UNKNOWN_DATE = "9999-12-31T00:00:00.000Z";

/** The bindings that the door reads. */
export interface DoorBindings extends BindingSource {
  /** The tools of the gateway and of loaded plugins, bound in this scope. */
  kernelTools(scope: Scope): BoundPackage[];
  /** The tool behind a binding of `kernelTools`; null for any other binding or if the plugin is not loaded. */
  tool(binding_id: string): RegisteredTool | null;
}

/** Adds the tools of the gateway and of loaded plugins to the stored bindings. */
export function withKernelTools(
  stored: BindingSource,
  tools: ToolTable,
  core: ReadonlyMap<string, RegisteredTool>,
): DoorBindings {
  // Bound once per org and generation of a tool rather than per call (benchmark http.invoke).
  const cache = new WeakMap<RegisteredTool, Map<string, BoundPackage>>();
  const bindTool = (tool: RegisteredTool, { org_id }: Scope): BoundPackage => {
    let orgs = cache.get(tool);
    if (orgs === undefined) {
      orgs = new Map();
      cache.set(tool, orgs);
    }
    let bound = orgs.get(org_id);
    if (bound === undefined) {
      bound = buildBoundTool(tool, org_id);
      orgs.set(org_id, bound);
    }
    return bound;
  };
  const findTool = (id: string): RegisteredTool | null | undefined => {
    if (id.startsWith(PREFIX.kernel)) return tools.get(id.slice(PREFIX.kernel.length));
    return id.startsWith(PREFIX.core) ? (core.get(id.slice(PREFIX.core.length)) ?? null) : undefined;
  };
  return {
    // Listings that include the tools of plugins add `kernelTools`.
    discover: (scope, kind) => stored.discover(scope, kind),
    get(scope, id) {
      const tool = findTool(id);
      if (tool === undefined) return stored.get(scope, id);
      return tool === null ? null : bindTool(tool, scope);
    },
    findCandidates(scope, export_id, package_id) {
      const kernel_tools: BoundPackage[] = [];
      for (const tool of [core.get(export_id), tools.get(export_id)]) {
        if (tool != null && (package_id === undefined || package_id === packageIdOf(tool)))
          kernel_tools.push(bindTool(tool, scope));
      }
      // No stored package has this publisher.
      if (package_id !== undefined && kernel_tools.length > 0) return kernel_tools;
      const stored_candidates = stored.findCandidates(scope, export_id, package_id);
      return kernel_tools.length === 0
        ? stored_candidates
        : mapMaybe(stored_candidates, (more) => [...kernel_tools, ...more]);
    },
    kernelTools: (scope) => [...core.values(), ...tools.list()].map((tool) => bindTool(tool, scope)),
    tool: (binding_id) => findTool(binding_id) ?? null,
  };
}

/** The binding id of a tool of the gateway itself. */
export function coreBindingId(name: string): string {
  return `${PREFIX.core}${name}`;
}

function bindingIdOf({ spec, origin }: Pick<RegisteredTool, "spec" | "origin">): string {
  return `${origin === "core" ? PREFIX.core : PREFIX.kernel}${spec.name}`;
}

function packageIdOf({ plugin, origin }: RegisteredTool): string {
  return `${origin === "core" ? CORE_PUBLISHER : PUBLISHER}/${plugin}`;
}

function buildBoundTool(tool: RegisteredTool, org_id: string): BoundPackage {
  const { spec, version, generation } = tool;
  const package_id = packageIdOf(tool);
  const since = tool.origin === "plugin" ? tool.installed_at || UNKNOWN_DATE : EPOCH;
  const timeout = spec.timeout_ms ?? INVOCATION_LIMITS.default_timeout_ms;
  const pack: Package = {
    id: `pkg_kernel_${tool.plugin}`,
    org_id,
    package_id,
    version,
    digest: `sha256:${hash("sha256", canonicalJson({ package_id, version, spec, code: tool.digest ?? null }), "hex")}`,
    size_bytes: 0,
    origin: tool.origin === "plugin" ? "npm" : tool.origin,
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
            ...(spec.risk === undefined ? {} : { risk: spec.risk }),
            ...(spec.category === undefined ? {} : { category: spec.category }),
            ...(spec.deferred === undefined ? {} : { deferred: spec.deferred }),
          },
        },
      ],
    },
    schemas: { [SCHEMA_PATH]: spec.parameters as Json },
    installed_at: since,
    installed_by: "kernel",
  };
  const binding: Binding = {
    binding_id: bindingIdOf(tool),
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
    // Only plugins that the operator trusts run inline.
    policy: { class: tool.mode === "inline" ? "inline" : "worker" },
    class_lowered_by: null,
    generation,
    created_at: since,
    updated_at: since,
  };
  return { binding, package: pack };
}

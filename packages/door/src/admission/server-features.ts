/**
 * Applies the policy for tools to the resources and prompts of MCP servers (mcp.server, instr.origins). To the policy,
 * a server's resources are one tool `mcp_<server>_resources` and its prompts are `mcp_<server>_prompts`: read_only, of
 * low risk and of the origin mcp. The admission rules apply to these requests as they do to calls, but allow rules do
 * not. If a rule asks, reading needs a person's approval, listing is allowed, and every other request is refused
 * because it cannot wait for an answer.
 */

import {
  BackplaneError,
  boundServerName,
  type CatalogEntry,
  type JsonObject,
  type ManifestToolExport,
  type PluginExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { BoundPackage, Caller, KernelDeps, Scope } from "@backplane/ports";
import {
  combineTools,
  computeRisk,
  type EffectivePolicy,
  type ExportPlan,
  effectiveClass,
  levelBeforeCall,
  NO_RULES,
  poolKey,
  toGrant,
} from "@backplane/registry";
import { assumeValidRoot } from "../calls/revocation.ts";
import { readRuleHits } from "../open/open.ts";
import { originOf } from "../tools/precedence.ts";
import { type AdmissionState, RULES, type RuleInput } from "./rules.ts";
import { findListingDenial, widestGrant } from "./visibility.ts";

const SERVER_FEATURES = ["resources", "prompts"] as const;
/** Requests whose sender can wait until a person has answered. */
const APPROVABLE: ReadonlySet<string> = new Set(["resources/read", "prompts/get"]);
/** Requests that list resources or prompts without their contents. */
const LISTS: ReadonlySet<string> = new Set(["resources/list", "resources/templates/list", "prompts/list"]);
export type ServerFeature = (typeof SERVER_FEATURES)[number];

/** The feature that a request is for; null for a request to the server itself, such as a change of its log level. */
export function findFeature(method: string, { ref }: JsonObject): ServerFeature | null {
  if (method === "completion/complete")
    return (ref as JsonObject | undefined)?.type === "ref/prompt" ? "prompts" : "resources";
  return SERVER_FEATURES.find((feature) => method.startsWith(`${feature}/`)) ?? null;
}

/** Removes the features that the caller may not see from a server's capabilities. */
export function filterCapabilities(
  capabilities: JsonObject,
  planFeature: (feature: ServerFeature) => ExportPlan,
  caller: Caller,
  policy: EffectivePolicy,
): JsonObject {
  const hidden = SERVER_FEATURES.filter(
    (feature) =>
      capabilities[feature] !== undefined && findListingDenial(caller, planFeature(feature), policy) !== null,
  );
  if (hidden.length === 0) return capabilities;
  return Object.fromEntries(
    Object.entries(capabilities).filter(([name]) => !(hidden as readonly string[]).includes(name)),
  ) as JsonObject;
}

/**
 * Throws if a rule denies the request, or if a rule asks and the request cannot wait for an answer. Resolves with the
 * reason if a person must approve the request first, otherwise with null.
 */
export async function admitServerRequest(
  plan: ExportPlan,
  caller: Caller,
  policy: EffectivePolicy,
  state: AdmissionState,
  method: string,
  params: JsonObject,
): Promise<string | null> {
  const hits = await readRuleHits(plan, policy, params);
  const input: RuleInput = {
    caller,
    plan,
    policy,
    context: "conversation",
    input: params,
    issues: [],
    hits,
    depth: 0,
    row: null,
    root: assumeValidRoot(caller),
  };
  const grant = widestGrant(plan, policy);
  let reason: string | null = null;
  for (const rule of RULES) {
    const decision = rule.decide(input, grant, state);
    if (decision.kind === "pass" || (decision.kind === "ask" && LISTS.has(method))) continue;
    const { id } = plan.export;
    if (decision.kind === "ask" && APPROVABLE.has(method)) {
      reason ??= decision.reason;
      continue;
    }
    if (decision.kind === "ask")
      throw new BackplaneError(
        "policy.denied",
        `${method} of ${id} needs approval, and this request cannot wait for it: ${decision.reason}.`,
        { details: { rule: rule.name }, fix: `See why: backplane policy explain ${id}` },
      );
    const { code, message, details, fix } = decision;
    throw new BackplaneError(code, message, {
      details: { rule: rule.name, ...details },
      fix: fix ?? `See why: backplane policy explain ${id}`,
    });
  }
  return reason;
}

/** The plan of the tool that represents the feature in the admission rules. */
export function planServerFeature(
  bound: BoundPackage,
  feature: ServerFeature,
  scope: Scope,
  host: KernelDeps["host"],
): ExportPlan {
  const item = buildFeatureExport(bound, feature);
  const feature_bound = {
    ...bound,
    binding: { ...bound.binding, export_id: item.id },
    whole: true,
  };
  const level = levelBeforeCall(
    { ...feature_bound, export: item },
    effectiveClass(bound.binding, item),
    scope,
    host,
  );
  const grant = toGrant(level);
  return {
    bound: feature_bound,
    export: item,
    taken_out: [],
    effect_class: "read_only",
    class: grant.class,
    level,
    grant,
    pool_key: poolKey(bound, scope, grant),
    concurrency_key: bound.binding.binding_id,
    checkInput: null,
    checkOutput: null,
    rules: NO_RULES,
  };
}

function buildFeatureExport(
  { binding, package: pack }: BoundPackage,
  feature: ServerFeature,
): ManifestToolExport {
  const combined: PluginExport = combineTools(pack)!;
  const server = boundServerName(binding);
  return {
    ...combined,
    id: toToolName(server, feature),
    kind: "tool",
    description: `The ${feature} of the MCP server ${server}.`,
    tool: { effect_class: "read_only", risk: "low", streaming: false, requires_approval: false },
  };
}

/** The feature as an entry of the catalog, for `policy explain`. */
export function buildFeatureEntry(plan: ExportPlan, caller: Caller, policy: EffectivePolicy): CatalogEntry {
  const { bound, export: item } = plan;
  const denial = findListingDenial(caller, plan, policy);
  return {
    name: item.id,
    title: null,
    description: item.description ?? "",
    origin: originOf(bound),
    package_id: bound.package.package_id,
    package_version: bound.package.version,
    binding_id: bound.binding.binding_id,
    status: denial === null ? "offered" : "hidden",
    reason: denial?.reason ?? null,
    fix: denial?.fix ?? null,
    category: null,
    risk: computeRisk(plan, widestGrant(plan, policy), policy, []).risk,
    effect_class: "read_only",
    requires_approval: false,
    deferred: false,
    deferred_by: null,
    token_cost: 0,
    input_schema: { type: "object" },
    taken_out: [],
  };
}

/** The server and feature that a tool name of `policy explain` refers to, or null. */
export function findFeatureByName(
  name: string,
  servers: readonly BoundPackage[],
): { bound: BoundPackage; feature: ServerFeature } | null {
  for (const bound of servers) {
    if (bound.binding.export_id !== WHOLE_PACKAGE) continue;
    const server = boundServerName(bound.binding);
    for (const feature of SERVER_FEATURES)
      if (name === toToolName(server, feature)) return { bound, feature };
  }
  return null;
}

function toToolName(server: string, feature: ServerFeature): string {
  return `mcp_${server}_${feature}`;
}

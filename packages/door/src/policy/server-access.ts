/**
 * Resources and prompts of MCP servers under the policy of tools (mcp.server, instr.origins). A server's resources count
 * as one tool `mcp_<server>_resources`, its prompts as `mcp_<server>_prompts`: reading only, of low risk, of the origin
 * mcp. The rules of admission decide on them as on any call, denials first. Where they ask, a person is asked before
 * something is read; what there is is shown, as tools that ask are; of the rest nobody can be asked, and it is refused.
 */

import {
  BackplaneError,
  type CatalogEntry,
  type JsonObject,
  type PluginExport,
  serverName,
  type ToolExport,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { BoundPackage, Caller, KernelDeps, Scope } from "@backplane/ports";
import {
  combineTools,
  type EffectivePolicy,
  type ExportPlan,
  effectiveClass,
  NO_RULES,
  poolKey,
  standingLevel,
  toGrant,
} from "@backplane/registry";
import { assumeStanding } from "../calls/revocation.ts";
import { ruleHits } from "../open/open.ts";
import { originOf } from "../tools/origin.ts";
import { forbidden, grantUnder } from "./forbidden.ts";
import { riskOf } from "./risk.ts";
import type { Asked, Surroundings } from "./rule.ts";
import { RULES } from "./rules.ts";

const SERVER_PARTS = ["resources", "prompts"] as const;
/** Whoever makes these waits for the answer. */
const ASKABLE: ReadonlySet<string> = new Set(["resources/read", "prompts/get"]);
/** Names and addresses alone. */
const LISTS: ReadonlySet<string> = new Set(["resources/list", "resources/templates/list", "prompts/list"]);
export type ServerPart = (typeof SERVER_PARTS)[number];

/** Null: a request that is about the server itself, such as its log level. */
export function partOf(method: string, { ref }: JsonObject): ServerPart | null {
  if (method === "completion/complete")
    return (ref as JsonObject | undefined)?.type === "ref/prompt" ? "prompts" : "resources";
  return SERVER_PARTS.find((part) => method.startsWith(`${part}/`)) ?? null;
}

/** What the caller may be shown of what a server can do. */
export function visibleParts(
  capabilities: JsonObject,
  planOf: (part: ServerPart) => ExportPlan,
  caller: Caller,
  policy: EffectivePolicy,
): JsonObject {
  const hidden = SERVER_PARTS.filter(
    (part) => capabilities[part] !== undefined && forbidden(caller, planOf(part), policy) !== null,
  );
  if (hidden.length === 0) return capabilities;
  return Object.fromEntries(
    Object.entries(capabilities).filter(([name]) => !(hidden as readonly string[]).includes(name)),
  ) as JsonObject;
}

/** Throws policy.denied with the rule that decided. Answers why a person is to be asked first; null: nobody is. */
export async function requirePart(
  plan: ExportPlan,
  caller: Caller,
  policy: EffectivePolicy,
  around: Surroundings,
  method: string,
  params: JsonObject,
): Promise<string | null> {
  const hits = await ruleHits(plan, policy, params);
  const asked: Asked = {
    caller,
    plan,
    policy,
    context: "conversation",
    issues: [],
    hits,
    depth: 0,
    row: null,
    standing: assumeStanding(caller),
  };
  const grant = grantUnder(plan, policy);
  let why: string | null = null;
  for (const rule of RULES) {
    const decision = rule.decide(asked, grant, around);
    if (decision.kind === "pass" || (decision.kind === "ask" && LISTS.has(method))) continue;
    const { id } = plan.export;
    if (decision.kind === "ask" && ASKABLE.has(method)) {
      why ??= decision.reason;
      continue;
    }
    if (decision.kind === "ask")
      throw new BackplaneError("policy.denied", `nobody can be asked about ${id}, and ${decision.reason}`, {
        details: { rule: rule.name },
        fix: `See why: backplane policy explain ${id}`,
      });
    const { code, message, details, fix } = decision;
    throw new BackplaneError(code, message, {
      details: { rule: rule.name, ...details },
      fix: fix ?? `See why: backplane policy explain ${id}`,
    });
  }
  return why;
}

/** The part as the rules of admission look at a tool. */
export function partPlan(
  bound: BoundPackage,
  part: ServerPart,
  scope: Scope,
  host: KernelDeps["host"],
): ExportPlan {
  const item = partExport(bound, part);
  const named = {
    ...bound,
    binding: { ...bound.binding, export_id: item.id },
    whole: true,
  };
  const level = standingLevel({ ...named, export: item }, effectiveClass(bound.binding, item), scope, host);
  const grant = toGrant(level);
  return {
    bound: named,
    export: item,
    taken_out: [],
    effect_class: "read_only",
    class: grant.class,
    level,
    grant,
    pool_key: poolKey(bound, scope, grant),
    gate: bound.binding.binding_id,
    checkInput: null,
    checkOutput: null,
    rules: NO_RULES,
  };
}

function partExport({ package: pack }: BoundPackage, part: ServerPart): ToolExport {
  const whole: PluginExport = combineTools(pack)!;
  const server = serverName(pack.package_id);
  return {
    ...whole,
    id: `mcp_${server}_${part}`,
    kind: "tool",
    description: `The ${part} of the MCP server ${server}.`,
    tool: { effect_class: "read_only", risk: "low", streaming: false, requires_approval: false },
  };
}

/** For `policy explain`, which shows what it speaks of as the catalog would. */
export function partEntry(plan: ExportPlan, caller: Caller, policy: EffectivePolicy): CatalogEntry {
  const { bound, export: item } = plan;
  const refused = forbidden(caller, plan, policy);
  return {
    name: item.id,
    title: null,
    description: item.description ?? "",
    origin: originOf(bound),
    package_id: bound.package.package_id,
    package_version: bound.package.version,
    binding_id: bound.binding.binding_id,
    status: refused === null ? "offered" : "hidden",
    reason: refused?.reason ?? null,
    fix: refused?.fix ?? null,
    category: null,
    risk: riskOf(plan, grantUnder(plan, policy), policy, []).risk,
    effect_class: "read_only",
    requires_approval: false,
    deferred: false,
    token_cost: 0,
    input_schema: { type: "object" },
    taken_out: [],
  };
}

/** Which part of which server a name of `explain` means, among these bindings; null: none. */
export function partNamed(
  name: string,
  servers: readonly BoundPackage[],
): { bound: BoundPackage; part: ServerPart } | null {
  for (const bound of servers) {
    if (bound.binding.export_id !== WHOLE_PACKAGE) continue;
    for (const part of SERVER_PARTS)
      if (name === `mcp_${serverName(bound.package.package_id)}_${part}`) return { bound, part };
  }
  return null;
}

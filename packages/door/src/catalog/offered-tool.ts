/**
 * A tool as it is offered to models and, with more details, to clients. The expensive parts do not depend on the caller
 * and are computed once per plan, because the catalog is rebuilt often.
 */

import {
  type Deferral,
  type EffectClass,
  isObject,
  type Json,
  type JsonObject,
  type LlmTool,
  type Origin,
  type Risk,
} from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import { computeRisk, type EffectivePolicy, type ExportPlan } from "@backplane/registry";
import { share } from "@backplane/session";
import { widestGrant } from "../admission/visibility.ts";

export interface OfferedTool extends LlmTool {
  /** The part that every model call sends. */
  llm_tool: LlmTool;
  package_id: string;
  /** Set for a tool of the gateway or of a kernel plugin; null if rollout picks the binding for each call. */
  binding_id: string | null;
  export_id: string;
  /** Whether a plugin answers the tool.call.request events of this tool itself. */
  legacy: boolean;
  /** Null if models see the tool without a search. */
  deferred_by: Deferral | null;
  keywords: readonly string[];
  origin: Origin;
  /** Further details for clients. */
  details: ToolDetails;
}

interface ToolDetails {
  title: string | null;
  output_schema: JsonObject | null;
  effect_class: EffectClass;
  requires_approval: boolean;
  risk: Risk;
}

/** The parts of a tool that are the same for every caller. */
export interface SharedToolView {
  llm_tool: LlmTool;
  title: string | null;
  output_schema: JsonObject | null;
  token_cost: number;
}

const ANY_OBJECT: JsonObject = { type: "object", properties: {} };

export function sharedViewOf({ export: item, bound }: ExportPlan): SharedToolView {
  const tool = item.kind === "tool" ? item.tool : null;
  const title = item.display_name ?? item.id;
  const llm_tool = share({
    name: item.id,
    description: item.description === undefined || item.description === "" ? title : item.description,
    parameters: toObjectSchema(schemaAt(bound, tool?.input_schema)),
  });
  const output = schemaAt(bound, tool?.output_schema);
  return {
    llm_tool,
    title: title === item.id ? null : title,
    output_schema: isObject(output) ? output : null,
    token_cost: estimateTokenCost(llm_tool),
  };
}

export function buildOfferedTool(
  { llm_tool, title, output_schema }: SharedToolView,
  origin: Origin,
  plan: ExportPlan,
  policy: EffectivePolicy,
  legacy: boolean,
): OfferedTool {
  const { export: item, bound } = plan;
  const tool = item.kind === "tool" ? item.tool : null;
  const runs_in_gateway = bound.package.manifest.runtime.protocol === "module.kernel";
  return {
    ...llm_tool,
    llm_tool,
    package_id: bound.package.package_id,
    binding_id: runs_in_gateway ? bound.binding.binding_id : null,
    export_id: item.id,
    legacy,
    deferred_by: findDeferral(item.id, tool?.deferred === true, policy),
    keywords: tool?.keywords ?? [],
    origin,
    details: {
      title,
      output_schema,
      effect_class: plan.effect_class,
      requires_approval: tool?.requires_approval ?? false,
      risk: computeRisk(plan, widestGrant(plan, policy), policy, []).risk,
    },
  };
}

function findDeferral(name: string, by_author: boolean, policy: EffectivePolicy): Deferral | null {
  if (policy.pinned(name)) return null;
  if (policy.deferred(name)) return "policy";
  return by_author ? "author" : null;
}

const CHARACTERS_PER_TOKEN = 4;

/**
 * Estimates the tokens that a tool adds to each model call (tools.token-cost): the length of its name, description and
 * schema as JSON, divided by four and rounded up. Tokenizers differ by about a fifth; a single estimate keeps tools
 * comparable.
 */
export function estimateTokenCost({ name, description, parameters }: LlmTool): number {
  return Math.ceil(JSON.stringify({ name, description, parameters }).length / CHARACTERS_PER_TOKEN);
}

function schemaAt({ package: pack }: BoundPackage, path: string | undefined): Json | null {
  return path === undefined ? null : (pack.schemas[path] ?? null);
}

/** Model vendors require an object schema. A tool without one accepts any object. */
export function toObjectSchema(schema: Json | null): JsonObject {
  return isObject(schema) ? schema : ANY_OBJECT;
}

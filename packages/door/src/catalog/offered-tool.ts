/**
 * A tool as it is offered: to a model, in the words of its schema, and to clients, with what they are told beside that.
 * What does not depend on who asks is made once per plan, because the catalog is made anew all the time.
 */

import type { EffectClass, Json, JsonObject, LlmTool, Origin, Risk } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import type { EffectivePolicy, ExportPlan } from "@backplane/registry";
import { share } from "@backplane/session";
import { grantUnder } from "../policy/forbidden.ts";
import { riskOf } from "../policy/risk.ts";
import { tokenCost } from "./token-cost.ts";

export interface OfferedTool extends LlmTool {
  /** As every model call shows it. */
  shown: LlmTool;
  package_id: string;
  /** Of a tool that the gateway itself runs; null where rollout decides at the call. */
  binding_id: string | null;
  export_id: string;
  legacy: boolean;
  deferred: boolean;
  keywords: readonly string[];
  origin: Origin;
  /** What clients outside of the loop are told beside that. */
  about: ToolAbout;
}

interface ToolAbout {
  title: string | null;
  output_schema: JsonObject | null;
  effect_class: EffectClass;
  requires_approval: boolean;
  risk: Risk;
}

/** What a tool is whoever asks. */
export interface ToolFacts {
  shown: LlmTool;
  title: string | null;
  output_schema: JsonObject | null;
  token_cost: number;
}

const ANYTHING: JsonObject = { type: "object", properties: {} };

export function factsOf({ export: item, bound }: ExportPlan): ToolFacts {
  const tool = item.kind === "tool" ? item.tool : null;
  const title = item.display_name ?? item.id;
  const shown = share({
    name: item.id,
    description: item.description === undefined || item.description === "" ? title : item.description,
    parameters: objectSchema(schemaAt(bound, tool?.input_schema)),
  });
  const output = schemaAt(bound, tool?.output_schema);
  return {
    shown,
    title: title === item.id ? null : title,
    output_schema: isObject(output) ? output : null,
    token_cost: tokenCost(shown),
  };
}

export function offer(
  { shown, title, output_schema }: ToolFacts,
  origin: Origin,
  plan: ExportPlan,
  policy: EffectivePolicy,
  legacy: boolean,
): OfferedTool {
  const { export: item, bound } = plan;
  const tool = item.kind === "tool" ? item.tool : null;
  const own = bound.package.manifest.runtime.protocol === "module.kernel";
  return {
    ...shown,
    shown,
    package_id: bound.package.package_id,
    binding_id: own ? bound.binding.binding_id : null,
    export_id: item.id,
    legacy,
    deferred: tool?.deferred === true || policy.deferred(item.id),
    keywords: tool?.keywords ?? [],
    origin,
    about: {
      title,
      output_schema,
      effect_class: plan.effect_class,
      requires_approval: tool?.requires_approval ?? false,
      risk: riskOf(plan, grantUnder(plan, policy), policy, []).risk,
    },
  };
}

function schemaAt({ package: pack }: BoundPackage, path: string | undefined): Json | null {
  return path === undefined ? null : (pack.schemas[path] ?? null);
}

/** Vendors want an object; a tool without a schema takes any. */
export function objectSchema(schema: Json | null): JsonObject {
  return isObject(schema) ? schema : ANYTHING;
}

function isObject(value: Json | null): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

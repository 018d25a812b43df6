/** Why a role may not use a tool: its origin, its name, its category, or more risk than the role may take. */

import { compareRisk, type Grant } from "@backplane/contract";
import { type CompiledSelection, normalizeCategory } from "@backplane/registry";
import { originOf } from "../tools/origin.ts";
import { riskOf } from "./risk.ts";
import type { Asked } from "./rule.ts";

/** Denial comes first: what is denied is denied whatever is allowed (instr.origins). */
export function roleForbids({ caller, plan, policy, hits }: Asked, grant: Grant): string | null {
  if (plan.export.kind !== "tool") return null;
  for (const { allow, deny: denied, max_risk } of policy.roles.get(caller.role) ?? []) {
    const facts = factsOf(plan);
    if (denied !== null) {
      if (denied.origins?.has(facts.origin)) return `its origin ${facts.origin} is denied`;
      if (denied.tools?.(facts.name)) return "the tool is denied";
      if (facts.category !== undefined && denied.categories?.has(normalizeCategory(facts.category)))
        return `its category ${facts.category} is denied`;
    }
    const missing = allow === null ? null : notIn(allow, facts);
    if (missing !== null) return missing;
    if (max_risk === null) continue;
    const { risk } = riskOf(plan, grant, policy, hits);
    if (compareRisk(risk, max_risk) > 0) return `its risk is ${risk}, and the role may use up to ${max_risk}`;
  }
  return null;
}

function notIn(allow: CompiledSelection, { origin, name, category }: ToolFacts): string | null {
  if (allow.origins !== null && !allow.origins.has(origin)) return `its origin ${origin} is not allowed`;
  if (allow.tools !== null && !allow.tools(name)) return "the tool is not among those allowed";
  if (allow.categories === null) return null;
  if (category === undefined) return "it has no category, and only some are allowed";
  return allow.categories.has(normalizeCategory(category)) ? null : `its category ${category} is not allowed`;
}

type ToolFacts = ReturnType<typeof factsOf>;

function factsOf({ export: item, bound }: Asked["plan"]) {
  const category = item.kind === "tool" ? item.tool.category : undefined;
  return { name: item.id, origin: originOf(bound), category };
}

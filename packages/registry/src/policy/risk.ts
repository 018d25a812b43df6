/**
 * The risk of one call (tools.risk-map, tools.risk-floor): the highest risk that any source assigns. The operator's
 * judgment replaces the author's; every other source can only raise the risk.
 */

import {
  type EffectClass,
  type Grant,
  higherRisk,
  type JsonObject,
  type PluginExport,
  RISK_OF_EFFECT,
  type Risk,
  type RiskSource,
} from "@backplane/contract";
import type { EffectivePolicy } from "./effective-policy.ts";
import { normalizeCategory } from "./merge-policies.ts";
import type { RuleHit } from "./security-rules.ts";

interface RatedExport {
  export: PluginExport;
  effect_class: EffectClass;
}

interface RiskReport {
  risk: Risk;
  sources: RiskSource[];
}

interface CachedReport {
  grant: Grant;
  policy: EffectivePolicy;
  report: RiskReport;
}

/**
 * The last report of each plan, because several rules need the risk in every call (benchmark http.invoke). A plan, its
 * grant and a policy are the same objects until one of them changes.
 */
const reports = new WeakMap<object, CachedReport>();

export function computeRisk(
  plan: RatedExport,
  grant: Grant,
  policy: EffectivePolicy,
  hits: readonly RuleHit[],
): RiskReport {
  // Hits depend on the arguments, so such a report is not worth caching.
  if (hits.length > 0) return assessRisk(plan, grant, policy, hits);
  const cached = reports.get(plan);
  if (cached !== undefined && cached.grant === grant && cached.policy === policy) return cached.report;
  const report = assessRisk(plan, grant, policy, hits);
  reports.set(plan, { grant, policy, report });
  return report;
}

function assessRisk(
  plan: RatedExport,
  grant: Grant,
  policy: EffectivePolicy,
  hits: readonly RuleHit[],
): RiskReport {
  const { export: item, effect_class } = plan;
  const sources: RiskSource[] = [];
  const add = (source: RiskSource["source"], risk: Risk, reason: string) =>
    sources.push({ source, risk, why: reason });
  const tool = item.kind === "tool" ? item.tool : null;
  const org_risk = policy.findOrgRisk(item.id);
  if (org_risk !== null) add("operator", org_risk, "the policy assigns a risk to this tool");
  else if (tool?.risk !== undefined) add("author", tool.risk, "the tool's author declares it");
  // An undeclared effect class is used only if nobody declared the risk itself.
  if (effect_class !== "unknown" || sources.length === 0)
    add("effect_class", RISK_OF_EFFECT[effect_class], `the effect class is ${effect_class}`);
  const hinted = riskOfHints(tool?.hints);
  if (hinted !== null) add("hints", hinted.risk, hinted.why);
  for (const { risk, why } of findFloors(item, grant, policy)) add("floor", risk, why);
  const project_risk = policy.findProjectRisk(item.id);
  if (project_risk !== null)
    add("project", project_risk, "the project's policy raises the risk of this tool");
  for (const hit of hits) if (hit.action === "raise") add("rule", hit.risk, `${hit.name}: ${hit.reason}`);
  let risk = sources[0]!.risk;
  for (const source of sources) risk = higherRisk(risk, source.risk);
  return { risk, sources };
}

/** Hints can only raise the risk: any server can claim that its tool only reads. */
function riskOfHints(hints: JsonObject | undefined): { risk: Risk; why: string } | null {
  if (hints === undefined) return null;
  if (hints.destructiveHint === true)
    return { risk: "high", why: "its server declares that it may be destructive" };
  if (hints.readOnlyHint === false) return { risk: "medium", why: "its server declares that it writes" };
  return null;
}

function findFloors(
  item: PluginExport,
  grant: Grant,
  { document: { floor } }: EffectivePolicy,
): { risk: Risk; why: string }[] {
  const floors: { risk: Risk; why: string }[] = [];
  if (floor.egress !== undefined && grant.network === "egress")
    floors.push({ risk: floor.egress, why: "it is granted network access" });
  if (floor.writable_mounts !== undefined && grant.mounts.some(({ writable }) => writable))
    floors.push({ risk: floor.writable_mounts, why: "it is granted a folder on the host to write to" });
  if (item.kind !== "tool") return floors;
  const { target, category } = item.tool;
  if (floor.host !== undefined && target === "host")
    floors.push({ risk: floor.host, why: "it runs on the host, outside the sandbox" });
  const category_floor =
    category === undefined ? undefined : getOwnRisk(floor.categories, normalizeCategory(category));
  if (category_floor !== undefined)
    floors.push({ risk: category_floor, why: `the floor of the category ${category}` });
  return floors;
}

/** The category comes from the package, and `constructor` is a key of every object. */
function getOwnRisk(risks: Record<string, Risk> | undefined, name: string): Risk | undefined {
  return risks !== undefined && Object.hasOwn(risks, name) ? risks[name] : undefined;
}

/**
 * The band of one call (tools.risk-map, tools.risk-floor): what its author or the operator says of the tool, raised by
 * everything that speaks for more. Nothing lowers: a source that says less than another has said nothing.
 */

import {
  type Grant,
  higherRisk,
  type JsonObject,
  type PluginExport,
  RISK_OF_EFFECT,
  type Risk,
  type RiskSource,
} from "@backplane/contract";
import { type EffectivePolicy, type ExportPlan, normalizeCategory, type RuleHit } from "@backplane/registry";

export interface RiskReport {
  risk: Risk;
  sources: RiskSource[];
}

interface Known {
  grant: Grant;
  policy: EffectivePolicy;
  report: RiskReport;
}

/** Of the last call of each plan: a plan, its grant and a policy stay the same values until one of them changes. */
const known = new WeakMap<object, Known>();

/** Asked by several rules in every call. */
export function riskOf(
  plan: Pick<ExportPlan, "export" | "effect_class">,
  grant: Grant,
  policy: EffectivePolicy,
  hits: readonly RuleHit[],
): RiskReport {
  // Rules meet the arguments, which are never the same.
  if (hits.length > 0) return judge(plan, grant, policy, hits);
  const last = known.get(plan);
  if (last !== undefined && last.grant === grant && last.policy === policy) return last.report;
  const report = judge(plan, grant, policy, hits);
  known.set(plan, { grant, policy, report });
  return report;
}

function judge(
  plan: Pick<ExportPlan, "export" | "effect_class">,
  grant: Grant,
  policy: EffectivePolicy,
  hits: readonly RuleHit[],
): RiskReport {
  const { export: item, effect_class } = plan;
  const sources: RiskSource[] = [];
  const says = (source: RiskSource["source"], risk: Risk, why: string) => sources.push({ source, risk, why });
  const tool = item.kind === "tool" ? item.tool : null;
  const judged = policy.judged(item.id);
  if (judged !== null) says("operator", judged, "the policy's risks name this tool");
  else if (tool?.risk !== undefined) says("author", tool.risk, "the tool's author says so");
  // An effect that nobody declared says nothing beside a judgement of the risk itself.
  if (effect_class !== "unknown" || sources.length === 0)
    says("effect_class", RISK_OF_EFFECT[effect_class], `the effect class is ${effect_class}`);
  const hinted = riskOfHints(tool?.hints);
  if (hinted !== null) says("hints", hinted.risk, hinted.why);
  for (const { risk, why } of floorOf(item, grant, policy)) says("floor", risk, why);
  const raised = policy.raised(item.id);
  if (raised !== null) says("project", raised, "the project's policy raises this tool");
  for (const hit of hits) if (hit.action === "raise") says("rule", hit.risk, `${hit.name}: ${hit.reason}`);
  let risk = sources[0]!.risk;
  for (const source of sources) risk = higherRisk(risk, source.risk);
  return { risk, sources };
}

/** Only what a server says against itself counts; that a tool only reads is a claim that anybody can make. */
function riskOfHints(hints: JsonObject | undefined): { risk: Risk; why: string } | null {
  if (hints === undefined) return null;
  if (hints.destructiveHint === true) return { risk: "high", why: "its server says that it may destroy" };
  if (hints.readOnlyHint === false) return { risk: "medium", why: "its server says that it writes" };
  return null;
}

function floorOf(
  item: PluginExport,
  grant: Grant,
  { document: { floor } }: EffectivePolicy,
): { risk: Risk; why: string }[] {
  const least: { risk: Risk; why: string }[] = [];
  if (floor.egress !== undefined && grant.network === "egress")
    least.push({ risk: floor.egress, why: "it is granted the network" });
  if (floor.writable_mounts !== undefined && grant.mounts.some(({ writable }) => writable))
    least.push({ risk: floor.writable_mounts, why: "it is granted a folder of the host to write to" });
  if (item.kind !== "tool") return least;
  const { target, category } = item.tool;
  if (floor.host !== undefined && target === "host")
    least.push({ risk: floor.host, why: "it runs on the host, outside of the sandbox" });
  const own = category === undefined ? undefined : ownRisk(floor.categories, normalizeCategory(category));
  if (own !== undefined) least.push({ risk: own, why: `the floor of the category ${category}` });
  return least;
}

/** The name is a stranger's: `constructor` names something in every object. */
function ownRisk(risks: Record<string, Risk> | undefined, name: string): Risk | undefined {
  return risks !== undefined && Object.hasOwn(risks, name) ? risks[name] : undefined;
}

/** Explains why a call would run, need approval or be refused (api.policy), by applying every rule of admission. */

import {
  BackplaneError,
  type CallContext,
  type CatalogEntry,
  definedFields,
  type Json,
  type MaybePromise,
  type PolicyExplanation,
  type PolicyStep,
  type Role,
} from "@backplane/contract";
import {
  type AllowRuleRow,
  type BoundPackage,
  type Caller,
  type HostPolicy,
  requireOperator,
  type Scope,
} from "@backplane/ports";
import { computeRisk, type ExportPlan, type Policies, toleranceFor } from "@backplane/registry";
import { type AdmissionState, RULES, type RuleDecision, type RuleInput } from "../admission/rules.ts";
import { buildFeatureEntry, findFeatureByName, planServerFeature } from "../admission/server-features.ts";
import { widestGrant } from "../admission/visibility.ts";
import { assumeValidRoot } from "../calls/revocation.ts";
import { findInputIssues } from "../open/check-input.ts";
import { readRuleHits } from "../open/open.ts";
import { skeletonOf } from "../tools/confusable-names.ts";
import type { ToolCatalog } from "./catalog.ts";
import type { ListHiddenTools } from "./hidden-tools.ts";

interface ExplainDeps {
  catalog: ToolCatalog;
  listHiddenTools: ListHiddenTools;
  policies: Policies;
  state: AdmissionState;
  host: HostPolicy;
  /** The allow rules that hold for calls from this caller to this package. */
  readAllowRules: (call: Pick<RuleInput, "plan" | "caller" | "root">) => Promise<AllowRuleRow[]>;
  /** The active tool bindings, including those of whole servers. */
  listToolBindings: (scope: Scope) => MaybePromise<readonly BoundPackage[]>;
}

interface ExplainQuery {
  tool: string;
  context: CallContext;
  role?: Role;
  /** Defaults to the channel of the operator's own request. */
  channel?: string;
  /** Without an input, the rules that look at the arguments pass. */
  input?: Json;
}

export async function explain(
  { catalog, listHiddenTools, policies, state, host, readAllowRules, listToolBindings }: ExplainDeps,
  operator: Caller,
  { tool, context, role, channel, input }: ExplainQuery,
): Promise<PolicyExplanation> {
  requireOperator(operator, "read policy explanations");
  const caller: Caller = { ...operator, ...definedFields({ role, channel }) };
  const [{ entries, plans }, policy] = await Promise.all([
    catalog.snapshot(caller),
    policies.getEffective(caller.scope),
  ]);
  const same_name_entries = entries.filter(({ name }) => skeletonOf(name) === skeletonOf(tool));
  const holder = same_name_entries.find(({ status }) => status === "offered" || status === "hidden");
  const own_plan = plans.get(tool);
  const feature = own_plan === undefined || holder === undefined ? await findServerFeature() : null;
  const plan = feature ?? own_plan;
  const winner = feature === null ? holder : buildFeatureEntry(feature, caller, policy);
  if (plan === undefined || winner === undefined) {
    const entry = same_name_entries.find(({ name }) => name === tool);
    if (entry === undefined) throw notOfferedError(tool, await listHiddenTools(caller));
    throw new BackplaneError("tool.collision", `The tool ${tool} is not registered: ${entry.reason}.`);
  }
  const [issues, hits] =
    input === undefined
      ? [[], []]
      : await Promise.all([findInputIssues(plan, input, host), readRuleHits(plan, policy, input)]);
  async function findServerFeature(): Promise<ExportPlan | null> {
    const match = findFeatureByName(tool, await listToolBindings(caller.scope));
    return match === null ? null : planServerFeature(match.bound, match.feature, caller.scope, host);
  }
  const root = assumeValidRoot(caller);
  const call: RuleInput = {
    caller,
    plan,
    policy,
    context,
    input: input ?? null,
    issues,
    hits,
    depth: 0,
    row: null,
    root,
  };
  const grant = widestGrant(plan, policy);
  // As in `admitServerRequest`: allow rules do not cover resources and prompts.
  const allow_rules = feature === null ? await readAllowRules(call) : [];
  let allowed_by: string | null = null;
  const steps: PolicyStep[] = RULES.map((rule) => {
    const decision = rule.decide(call, grant, state, allow_rules);
    if (decision.kind === "pass") allowed_by ??= decision.allowed_by ?? null;
    const reason = reasonOf(decision);
    return { rule: rule.name, about: rule.about, decision: decision.kind, reason };
  });
  const decisive =
    steps.find(({ decision }) => decision === "deny") ?? steps.find(({ decision }) => decision === "ask");
  const [tolerance, tolerance_without_channel] =
    context === "direct"
      ? [null, null]
      : [toleranceFor(policy, context, caller.channel), toleranceFor(policy, context, undefined)];
  const { risk, sources } = computeRisk(plan, grant, policy, hits);
  return {
    tool,
    outcome: decisive === undefined ? "run" : decisive.decision === "deny" ? "deny" : "ask",
    decided_by: decisive?.rule ?? null,
    reason: decisive?.reason ?? null,
    context,
    role: caller.role,
    channel: caller.channel ?? null,
    tolerance,
    tolerance_channel: tolerance === tolerance_without_channel ? null : (caller.channel ?? null),
    risk,
    risk_sources: sources,
    allowed_by: decisive === undefined ? allowed_by : null,
    winner,
    losers: same_name_entries.filter((entry) => entry !== winner),
    steps,
  };
}

function reasonOf(decision: RuleDecision): string | null {
  if (decision.kind === "ask") return decision.reason;
  if (decision.kind === "deny") return decision.message;
  return decision.allowed_by === undefined ? null : `allowed by ${decision.allowed_by}`;
}

/** Includes the reason and the fix if the tool is bound but hidden. */
function notOfferedError(tool: string, hidden: readonly CatalogEntry[]): BackplaneError {
  const entry = hidden.find(({ name }) => name === tool);
  if (entry === undefined) return new BackplaneError("tool.not_found", `There is no tool ${tool}.`);
  const message = `The tool ${tool} is not offered: ${entry.reason}.`;
  return new BackplaneError("tool.not_found", message, entry.fix === null ? {} : { fix: entry.fix });
}

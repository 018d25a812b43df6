/** Why a call would run, ask or be refused (api.policy): the list of rules that admits calls, asked to the end. */

import {
  BackplaneError,
  type CallContext,
  type CatalogEntry,
  type Json,
  type MaybePromise,
  type PolicyExplanation,
  type PolicyStep,
  type Role,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  type HostPolicy,
  requireOperator,
  type Scope,
} from "@backplane/ports";
import type { ExportPlan, Policies } from "@backplane/registry";
import { assumeStanding } from "../calls/revocation.ts";
import { inputIssues } from "../open/input-issues.ts";
import { ruleHits } from "../open/open.ts";
import { grantUnder } from "../policy/forbidden.ts";
import { riskOf } from "../policy/risk.ts";
import type { Asked, Surroundings } from "../policy/rule.ts";
import { RULES } from "../policy/rules.ts";
import { partEntry, partNamed, partPlan } from "../policy/server-access.ts";
import { skeletonOf } from "../tools/name.ts";
import type { ToolCatalog } from "./catalog.ts";
import type { KeptBack } from "./hidden-tools.ts";

export interface ExplainDeps {
  catalog: ToolCatalog;
  keptBack: KeptBack;
  policies: Policies;
  around: Surroundings;
  host: HostPolicy;
  /** Active bindings of tools, those of whole servers among them. */
  servers: (scope: Scope) => MaybePromise<readonly BoundPackage[]>;
}

export interface Question {
  tool: string;
  context: CallContext;
  role?: Role;
  /** Left out, what the arguments would decide is taken as passed. */
  input?: Json;
}

export async function explain(
  { catalog, keptBack, policies, around, host, servers }: ExplainDeps,
  asker: Caller,
  { tool, context, role, input }: Question,
): Promise<PolicyExplanation> {
  requireOperator(asker, "ask about the policy");
  const caller: Caller = role === undefined ? asker : { ...asker, role };
  const [{ entries, plans }, policy] = await Promise.all([
    catalog.snapshot(caller),
    policies.of(caller.scope),
  ]);
  const named = entries.filter(({ name }) => skeletonOf(name) === skeletonOf(tool));
  const holder = named.find(({ status }) => status === "offered" || status === "hidden");
  const found = plans.get(tool);
  const part = found === undefined || holder === undefined ? await partAt(tool) : null;
  const plan = part ?? found;
  const winner = part === null ? holder : partEntry(part, caller, policy);
  if (plan === undefined || winner === undefined) {
    const other = named.find(({ name }) => name === tool);
    if (other === undefined) throw notThere(tool, await keptBack(caller));
    throw new BackplaneError("tool.collision", `${tool} is not registered: ${other.reason}`);
  }
  const [issues, hits] =
    input === undefined
      ? [[], []]
      : await Promise.all([inputIssues(plan, input, host), ruleHits(plan, policy, input)]);
  /** Resources and prompts of a server go by the same rules under names of their own. */
  async function partAt(name: string): Promise<ExportPlan | null> {
    const at = partNamed(name, await servers(caller.scope));
    return at === null ? null : partPlan(at.bound, at.part, caller.scope, host);
  }
  const standing = assumeStanding(caller);
  const asked: Asked = { caller, plan, policy, context, issues, hits, depth: 0, row: null, standing };
  const grant = grantUnder(plan, policy);
  const steps: PolicyStep[] = RULES.map((rule) => {
    const decision = rule.decide(asked, grant, around);
    const reason =
      decision.kind === "pass" ? null : decision.kind === "ask" ? decision.reason : decision.message;
    return { rule: rule.name, about: rule.about, decision: decision.kind, reason };
  });
  const decisive =
    steps.find(({ decision }) => decision === "deny") ?? steps.find(({ decision }) => decision === "ask");
  const { risk, sources } = riskOf(plan, grant, policy, hits);
  return {
    tool,
    outcome: decisive === undefined ? "run" : decisive.decision === "deny" ? "deny" : "ask",
    decided_by: decisive?.rule ?? null,
    reason: decisive?.reason ?? null,
    context,
    role: caller.role,
    tolerance: context === "direct" ? null : policy.document.tolerance[context],
    risk,
    risk_sources: sources,
    winner,
    losers: named.filter((entry) => entry !== winner),
    steps,
  };
}

/** One that is bound and kept back is said to be, with what lets it in. */
function notThere(tool: string, out: readonly CatalogEntry[]): BackplaneError {
  const kept = out.find(({ name }) => name === tool);
  if (kept === undefined) return new BackplaneError("tool.not_found", `there is no tool ${tool}`);
  const why = `${tool} is not offered: ${kept.reason}`;
  return new BackplaneError("tool.not_found", why, kept.fix === null ? {} : { fix: kept.fix });
}

/** Allow rules (allow.rules): who may create, list and remove them, and what they may cover. */

import {
  type AllowRule,
  type AllowRuleCreate,
  type AnswerCoverage,
  type Approval,
  type ArgumentCondition,
  BackplaneError,
  boundServerName,
  compareRisk,
  isId,
  isObject,
  type Json,
  type Risk,
  type RuleRisk,
  type Tolerance,
  tolerates,
} from "@backplane/contract";
import {
  type AllowRuleRow,
  buildAudit,
  type Caller,
  type ChangeRecords,
  HOST_ADMIN,
  hasRole,
  type Kernel,
  type KernelDeps,
  requireOperator,
  requireWholeOrg,
  type Scope,
} from "@backplane/ports";
import { combineGrants, computeRisk, type ExportPlan, narrowGrant, type Policies } from "@backplane/registry";
import { findLastingRefusal, type LastingRefusal } from "../admission/lasting-permission.ts";
import { widestGrant } from "../admission/visibility.ts";
import type { Authority } from "../authority/authority.ts";
import type { Opened } from "../open/open.ts";
import { creatorOf } from "./admit-with-allow-rules.ts";
import { BUS_ACTOR } from "./approval-events.ts";

interface AllowRulesServiceDeps {
  deps: KernelDeps;
  authority: Authority;
  policies: Policies;
  /** The tools of the catalog by name, as the caller's scope resolves them. */
  listTools: (caller: Caller) => Promise<ReadonlyMap<string, ExportPlan>>;
}

export function createAllowRules({
  deps,
  authority,
  policies,
  listTools,
}: AllowRulesServiceDeps): Kernel["allow_rules"] {
  const { store } = deps;

  async function toAllowRules(scope: Scope, rules: readonly AllowRuleRow[]): Promise<AllowRule[]> {
    const { lasting_approvals } = (await policies.getEffective(scope)).document;
    const visible_rules: AllowRule[] = [];
    for (const rule of rules) {
      const revocation = await authority.findRevocation(creatorOf(rule));
      const { creator_role: _role, ...fields } = rule;
      visible_rules.push({
        ...fields,
        ended: revocation?.message ?? null,
        suspended: describeSuspension(lasting_approvals, rule),
      });
    }
    return visible_rules;
  }

  /** The tools that the rule would cover at present. */
  async function findPlans(caller: Caller, { tool, server }: AllowRuleCreate): Promise<ExportPlan[]> {
    const tools = await listTools(caller);
    if (tool !== undefined) {
      const plan = tools.get(tool);
      if (plan === undefined) throw new BackplaneError("tool.not_found", `There is no tool ${tool}.`);
      return [plan];
    }
    const plans = [...tools.values()].filter(({ bound }) =>
      [bound.package.package_id, boundServerName(bound.binding)].includes(server!),
    );
    const packages = [...new Set(plans.map(({ bound }) => bound.package.package_id))];
    if (packages.length > 1)
      throw invalidFieldError("server", `${server} is the name of several packages: ${packages.join(", ")}.`);
    if (packages.length === 0)
      throw new BackplaneError("tool.not_found", `No server or package named ${server} offers you a tool.`);
    return plans;
  }

  async function create(caller: Caller, body: AllowRuleCreate): Promise<AllowRule> {
    requireOperator(caller, "allow calls");
    await authority.require(caller);
    const scope = resolveRuleScope(caller, body.org_wide);
    const identity = await requireIdentity(caller, body.identity);
    const plans = await findPlans(caller, body);
    for (const name of Object.keys(body.arguments ?? {})) assertArgument(plans[0]!, name);
    const policy = await policies.getEffective(scope);
    const covers = body.tool === undefined ? "server" : "tool";
    const assessments = plans.map((plan) => {
      const grant = widestGrant(plan, policy);
      const { risk } = computeRisk(plan, grant, policy, []);
      return { plan, grant, refusal: findLastingRefusal({ plan, policy }, risk, "always", covers), risk };
    });
    // Some tools of a server may always need approval. The rule still covers the others.
    const usable = assessments.filter(({ refusal }) => refusal === null);
    if (usable.length === 0) throw ruleRefusedError(assessments[0]!.refusal!);
    const max_risk = body.max_risk ?? highestRuleRisk(usable.map(({ risk }) => risk));
    const { lasting_approvals } = policy.document;
    if (!tolerates(lasting_approvals, max_risk))
      throw ruleRefusedError({
        message: `The policy's lasting_approvals is ${lasting_approvals}, so no rule can cover calls of ${max_risk} risk.`,
        fix: "Choose a lower max_risk, or let an admin change the policy: backplane policy set lasting_approvals full",
      });
    const rule: AllowRuleRow = {
      id: deps.ids.next("allow_rule"),
      ...scope,
      covers,
      tool: body.tool ?? null,
      package_id: plans[0]!.bound.package.package_id,
      arguments: body.arguments ?? null,
      other_arguments: body.other_arguments ?? true,
      max_risk,
      grant: combineGrants(usable.map(({ grant }) => grant))!,
      identity,
      ...buildCreationFields(deps, caller),
      approval_id: null,
      note: body.note ?? null,
    };
    await store.allow_rules.create(rule, buildCreationRecords(deps, caller, rule));
    return (await toAllowRules(caller.scope, [rule]))[0]!;
  }

  /** A rule for others gives them what they would otherwise have to ask for, so only an admin may create one. */
  async function requireIdentity(
    caller: Caller,
    requested: string | null | undefined,
  ): Promise<string | null> {
    const identity = requested === undefined ? caller.actor : requested;
    if (identity === caller.actor) return identity;
    if (!hasRole(caller.role, "admin"))
      throw new BackplaneError("policy.denied", "Only an owner or admin may allow the calls of others.", {
        fix: "To create the rule for yourself, leave out identity.",
      });
    if (identity === null || identity === HOST_ADMIN || identity.startsWith(BUS_ACTOR)) return identity;
    const key = isId("key", identity) ? await store.keys.get(caller.scope.org_id, identity) : null;
    if (key === null) throw invalidFieldError("identity", `There is no key ${identity}.`);
    return identity;
  }

  return {
    list: async (caller, page) => {
      requireOperator(caller, "list allow rules");
      const { items, next } = await store.allow_rules.list(caller.scope, page);
      return { items: await toAllowRules(caller.scope, items), next };
    },
    create,
    remove: async (caller, id) => {
      requireOperator(caller, "remove allow rules");
      const rule = await store.allow_rules.get(caller.scope, id);
      if (rule === null) throw new BackplaneError("allow_rule.not_found");
      if (rule.project_id === null) requireWholeOrg(caller, "remove this rule");
      requireRemoval(caller, rule);
      const { org_id, project_id } = rule;
      const audit = buildAudit(deps, caller, "allow_rule.remove", id, describeRule(rule), {
        org_id,
        project_id,
      });
      if (!(await store.allow_rules.remove({ org_id, project_id }, id, { audit })))
        throw new BackplaneError("allow_rule.not_found");
    },
  };
}

/** Others rely on a rule that covers them, so a caller who may not create it for them may not remove it either. */
function requireRemoval({ actor, role }: Caller, { identity, created_by }: AllowRuleRow): void {
  if ([identity, created_by].includes(actor) || hasRole(role, "admin")) return;
  throw new BackplaneError(
    "policy.denied",
    "Only its creator, an owner or an admin may remove a rule for others.",
    {
      fix: "Ask an admin to remove it.",
    },
  );
}

function describeSuspension(ceiling: Tolerance, { max_risk }: AllowRuleRow): string | null {
  if (tolerates(ceiling, max_risk)) return null;
  const calls =
    ceiling === "none" ? "Every call needs approval" : `Calls above ${ceiling} risk need approval`;
  return `${calls}, because the policy's lasting_approvals is ${ceiling}.`;
}

/**
 * The rule that the answer `approve_always` creates. Throws if no rule may cover the call, or if it should cover
 * arguments that are not an object.
 */
export function buildRuleFromAnswer(
  deps: KernelDeps,
  caller: Caller,
  approval: Approval,
  call: Opened,
  covers: AnswerCoverage,
): { rule: AllowRuleRow; records: ChangeRecords } {
  const refusal = findLastingRefusal(call, approval.risk, "always", covers);
  if (refusal !== null) throw ruleRefusedError(refusal);
  const rule: AllowRuleRow = {
    id: deps.ids.next("allow_rule"),
    org_id: approval.org_id,
    project_id: approval.project_id,
    covers: covers === "server" ? "server" : "tool",
    tool: covers === "server" ? null : approval.tool,
    package_id: approval.package_id,
    arguments: covers === "arguments" ? buildExactConditions(approval.input) : null,
    other_arguments: covers !== "arguments",
    max_risk: highestRuleRisk([approval.risk]),
    grant: narrowGrant(call.plan, call.ceiling, call.scope).grant,
    identity: call.root.actor,
    ...buildCreationFields(deps, caller),
    approval_id: approval.id,
    note: null,
  };
  return { rule, records: buildCreationRecords(deps, caller, rule) };
}

/** Conditions that only these arguments meet. */
function buildExactConditions(input: Json): Record<string, ArgumentCondition> {
  if (typeof input !== "object" || input === null || Array.isArray(input))
    throw invalidFieldError(
      "covers",
      "The arguments of this call are not an object. Cover the tool instead.",
    );
  return Object.fromEntries(Object.entries(input).map(([name, equals]) => [name, { equals }]));
}

function buildCreationFields(
  { clock }: Pick<KernelDeps, "clock">,
  { actor, role }: Caller,
): Pick<AllowRuleRow, "created_by" | "creator_role" | "created_at"> {
  return { created_by: actor, creator_role: role, created_at: new Date(clock.now()).toISOString() };
}

function buildCreationRecords(deps: KernelDeps, caller: Caller, rule: AllowRuleRow): ChangeRecords {
  const { id, org_id, project_id } = rule;
  const scope = { org_id, project_id };
  return { audit: buildAudit(deps, caller, "allow_rule.create", id, describeRule(rule), scope) };
}

function describeRule(rule: AllowRuleRow) {
  const { covers, tool, package_id, max_risk, identity, approval_id } = rule;
  return { covers, tool, package_id, max_risk, identity, approval_id, arguments: rule.arguments as Json };
}

function resolveRuleScope(caller: Caller, org_wide: boolean | undefined): Scope {
  const { org_id, project_id } = caller.scope;
  if (org_wide !== true && project_id !== null) return { org_id, project_id };
  requireWholeOrg(caller, "allow calls in the whole organization");
  return { org_id, project_id: null };
}

/** An unknown risk counts as high. Critical risks were refused before this point. */
function highestRuleRisk(risks: readonly Risk[]): RuleRisk {
  const top = risks.reduce((a, b) => (compareRisk(b, a) > 0 ? b : a));
  return top === "low" || top === "medium" ? top : "high";
}

export function ruleRefusedError({ message, fix }: LastingRefusal): BackplaneError {
  return new BackplaneError("allow_rule.refused", message, { fix });
}

/**
 * A condition on an argument that no call can have would create a rule that never applies. The usual cause is a
 * typo.
 */
function assertArgument({ export: item, bound }: ExportPlan, name: string): void {
  const path = item.kind === "tool" ? item.tool.input_schema : undefined;
  const schema = path === undefined ? undefined : bound.package.schemas[path];
  if (!isObject(schema) || !isObject(schema.properties)) return;
  // Any of these can allow further arguments.
  if (OPEN_SCHEMA_KEYWORDS.some((keyword) => (schema[keyword] ?? false) !== false)) return;
  const names = Object.keys(schema.properties);
  if (names.includes(name)) return;
  throw invalidFieldError(
    `arguments.${name}`,
    `${item.id} has no argument ${name}. Its arguments: ${names.join(", ") || "none"}.`,
  );
}

const OPEN_SCHEMA_KEYWORDS = [
  "additionalProperties",
  "unevaluatedProperties",
  "patternProperties",
  "allOf",
  "anyOf",
  "oneOf",
  "if",
  "dependentSchemas",
  "$ref",
  "$dynamicRef",
] as const;

function invalidFieldError(field: string, message: string): BackplaneError {
  return new BackplaneError("request.invalid", message, {
    details: { issues: [{ path: `body.${field}`, message }] },
  });
}

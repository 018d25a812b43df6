/**
 * Permissions that outlast one call: answers for a session, allow rules, and bindings that never require approval.
 * The policy's `lasting_approvals` limits all of them, and none of them covers a critical call.
 */
import {
  type AnswerCoverage,
  compareRisk,
  type Grant,
  isObject,
  type Json,
  type Risk,
  tolerates,
} from "@backplane/contract";
import type { AllowRuleRow } from "@backplane/ports";
import {
  computeRisk,
  type EffectivePolicy,
  type ExportPlan,
  listWiderParts,
  type RuleHit,
} from "@backplane/registry";
import type { RootCaller } from "../calls/revocation.ts";
import { originOf } from "../tools/precedence.ts";
import { matchesArguments } from "./argument-pattern.ts";

interface PermissionInput {
  plan: ExportPlan;
  policy: EffectivePolicy;
  hits: readonly RuleHit[];
  input: Json;
  root: RootCaller;
}

export interface Permission {
  /** The id of the allow rule or binding that permits the call; null if none does. */
  allowed_by: string | null;
  /** Why an allow rule that applies to this call does not permit it. */
  unmet: string | null;
}

const NO_PERMISSION: Permission = { allowed_by: null, unmet: null };

/**
 * Finds the allow rule or binding that permits a call that would otherwise need approval. `rules` are the allow rules
 * for the call's package; their creators are still authorized.
 */
export function findPermission(
  call: PermissionInput,
  grant: Grant,
  rules: readonly AllowRuleRow[],
): Permission {
  const { plan, policy, hits } = call;
  const { approval } = plan.bound.binding.policy;
  if (approval === "always" || plan.export.kind !== "tool") return NO_PERMISSION;
  const { risk } = computeRisk(plan, grant, policy, hits);
  if (!tolerates(policy.document.lasting_approvals, risk)) return NO_PERMISSION;
  if (approval === "never") return { allowed_by: plan.bound.binding.binding_id, unmet: null };
  let unmet: string | null = null;
  for (const rule of rules) {
    if (!appliesTo(rule, call) || compareRisk(risk, rule.max_risk) > 0) continue;
    const wider = listWiderParts(rule.grant, grant);
    if (wider.length === 0) return { allowed_by: rule.id, unmet: null };
    unmet ??= `the allow rule ${rule.id} does not permit this call, because the call's grant is now wider: ${wider.join(", ")}`;
  }
  return { allowed_by: null, unmet };
}

function appliesTo(rule: AllowRuleRow, { plan, input, root }: PermissionInput): boolean {
  const { export: item, bound } = plan;
  if (rule.package_id !== bound.package.package_id || originOf(bound) === "core") return false;
  if (rule.identity !== null && rule.identity !== root.actor) return false;
  // Only a rule for the tool itself waives an approval that the tool's author requires.
  const covers_tool = rule.covers === "tool" ? rule.tool === item.id : !requiresApproval(plan);
  return covers_tool && matchesArguments(rule, input);
}

function requiresApproval({ export: item }: ExportPlan): boolean {
  return item.kind === "tool" && item.tool.requires_approval;
}

export interface LastingRefusal {
  message: string;
  fix: string;
}

/** Why an answer or rule may not permit further calls like this one, or null. */
export function findLastingRefusal(
  { plan, policy }: Pick<PermissionInput, "plan" | "policy">,
  risk: Risk,
  lasting: "session" | "always",
  covers: AnswerCoverage,
): LastingRefusal | null {
  const { export: item, bound } = plan;
  const { lasting_approvals } = policy.document;
  if (!tolerates(lasting_approvals, risk)) {
    return risk === "critical"
      ? {
          message: `This call to ${item.id} is critical, and no lasting approval covers a critical call.`,
          fix: ANSWER_ONCE,
        }
      : {
          message: `The policy's lasting_approvals is ${lasting_approvals}, so no lasting approval covers this call to ${item.id}, whose risk is ${risk}.`,
          fix: `${ANSWER_ONCE} An admin can change the policy: backplane policy set lasting_approvals full`,
        };
  }
  if (lasting === "session" && covers === "arguments") return null;
  if (lasting === "session" && covers === "server")
    return {
      message: "An answer for a session cannot cover a whole server.",
      fix: "Answer with covers = tool.",
    };
  if (originOf(bound) === "core")
    return {
      message: `${item.id} is a tool of the gateway itself, so an answer can cover only the same arguments in this session.`,
      fix: ANSWER_ONCE,
    };
  if (bound.binding.policy.approval === "always")
    return {
      message: `The binding ${bound.binding.binding_id} requires approval, so an answer can cover only the same arguments in this session.`,
      fix: `To leave it to the policy: backplane binding set ${bound.binding.binding_id} --approval default`,
    };
  if (covers === "server" && requiresApproval(plan))
    return {
      message: `The author of ${item.id} requires approval of its calls, which a rule for the whole server does not waive.`,
      fix: `Cover the tool itself: covers = tool, or backplane allow add ${item.id}`,
    };
  return null;
}

const ANSWER_ONCE = "Approve each call individually with the response approve.";

/** Lists which further calls an answer to this call may cover. */
export function listAnswerCoverages(
  call: Pick<PermissionInput, "plan" | "policy" | "input">,
  risk: Risk,
  has_session: boolean,
): { session: AnswerCoverage[]; always: AnswerCoverage[] } {
  const permits = (lasting: "session" | "always") => (covers: AnswerCoverage) =>
    findLastingRefusal(call, risk, lasting, covers) === null;
  const { bound } = call.plan;
  const tools = bound.package.manifest.exports.filter(({ kind }) => kind === "tool");
  const always: AnswerCoverage[] = isObject(call.input) ? ["arguments", "tool"] : ["tool"];
  if (bound.definitions_digest !== undefined || tools.length > 1) always.push("server");
  return {
    session: has_session ? (["arguments", "tool"] as const).filter(permits("session")) : [],
    always: always.filter(permits("always")),
  };
}

/** Admission: computes the grant and applies the rules in order. Synchronous, because all input is read beforehand. */

import type { ErrorCode, ErrorDetails, Grant, Risk } from "@backplane/contract";
import type { AllowRuleRow } from "@backplane/ports";
import { computeRisk, narrowGrant } from "@backplane/registry";
import type { Opened } from "../open/open.ts";
import { type AdmissionState, RULES, type Rule, type RuleDecision } from "./rules.ts";

declare const admitted: unique symbol;

const NO_ALLOW_RULES: readonly AllowRuleRow[] = [];

class AdmittedCall {
  declare readonly [admitted]: true;
  readonly verdict = "admitted";
  readonly call: Opened;
  readonly grant: Grant;
  readonly pool_key: string;
  /** Set when the call needs an approval. An earlier approval for its session may already cover the call. */
  readonly ask: { rule: string; reason: string; risk: Risk } | null;
  /** The id of the allow rule or binding without which the call would need approval. */
  readonly allowed_by: string | null;

  constructor(
    call: Opened,
    grant: Grant,
    pool_key: string,
    ask: AdmittedCall["ask"],
    allowed_by: string | null,
  ) {
    this.call = call;
    this.grant = grant;
    this.pool_key = pool_key;
    this.ask = ask;
    this.allowed_by = allowed_by;
  }
}

export type Admitted = AdmittedCall;

export interface RefusedCall {
  verdict: "refused";
  call: Opened;
  /** The name of the rule that denied the call. */
  rule: string;
  code: ErrorCode;
  message: string;
  details: ErrorDetails;
  fix: string | undefined;
  /** Whether the call was refused only because it needs approval and nobody can be asked for it at present. */
  needs_approval: boolean;
}

/**
 * `allow_rules` are the rules that may cover the call. Most calls need no approval and are admitted without reading
 * any rules.
 */
export function admit(
  call: Opened,
  state: AdmissionState,
  allow_rules: readonly AllowRuleRow[] = NO_ALLOW_RULES,
): Admitted | RefusedCall {
  const { grant, pool_key } = narrowGrant(call.plan, call.ceiling, call.scope);
  let ask: AdmittedCall["ask"] = null;
  let allowed_by: string | null = null;
  for (const rule of RULES) {
    const decision = rule.decide(call, grant, state, allow_rules);
    if (decision.kind === "pass") {
      allowed_by ??= decision.allowed_by ?? null;
      continue;
    }
    if (decision.kind === "deny") return refusedBy(rule, decision, call);
    ask ??= {
      rule: rule.name,
      reason: decision.reason,
      risk: computeRisk(call.plan, grant, call.policy, call.hits).risk,
    };
  }
  return new AdmittedCall(call, grant, pool_key, ask, ask === null ? allowed_by : null);
}

/** The rules that are applied again to an admitted call that had to wait. */
const RECHECKED_RULES = RULES.filter(({ listing, recheck }) => listing === true || recheck === true);

/** Why a call that was admitted before may no longer start, or null. */
export function recheck(call: Opened, grant: Grant, state: AdmissionState): RefusedCall | null {
  for (const rule of RECHECKED_RULES) {
    const decision = rule.decide(call, grant, state);
    if (decision.kind === "deny") return refusedBy(rule, decision, call);
  }
  return null;
}

function refusedBy(
  { name }: Rule,
  { code, message, details, fix, needs_approval }: Extract<RuleDecision, { kind: "deny" }>,
  call: Opened,
): RefusedCall {
  return {
    verdict: "refused",
    call,
    rule: name,
    code,
    message,
    details: { rule: name, ...details },
    fix,
    needs_approval: needs_approval === true,
  };
}

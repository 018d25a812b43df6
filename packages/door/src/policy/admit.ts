/** Second gate: the grant is computed and every rule is asked. Pure and synchronous: nothing is read here. */

import type { ErrorCode, ErrorDetails, Grant, Risk } from "@backplane/contract";
import { narrowGrant } from "@backplane/registry";
import type { Opened } from "../open/open.ts";
import { riskOf } from "./risk.ts";
import type { Decision, Rule, Surroundings } from "./rule.ts";
import { RULES } from "./rules.ts";

declare const admitted: unique symbol;

class AdmittedCall {
  declare readonly [admitted]: true;
  readonly verdict = "admitted";
  readonly call: Opened;
  readonly grant: Grant;
  readonly pool_key: string;
  /** A person has to say yes first. */
  readonly ask: { rule: string; reason: string; risk: Risk } | null;

  constructor(call: Opened, grant: Grant, pool_key: string, ask: AdmittedCall["ask"]) {
    this.call = call;
    this.grant = grant;
    this.pool_key = pool_key;
    this.ask = ask;
  }
}

export type Admitted = AdmittedCall;

export interface Refused {
  verdict: "refused";
  call: Opened;
  /** Which rule decided. */
  rule: string;
  code: ErrorCode;
  message: string;
  details: ErrorDetails;
  fix: string | undefined;
}

/** Every rule that may answer otherwise by now about a call that was admitted and then had to wait. */
const ASKED_AGAIN = RULES.filter(({ standing, again }) => standing === true || again === true);

/** Why a call that was admitted before may no longer start, or null. */
export function refusedSince(call: Opened, grant: Grant, around: Surroundings): Refused | null {
  for (const rule of ASKED_AGAIN) {
    const decision = rule.decide(call, grant, around);
    if (decision.kind === "deny") return refusedBy(rule, decision, call);
  }
  return null;
}

export function admit(call: Opened, around: Surroundings): Admitted | Refused {
  const { grant, pool_key } = narrowGrant(call.plan, call.ceiling, call.scope);
  let ask: AdmittedCall["ask"] = null;
  for (const rule of RULES) {
    const decision = rule.decide(call, grant, around);
    if (decision.kind === "pass") continue;
    if (decision.kind === "ask") {
      ask ??= {
        rule: rule.name,
        reason: decision.reason,
        risk: riskOf(call.plan, grant, call.policy, call.hits).risk,
      };
      continue;
    }
    return refusedBy(rule, decision, call);
  }
  return new AdmittedCall(call, grant, pool_key, ask);
}

function refusedBy(
  { name }: Rule,
  { code, message, details, fix }: Extract<Decision, { kind: "deny" }>,
  call: Opened,
): Refused {
  return {
    verdict: "refused",
    call,
    rule: name,
    code,
    message,
    details: { rule: name, ...details },
    fix,
  };
}

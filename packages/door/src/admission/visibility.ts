/** Whether listings may show a tool to a caller: the listing rules of admission, applied without a call. */

import type { Grant } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { type EffectivePolicy, type ExportPlan, intersect, toGrant } from "@backplane/registry";
import { assumeValidRoot } from "../calls/revocation.ts";
import { type AdmissionState, RULES, type RuleInput } from "./rules.ts";

interface ListingDenial {
  reason: string;
  fix: string | null;
}

const LISTING_RULES = RULES.filter(({ listing }) => listing === true);

/** Listing rules do not depend on the state of the gateway. */
const ANY_STATE: AdmissionState = {
  stopping: false,
  sandbox: () => ({ enabled: true, available: true, reason: "" }),
  isQueueFull: () => false,
  areApprovalsFull: () => false,
  max_depth: 0,
};

/** Why the caller may not see the tool and how to change that, or null. */
export function findListingDenial(
  caller: Caller,
  plan: ExportPlan,
  policy: EffectivePolicy,
): ListingDenial | null {
  const input: RuleInput = {
    caller,
    plan,
    policy,
    context: "direct",
    input: null,
    issues: [],
    hits: [],
    depth: 0,
    row: null,
    root: assumeValidRoot(caller),
  };
  const grant = widestGrant(plan, policy);
  for (const rule of LISTING_RULES) {
    const decision = rule.decide(input, grant, ANY_STATE);
    if (decision.kind === "deny") return { reason: decision.message, fix: decision.fix ?? null };
  }
  return null;
}

/** The widest grant that a call can get, before its caller narrows it. */
export function widestGrant({ grant, level }: ExportPlan, { ceiling }: EffectivePolicy): Grant {
  return ceiling === undefined ? grant : toGrant(intersect(level, ceiling));
}

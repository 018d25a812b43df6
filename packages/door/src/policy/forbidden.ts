/** Whether a caller may be offered a tool at all: the standing rules of admission, asked without a call. */

import type { Grant } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { type EffectivePolicy, type ExportPlan, intersect, toGrant } from "@backplane/registry";
import { assumeStanding } from "../calls/revocation.ts";
import type { Asked, Surroundings } from "./rule.ts";
import { RULES } from "./rules.ts";

interface Forbidden {
  reason: string;
  fix: string | null;
}

const STANDING = RULES.filter(({ standing }) => standing === true);

/** Standing rules look at nothing of the moment. */
const ANYWHERE: Surroundings = {
  stopping: false,
  sandbox: () => ({ enabled: true, available: true, reason: "" }),
  queueFull: () => false,
  waitingFull: () => false,
  max_depth: 0,
};

/** Why not and what would change it, or null. */
export function forbidden(caller: Caller, plan: ExportPlan, policy: EffectivePolicy): Forbidden | null {
  const asked: Asked = {
    caller,
    plan,
    policy,
    context: "direct",
    issues: [],
    hits: [],
    depth: 0,
    row: null,
    standing: assumeStanding(caller),
  };
  const grant = grantUnder(plan, policy);
  for (const rule of STANDING) {
    const decision = rule.decide(asked, grant, ANYWHERE);
    if (decision.kind === "deny") return { reason: decision.message, fix: decision.fix ?? null };
  }
  return null;
}

/** What a call gets at most, before its caller narrows it. */
export function grantUnder({ grant, level }: ExportPlan, { ceiling }: EffectivePolicy): Grant {
  return ceiling === undefined ? grant : toGrant(intersect(level, ceiling));
}

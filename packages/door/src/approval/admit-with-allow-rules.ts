/** Admits calls, taking into account the allow rules that apply to them. */
import type { MaybePromise } from "@backplane/contract";
import type { AllowRuleRow, Store } from "@backplane/ports";
import { type Admitted, admit, type RefusedCall } from "../admission/admit.ts";
import type { AdmissionState } from "../admission/rules.ts";
import type { Authority } from "../authority/authority.ts";
import type { Opened } from "../open/open.ts";

export interface AllowRuleDeps {
  deps: { store: Pick<Store, "allow_rules"> };
  authority: Authority;
}

/**
 * First decides without allow rules. The rules are read only for a call that needs approval, or that is refused because
 * nobody can be asked for approval. Other calls do not wait for the store (benchmark http.invoke).
 */
export function admitWithAllowRules(
  door: AllowRuleDeps & { state: AdmissionState },
  call: Opened,
): MaybePromise<Admitted | RefusedCall> {
  const verdict = admit(call, door.state);
  const needs_approval = verdict.verdict === "admitted" ? verdict.ask !== null : verdict.needs_approval;
  if (!needs_approval) return verdict;
  return readAllowRules(door, call).then((rules) =>
    rules.length === 0 ? verdict : admit(call, door.state, rules),
  );
}

/**
 * Reads the rules for calls from this caller to this package, always from the store: a rule that another gateway
 * removed must not apply here. A rule is valid only while its creator still has the authority to make it.
 */
export async function readAllowRules(
  { deps, authority }: AllowRuleDeps,
  { plan, caller, root }: Pick<Opened, "plan" | "caller" | "root">,
): Promise<AllowRuleRow[]> {
  const { scope } = caller;
  const rules = await deps.store.allow_rules.listForPackage(scope, plan.bound.package.package_id);
  const valid_rules: AllowRuleRow[] = [];
  for (const rule of rules) {
    if (rule.identity !== null && rule.identity !== root.actor) continue;
    if ((await authority.findRevocation(creatorOf(rule))) === null) valid_rules.push(rule);
  }
  return valid_rules;
}

export function creatorOf({ created_by, creator_role, org_id, project_id }: AllowRuleRow) {
  return { actor: created_by, role: creator_role, scope: { org_id, project_id } };
}

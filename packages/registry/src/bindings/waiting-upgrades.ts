/** Lists the upgrades and failed rollbacks that a person has to decide on, from the rows of the bindings. */
import { type Binding, definedFields, formatHeldFlags, type WaitingUpgrade } from "@backplane/contract";
import type { Caller, KernelDeps } from "@backplane/ports";

export function createWaitingUpgrades({ store }: Pick<KernelDeps, "store">) {
  return async (caller: Caller): Promise<WaitingUpgrade[]> => {
    const upgrades = new Map<string, WaitingUpgrade>();
    for (let after: string | undefined; ; ) {
      const page = await store.bindings.list(caller.scope, {}, { limit: 100, ...definedFields({ after }) });
      for (const binding of page.items) {
        const upgrade = describeHeld(binding, caller) ?? describeFailedRollback(binding, caller);
        if (upgrade === null) continue;
        // One decision covers all bindings of a package.
        const key = [upgrade.waits_for, upgrade.message, upgrade.scope.project_id].join("\n");
        const existing = upgrades.get(key);
        if (existing === undefined) upgrades.set(key, upgrade);
        else existing.binding_ids.push(binding.binding_id);
      }
      if (page.next === null) return [...upgrades.values()];
      after = page.next;
    }
  };
}

function describeHeld(binding: Binding, caller: Caller): WaitingUpgrade | null {
  const { held_upgrade, package_id, package_version: version, binding_id, scope } = binding;
  if (held_upgrade === undefined) return null;
  const { package_version: next, permissions, requested_by, requested_at } = held_upgrade;
  const scope_flag = scopeFlag(binding, caller);
  const upgrade = `backplane plugin upgrade ${package_id}@${next}${scope_flag}${formatHeldFlags(held_upgrade)}`;
  return {
    waits_for: "permissions",
    package_id,
    version,
    other_version: next,
    scope,
    binding_ids: [binding_id],
    since: requested_at,
    ...definedFields({ percent: held_upgrade.percent, trial_seconds: held_upgrade.trial_seconds }),
    message: `${package_id} ${next} requests more permissions (${permissions.join(", ")}) and awaits approval by an owner or admin. ${version} stays in use. Requested by ${requested_by}.`,
    fix: `${upgrade} --grant-permissions; without them: ${upgrade} --withhold-permissions; to withdraw it: backplane plugin rollback ${package_id}${scope_flag}`,
  };
}

function describeFailedRollback(binding: Binding, caller: Caller): WaitingUpgrade | null {
  const { rollback_failed, previous, package_id, package_version: version, binding_id, scope } = binding;
  if (rollback_failed === undefined || previous === undefined) return null;
  const { reason, problem, fix, at } = rollback_failed;
  return {
    waits_for: "rollback",
    package_id,
    version,
    other_version: previous.package_version,
    scope,
    binding_ids: [binding_id],
    since: at,
    message: `${package_id} ${version} failed its trial and is still in use. ${reason} The gateway could not return to ${previous.package_version}: ${problem}`,
    fix: `${fix}${scopeFlag(binding, caller)}`,
  };
}

/** The command changes the bindings of the credential's project, unless it has this flag. */
function scopeFlag({ scope }: Binding, caller: Caller): string {
  return scope.project_id === null && caller.scope.project_id !== null ? " --org-wide" : "";
}

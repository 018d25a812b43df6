/**
 * Bindings make exports usable. Every change raises the generation, emits `binding.changed`, and retires the
 * processes of the old generation when their calls are done.
 */

import {
  BackplaneError,
  type Binding,
  type BindingCreate,
  type BindingPatch,
  type JsonObject,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  type Kernel,
  type KernelDeps,
  type Operation,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import { levelBeforeCall, toGrant } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import type { TokenRevocation } from "../secrets/sign-in-tokens.ts";
import type { ChangeEffects } from "./change-effects.ts";
import { checkBinding, findExport, findUnboundSlots } from "./check-binding.ts";
import { requireRemovable, writeClaimed } from "./name-authority.ts";
import type { BindingPlanner } from "./plan-change.ts";
import { findRefusedDestinations } from "./private-destinations.ts";
import type { VersionProbe } from "./probe-versions.ts";
import { outdatedError, type Upgrades } from "./upgrades.ts";
import { createWaitingUpgrades } from "./waiting-upgrades.ts";

const MAX_ATTEMPTS = 200;
/** The audit entry of a removal counts at most this many deliveries. */
const MAX_WAITING_COUNT = 500;

interface BindingsDeps {
  deps: KernelDeps;
  planner: BindingPlanner;
  effects: ChangeEffects;
  versions: VersionProbe;
  upgrades: Pick<Upgrades, "upgrade" | "rollback">;
  revocation: Pick<TokenRevocation, "readTokens" | "revoke">;
}

export function createBindings({
  deps,
  planner,
  effects,
  versions,
  upgrades,
  revocation,
}: BindingsDeps): Kernel["bindings"] {
  const { store } = deps;

  async function create(caller: Caller, body: BindingCreate, operation?: Operation): Promise<Binding> {
    requireOperator(caller, "bind exports");
    const change = await planner.create(caller, body);
    await versions.requireStart([change], operation);
    const { before, row, records } = change;
    await writeClaimed([change], (expected_revision) =>
      before === null
        ? store.bindings.create(row, records, expected_revision)
        : store.bindings.updateAll([{ row, expected: before.generation, records }], expected_revision),
    );
    await effects.apply(caller, [change], operation);
    await effects.announce(caller, [row]);
    return row;
  }

  async function patch(
    caller: Caller,
    id: string,
    body: BindingPatch,
    expected: number | undefined,
    operation?: Operation,
  ): Promise<Binding> {
    requireOperator(caller, "change bindings");
    let version: string | undefined;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { binding: before } = await getBound(caller, id);
      if (before.scope.project_id === null) requireWholeOrg(caller, "change this binding");
      if (expected !== undefined && before.generation !== expected) throw outdatedError(before);
      // If another request changed the version after the first attempt, this caller has not seen that version.
      version ??= before.package_version;
      if (body.package_version !== undefined && version !== before.package_version)
        throw versionChangedError(before);
      const change = await planner.patch(caller, before, body, "binding.change");
      await versions.requireStart([change], operation);
      const { row, records } = change;
      const written = await writeClaimed([change], (expected_revision) =>
        store.bindings.update(row, before.generation, records, expected_revision),
      );
      if (!written) continue;
      await effects.apply(caller, [change], operation);
      await effects.announce(caller, [row]);
      return row;
    }
    throw tooManyChangesError(id);
  }

  async function remove(caller: Caller, id: string, expected?: number): Promise<void> {
    requireOperator(caller, "remove bindings");
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const bound = await getBound(caller, id);
      const { binding } = bound;
      if (binding.scope.project_id === null) requireWholeOrg(caller, "remove this binding");
      requireRemovable(caller, bound);
      const tokens = await revocation.readTokens(binding);
      const removed: Binding = { ...binding, status: "disabled" };
      const records = planner.buildRecords(caller, removed, "binding.remove", await countWaiting(binding));
      // Removes only the generation that was checked: an admin may have named the server since then.
      if (!(await store.bindings.remove(binding.scope, id, records, expected ?? binding.generation))) {
        // The binding was removed, or changed since the caller read it.
        if (expected !== undefined) throw outdatedError((await getBound(caller, id)).binding);
        continue;
      }
      deps.runner.retire(id);
      void revocation.revoke(binding, tokens);
      await effects.announce(caller, [binding]);
      return;
    }
    throw tooManyChangesError(id);
  }

  /** Returns the audit detail with the number of deliveries that the removal of a hook discards. */
  async function countWaiting({ kind, scope, binding_id }: Binding): Promise<JsonObject> {
    if (kind !== "hook") return {};
    const filter = { state: "ready", lane: binding_id } as const;
    const org = { org_id: scope.org_id, project_id: null };
    const { items } = await store.jobs.list(org, filter, { limit: MAX_WAITING_COUNT });
    return items.length === 0 ? {} : { waiting_deliveries: items.length };
  }

  async function validate(caller: Caller, id: string) {
    const { binding } = await getBound(caller, id);
    const checked = await findExport(store.packages, binding.scope.org_id, binding);
    const issues = await checkBinding(deps, checked, binding);
    const unbound_slots = findUnboundSlots(checked, binding);
    const isolation = effectiveClass(binding, checked.export);
    const grant = toGrant(levelBeforeCall({ binding, ...checked }, isolation, caller.scope, deps.host));
    return {
      valid: issues.length === 0 && unbound_slots.length === 0,
      status: binding.status,
      unbound_slots,
      issues,
      warnings: findRefusedDestinations(grant.allowed_domains, deps.host.private_destinations ?? []),
      requested: checked.export.permissions,
      grant,
    };
  }

  async function getBound(caller: Caller, id: string): Promise<BoundPackage> {
    const bound = await store.bindings.get(caller.scope, id);
    if (bound === null) throw new BackplaneError("binding.not_found");
    return bound;
  }

  return {
    create,
    get: async (caller, id) => (await getBound(caller, id)).binding,
    list: (caller, filter, page) => store.bindings.list(caller.scope, filter, page),
    patch,
    waitingUpgrades: createWaitingUpgrades(deps),
    upgrade: upgrades.upgrade,
    rollback: upgrades.rollback,
    validate,
    remove,
  };
}

function tooManyChangesError(id: string): BackplaneError {
  return new BackplaneError(
    "request.overloaded",
    `Binding ${id} was changed by too many requests at the same time.`,
  );
}

function versionChangedError({ binding_id, package_version }: Binding): BackplaneError {
  const message = `Binding ${binding_id} was changed to version ${package_version} by another request.`;
  return new BackplaneError("binding.conflict", message, { details: { binding_id, package_version } });
}

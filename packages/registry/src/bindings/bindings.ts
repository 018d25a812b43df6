/**
 * Bindings make exports usable. Every change increments the generation, emits `binding.changed`, and retires the
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
import type { ChangeEffects } from "./change-effects.ts";
import { checkBinding, findExport, findUnboundSlots, isInstrument } from "./check-binding.ts";
import { type Claim, createClaim } from "./claims.ts";
import { requireRemovable } from "./name-authority.ts";
import type { BindingPlanner, PlannedUpdate } from "./plan-change.ts";
import { findRefusedDestinations } from "./private-destinations.ts";
import type { VersionProbe } from "./probe-versions.ts";
import { outdatedError, type Rollbacks } from "./rollbacks.ts";
import { isConflictOf, type StoreChanges } from "./store-changes.ts";
import type { Upgrades } from "./upgrades.ts";
import { createWaitingUpgrades } from "./waiting-upgrades.ts";

const MAX_ATTEMPTS = 200;
/** The audit entry of a removal counts at most this many deliveries. */
const MAX_WAITING_COUNT = 500;

interface BindingsDeps {
  deps: KernelDeps;
  planner: BindingPlanner;
  effects: ChangeEffects;
  versions: VersionProbe;
  upgrades: Upgrades;
  rollbacks: Pick<Rollbacks, "rollback" | "rollbackPackage">;
  storeChanges: StoreChanges;
}

export function createBindings({
  deps,
  planner,
  effects,
  versions,
  upgrades,
  rollbacks,
  storeChanges,
}: BindingsDeps): Kernel["bindings"] {
  const { store } = deps;

  async function create(caller: Caller, body: BindingCreate, operation?: Operation): Promise<Binding> {
    requireOperator(caller, "bind exports");
    const change = await planner.create(caller, body);
    await versions.requireStart([change], operation);
    const { row } = change;
    await storeChanges(caller, [change]);
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
      const { claim, share_changes } = await planShareChanges(caller, before, body);
      const changes = [change, ...share_changes];
      try {
        await storeChanges(caller, changes, { claims: [claim] });
      } catch (error) {
        if (
          isConflictOf(
            error,
            changes.flatMap(({ row, replaced = [] }) => [row, ...replaced]),
          )
        )
          continue;
        throw error;
      }
      await effects.apply(caller, changes, operation);
      const rows = changes.map(({ row }) => row);
      await effects.announce(caller, rows);
      return change.row;
    }
    throw tooManyChangesError(id);
  }

  /**
   * A share of a rollout was stored with the settings of its binding. It is enabled and disabled with the binding. Other
   * settings of the binding cannot change while a share takes calls, because the share would keep the old ones.
   */
  async function planShareChanges(
    caller: Caller,
    main: Binding,
    { rollout: _rollout, ...body }: BindingPatch,
  ): Promise<{ claim: Claim | null; share_changes: PlannedUpdate[] }> {
    if (main.share_of !== undefined || Object.keys(body).length === 0)
      return { claim: null, share_changes: [] };
    const { status, ...settings } = body;
    const shares = (await listShares(main)).filter(takesCalls);
    if (shares.length > 0 && Object.keys(settings).length > 0) throw rolloutInProgressError(main, shares[0]!);
    const share_changes: PlannedUpdate[] = [];
    if (status !== undefined)
      for (const share of shares)
        share_changes.push(await planner.patch(caller, share, { status }, "binding.change"));
    return { claim: await claimShares(main, shares, takesCalls), share_changes };
  }

  /**
   * Returns a claim that fails with `binding.conflict` once the shares for which `isIncluded` returns true are no longer the expected
   * ones.
   */
  async function claimShares(
    main: Binding,
    expected: readonly Binding[],
    isIncluded: (share: Binding) => boolean,
  ): Promise<Claim> {
    return await createClaim(store, main.scope.org_id, async () => {
      const current = (await listShares(main)).filter(isIncluded);
      const isExpected = ({ binding_id }: Binding) =>
        expected.some((share) => share.binding_id === binding_id);
      if (current.length === expected.length && current.every(isExpected)) return;
      const message = `The rollout of ${main.binding_id} was changed at the same time.`;
      throw new BackplaneError("binding.conflict", message, {
        details: { binding_id: main.binding_id },
        fix: "Read the binding again and repeat the request.",
      });
    });
  }

  async function listShares({ scope, package_id, binding_id }: Binding): Promise<Binding[]> {
    const bindings = await planner.listInScope(scope, package_id);
    return bindings.filter(({ share_of }) => share_of === binding_id);
  }

  async function remove(caller: Caller, id: string, expected?: number): Promise<void> {
    requireOperator(caller, "remove bindings");
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const bound = await getBound(caller, id);
      const { binding } = bound;
      if (binding.scope.project_id === null) requireWholeOrg(caller, "remove this binding");
      requireRemovable(caller, bound);
      if (expected !== undefined && binding.generation !== expected) throw outdatedError(binding);
      // A share without its binding would keep its percentage of the calls, and the other calls would have no version.
      const shares = await listShares(binding);
      const rows = [binding, ...shares];
      const waiting_details = await describeWaitingDeliveries(binding);
      const removed = rows.map((row) => {
        const details = row === binding ? waiting_details : {};
        const disabled: Binding = { ...row, status: "disabled" };
        const records = planner.buildRecords(caller, disabled, "binding.remove", details);
        // A later installation of an instrument plugin gets the same configuration and data folder again.
        return { row, records, keeps_config: row === binding && isInstrument(bound) };
      });
      try {
        // Fails if a share was added or removed since the list was read.
        const claims = [await claimShares(binding, shares, () => true)];
        // Removes only the generations that were checked: an admin may have named the server since then.
        await storeChanges(caller, [], { claims, removed });
      } catch (error) {
        if (isConflictOf(error, rows)) continue;
        throw error;
      }
      await effects.announce(caller, rows);
      return;
    }
    throw tooManyChangesError(id);
  }

  /** Returns the audit detail with the number of deliveries that the removal of a hook discards. */
  async function describeWaitingDeliveries({ kind, scope, binding_id }: Binding): Promise<JsonObject> {
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
    listWaitingUpgrades: createWaitingUpgrades(deps),
    upgrade: upgrades.upgrade,
    rollback: rollbacks.rollback,
    rollbackPackage: rollbacks.rollbackPackage,
    validate,
    remove,
  };
}

function takesCalls({ rollout }: Binding): boolean {
  return rollout.traffic_percent > 0;
}

function rolloutInProgressError(
  main: Binding,
  { binding_id, package_version, rollout }: Binding,
): BackplaneError {
  const { package_id } = main;
  return new BackplaneError(
    "binding.conflict",
    `${package_id} ${package_version} takes ${rollout.traffic_percent}% of the calls of ${main.binding_id} with its own settings (${binding_id}).`,
    {
      details: { binding_id: main.binding_id, share: binding_id },
      fix: `End the rollout first, then change the binding. To stop using ${package_version}: backplane plugin rollback ${package_id}. To use it for all calls: backplane plugin upgrade ${package_id}@${package_version}`,
    },
  );
}

function tooManyChangesError(id: string): BackplaneError {
  return new BackplaneError(
    "request.overloaded",
    `Binding ${id} was changed by too many requests at the same time.`,
  );
}

function versionChangedError({ binding_id, package_version }: Binding): BackplaneError {
  const message = `Binding ${binding_id} was changed to version ${package_version} by another request.`;
  return new BackplaneError("binding.conflict", message, {
    details: { binding_id, package_version },
    fix: "Read the binding again and repeat the request.",
  });
}

/**
 * Returns bindings to the version before their last upgrade: at the request of an operator, for one binding or for all
 * bindings of a package, and by the gateway itself when a version fails its trial. Bindings that change together are
 * stored in one transaction.
 */
import {
  BackplaneError,
  type Binding,
  type BindingRollback,
  codeOf,
  selectRollback,
  toBackplaneError,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  HOST_ADMIN,
  hasRole,
  type Kernel,
  type KernelDeps,
  type Operation,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import type { ChangeEffects } from "./change-effects.ts";
import { findExport } from "./check-binding.ts";
import { carrySettings } from "./move-binding.ts";
import type { BindingPlanner, PlannedUpdate } from "./plan-change.ts";
import { isConflictOf, type StoreChanges } from "./store-changes.ts";

interface RollbacksDeps {
  deps: KernelDeps;
  planner: BindingPlanner;
  effects: ChangeEffects;
  storeChanges: StoreChanges;
}

/** Why a trial ends, and the call that revealed the failure. */
export interface TrialFailure {
  reason: string;
  invocation_id: string;
}

export interface Rollbacks extends Pick<Kernel["bindings"], "rollback" | "rollbackPackage"> {
  /**
   * Rolls back all bindings of the scope that have the version of this binding on trial. Resolves to false if one of
   * them has changed since. Throws `package.conflict`, after recording it in the bindings, if the previous version has
   * other content or is no longer installed.
   */
  rollBackTrial(binding: Binding, cause: TrialFailure): Promise<boolean>;
}

export function createRollbacks({ deps, planner, effects, storeChanges }: RollbacksDeps): Rollbacks {
  const { store, clock, runner } = deps;
  const now = () => new Date(clock.now()).toISOString();

  async function rollback(
    caller: Caller,
    id: string,
    expected?: number,
    operation?: Operation,
  ): Promise<Binding> {
    requireOperator(caller, "change bindings");
    const { binding: before } = await getBound(caller, id);
    if (before.scope.project_id === null) requireWholeOrg(caller, "change this binding");
    if (expected !== undefined && before.generation !== expected) throw outdatedError(before);
    const cancelled = cancelUpgrade(before);
    if (cancelled !== null) {
      const records = planner.buildRecords(caller, cancelled, "binding.rollback");
      if (!(await store.bindings.update(cancelled, before.generation, records)))
        throw outdatedError((await getBound(caller, id)).binding);
      runner.retire(id);
      await effects.announce(caller, [cancelled]);
      return cancelled;
    }
    // Undoing the gateway's own rollback would return to the version that failed, without a trial.
    if (before.rolled_back !== undefined) throw alreadyRolledBackError([before]);
    const change = await planRollback(caller, before);
    const { row } = change;
    try {
      await storeChanges(caller, [change]);
    } catch (error) {
      if (isConflictOf(error, [row])) throw outdatedError((await getBound(caller, id)).binding);
      throw error;
    }
    await effects.apply(caller, [change], operation);
    await effects.announce(caller, [row]);
    return row;
  }

  async function rollbackPackage(
    caller: Caller,
    { package_id, org_wide }: BindingRollback,
    operation?: Operation,
  ): Promise<Binding[]> {
    requireOperator(caller, "change bindings");
    const scope = planner.resolveScope(caller, org_wide);
    const existing = await planner.listInScope(scope, package_id);
    const { pending, upgraded } = selectRollback(existing);
    if (pending.length > 0) {
      const rows = pending.map((before) => ({ before, row: cancelUpgrade(before)! }));
      await store.bindings.updateAll(
        rows.map(({ before, row }) => ({
          row,
          expected: before.generation,
          records: planner.buildRecords(caller, row, "binding.rollback"),
        })),
      );
      for (const { row } of rows) runner.retire(row.binding_id);
      const cancelled = rows.map(({ row }) => row);
      await effects.announce(caller, cancelled);
      return cancelled;
    }
    if (upgraded.length === 0) throw nothingToRollBackError(package_id, existing);
    const changes: PlannedUpdate[] = [];
    for (const before of upgraded) changes.push(await planRollback(caller, before));
    await storeChanges(caller, changes);
    await effects.apply(caller, changes, operation);
    const rows = changes.map(({ row }) => row);
    await effects.announce(caller, rows);
    return rows;
  }

  /**
   * A share gets no further calls; calls in flight finish. An upgrade that is held is withdrawn. Returns null for a
   * binding that is neither.
   */
  function cancelUpgrade(before: Binding): Binding | null {
    const { trial: _trial, held_upgrade, ...other_fields } = before;
    if (before.share_of === undefined && held_upgrade === undefined) return null;
    const rollout = before.share_of === undefined ? before.rollout : { traffic_percent: 0 };
    return { ...other_fields, rollout, generation: before.generation + 1, updated_at: now() };
  }

  async function planRollback(caller: Caller, before: Binding): Promise<PlannedUpdate> {
    const { previous } = before;
    if (previous === undefined)
      throw new BackplaneError(
        "request.invalid",
        `${before.binding_id} has no previous version to roll back to.`,
        { fix: "Specify a version: PATCH with package_version, or backplane binding set --to VERSION." },
      );
    const { package_version, digest, config, secrets, undone } = previous;
    const to = await findExport(store.packages, before.scope.org_id, { ...before, package_version });
    // Other content may have been installed under this version since, and the operator has not trusted that.
    const is_same_content = to.package.digest === digest;
    const previous_binding: Binding = { ...before, ...previous, generation: before.generation };
    // The same content was trusted before, but only the host's admin may give that trust again.
    const policy =
      caller.actor === HOST_ADMIN ? previous.policy : { ...carrySettings(previous_binding, to).policy };
    if (policy.approval === "never" && before.policy.approval !== "never" && !hasRole(caller.role, "admin"))
      delete policy.approval;
    const settings = is_same_content ? { config, secrets, policy } : {};
    const change = await planner.patch(caller, before, { package_version, ...settings }, "binding.rollback", {
      is_rollback: is_same_content,
    });
    // A rollback of a rollback is an upgrade again.
    if (undone === true) return change;
    const row: Binding = { ...change.row, previous: { ...change.row.previous!, undone: true } };
    return { ...change, row };
  }

  /**
   * The gateway returns only to content that an operator has chosen. Nobody has chosen other content under the same
   * version, and it would get the secrets and mounts of the binding.
   */
  function requireSameContent({ package_id, previous }: Binding, installed: { digest: string } | null): void {
    const version = previous?.package_version ?? "";
    if (installed !== null && installed.digest === previous?.digest) return;
    const rollback = `backplane plugin rollback ${package_id}`;
    throw new BackplaneError(
      "package.conflict",
      installed === null
        ? `${package_id} ${version} is no longer installed.`
        : `${package_id} ${version} was installed again with different content than before the upgrade.`,
      {
        details: {
          package_id,
          version,
          expected: previous?.digest ?? null,
          actual: installed?.digest ?? null,
        },
        fix:
          installed === null
            ? `Install ${package_id} ${version} again, or upgrade to another version. Then: ${rollback}`
            : `Check the content of ${version} (backplane plugin info ${package_id}@${version}), or upgrade to another version. If you trust it: ${rollback}`,
      },
    );
  }

  /**
   * Reports that a person has to act. The version stays in use, because there is no version that the gateway may return
   * to.
   */
  async function reportFailedRollback(
    kernel: Caller,
    trials: readonly Binding[],
    cause: TrialFailure,
    { message: problem, fix }: BackplaneError,
  ): Promise<void> {
    const failed_at = now();
    const changed = trials
      .filter(({ rollback_failed }) => rollback_failed === undefined)
      .map((before) => {
        const rollback_failed = { ...cause, problem, fix, at: failed_at };
        const row = { ...before, rollback_failed, generation: before.generation + 1, updated_at: failed_at };
        const details = { ...cause, problem };
        const records = planner.buildRecords(kernel, row, "binding.rollback_failed", details);
        return { row, expected: before.generation, records };
      });
    if (changed.length === 0) return;
    await store.bindings.updateAll(changed);
    for (const { row } of changed) runner.retire(row.binding_id);
    await effects.announce(
      kernel,
      changed.map(({ row }) => row),
    );
  }

  /**
   * Plans the end of one trial. Throws `package.conflict` if the previous version has other content or is no longer
   * installed.
   */
  async function planTrialEnd(
    kernel: Caller,
    before: Binding,
    cause: TrialFailure,
  ): Promise<{ change: PlannedUpdate; row: Binding }> {
    const { scope, package_id, package_version, previous } = before;
    const rolled_back = { package_version, ...cause, at: now() };
    if (before.share_of !== undefined) {
      const checked = await findExport(store.packages, scope.org_id, before);
      const change = { before, row: cancelUpgrade(before)!, checked, names_claim: null, records: {} };
      return { change, row: { ...change.row, rolled_back } };
    }
    const installed = await store.packages.find(scope.org_id, package_id, previous?.package_version ?? "");
    requireSameContent(before, installed);
    // Trust that the upgrade dropped returns with the content that had it, as if the upgrade had not happened.
    const host: Caller = { ...kernel, actor: HOST_ADMIN, scopes: ["admin"], admin: true };
    const change = await planRollback(host, before);
    // The package may have been replaced before the plan read it, and the plan has the rights of the host.
    requireSameContent(before, change.checked.package);
    return { change, row: { ...change.row, rolled_back } };
  }

  async function rollBackTrial(failed: Binding, cause: TrialFailure): Promise<boolean> {
    const { scope, package_id, package_version } = failed;
    const kernel: Caller = { actor: "kernel", scope, role: "owner", scopes: [], admin: false };
    const bindings = await planner.listInScope(scope, package_id);
    const current = bindings.find(({ binding_id }) => binding_id === failed.binding_id);
    if (current?.trial === undefined || current.generation !== failed.generation) return false;
    // All exports of a version run in one program, so they are rolled back together.
    const trials = bindings.filter(
      (binding) =>
        binding.trial !== undefined &&
        binding.package_version === package_version &&
        (binding.share_of === undefined) === (failed.share_of === undefined),
    );
    const changes: PlannedUpdate[] = [];
    try {
      for (const before of trials) {
        const { change, row } = await planTrialEnd(kernel, before, cause);
        const details = { ...cause, version: package_version };
        const records = planner.buildRecords(kernel, row, "binding.rollback", details);
        changes.push({ ...change, row, records });
      }
    } catch (error) {
      if (codeOf(error) === "package.conflict")
        await reportFailedRollback(kernel, trials, cause, toBackplaneError(error));
      throw error;
    }
    try {
      await storeChanges(kernel, changes);
    } catch (error) {
      // Another gateway was faster, or an operator has changed the bindings.
      if (codeOf(error) === "binding.conflict") return false;
      throw error;
    }
    if (failed.share_of === undefined) await effects.apply(kernel, changes);
    else for (const { row } of changes) runner.retire(row.binding_id);
    await effects.announce(
      kernel,
      changes.map(({ row }) => row),
    );
    return true;
  }

  async function getBound(caller: Caller, id: string): Promise<BoundPackage> {
    const bound = await store.bindings.get(caller.scope, id);
    if (bound === null) throw new BackplaneError("binding.not_found");
    return bound;
  }

  return { rollback, rollbackPackage, rollBackTrial };
}

function nothingToRollBackError(package_id: string, bindings: readonly Binding[]): BackplaneError {
  const already_rolled_back = bindings.filter(({ previous }) => previous !== undefined);
  if (already_rolled_back.length > 0) return alreadyRolledBackError(already_rolled_back);
  return new BackplaneError("binding.not_found", `No binding of ${package_id} was upgraded in this scope.`, {
    fix: "List the bindings with `backplane binding list`.",
  });
}

function alreadyRolledBackError(bindings: readonly Binding[]): BackplaneError {
  const { package_id, package_version, previous, rolled_back } = bindings[0]!;
  const left_version = rolled_back?.package_version ?? previous?.package_version;
  const by_gateway =
    rolled_back === undefined ? "" : ` by the gateway at ${rolled_back.at}: ${rolled_back.reason}`;
  return new BackplaneError(
    "request.invalid",
    `${package_id} was already rolled back from ${left_version} to ${package_version}${by_gateway || "."}`,
    { fix: `To use ${left_version} again: backplane plugin upgrade ${package_id}@${left_version}` },
  );
}

export function outdatedError(binding: Binding): BackplaneError {
  return new BackplaneError("request.precondition", undefined, {
    details: { generation: binding.generation },
  });
}

/**
 * Upgrades all bindings of a package, and rolls them back. A version takes over immediately, or first gets a share of
 * the calls in bindings of its own. Either way the version is on trial: if it crashes or fails too often, the gateway
 * that notices this rolls it back. Every step is one transaction over all bindings that it changes, and everything that
 * a later step needs is in their rows, so any gateway can continue after a crash.
 */
import {
  BackplaneError,
  type Binding,
  type BindingUpgrade,
  codeOf,
  definedFields,
  type JsonObject,
  toBackplaneError,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import {
  type BoundPackage,
  type Caller,
  type ChangeRecords,
  HOST_ADMIN,
  hasRole,
  type Kernel,
  type KernelDeps,
  type Operation,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import type { TokenRevocation } from "../secrets/sign-in-tokens.ts";
import type { ChangeEffects } from "./change-effects.ts";
import { findExport } from "./check-binding.ts";
import { findNewToolPermissions, requireHeldContent } from "./held-permissions.ts";
import { carrySettings } from "./move-binding.ts";
import { writeClaimed } from "./name-authority.ts";
import type { BindingPlanner, PlannedChange, PlannedMove } from "./plan-change.ts";
import type { VersionProbe } from "./probe-versions.ts";

const DEFAULT_TRIAL = { seconds: 60, max_error_percent: 50 };

interface UpgradesDeps {
  deps: KernelDeps;
  planner: BindingPlanner;
  effects: ChangeEffects;
  versions: VersionProbe;
  revocation: Pick<TokenRevocation, "readTokens" | "revoke">;
}

/** Why a trial ends, and the call that revealed the failure. */
export interface TrialFailure {
  reason: string;
  invocation_id: string;
}

export interface Upgrades extends Pick<Kernel["bindings"], "upgrade" | "rollback"> {
  /** Ends the trial that this binding is on. Resolves to false if the binding has changed since. */
  rollBackTrial(binding: Binding, cause: TrialFailure): Promise<boolean>;
}

/**
 * The rows that one step of an upgrade stores. `created` are shares, each with the binding that it takes calls from.
 */
interface UpgradeStep {
  moved: PlannedMove[];
  created: { change: PlannedChange; main: Binding }[];
  removed: Binding[];
}

export function createUpgrades({ deps, planner, effects, versions, revocation }: UpgradesDeps): Upgrades {
  const { store, clock, ids, runner } = deps;
  const now = () => new Date(clock.now()).toISOString();

  async function upgrade(caller: Caller, body: BindingUpgrade, operation?: Operation): Promise<Binding[]> {
    requireOperator(caller, "upgrade bindings");
    const scope = planner.resolveScope(caller, body.org_wide);
    const { package_id, package_version, percent = 100, new_permissions = "withhold" } = body;
    if (new_permissions === "grant") requireAdmin(caller);
    const existing = await planner.listInScope(scope, package_id);
    if (existing.length === 0)
      throw new BackplaneError("binding.not_found", `${package_id} is not bound in this scope.`, {
        fix: `backplane plugin install SOURCE --bind, or POST /v1/plugin-bindings`,
      });
    const shares = existing.filter(({ share_of }) => share_of !== undefined);
    requireNoOtherRollout(shares, package_version);
    const older = existing.filter(
      (binding) => binding.share_of === undefined && binding.package_version !== package_version,
    );
    const grants = new_permissions === "grant";
    const moves = await planner.moveAll(caller, older, package_version, body.bindings ?? {}, grants);
    if (grants) requireHeldContent(moves);
    if (new_permissions === "hold") {
      const permissions = await findPermissionsToHold(moves);
      if (permissions.length > 0) return await holdUpgrade(caller, existing, moves, permissions);
    }
    const trial = { ...DEFAULT_TRIAL, ...definedFields(body.trial ?? {}) };
    const step =
      percent < 100 ? planShares(caller, moves, shares, percent, trial) : planMoves(moves, shares, trial);
    return await applyStep(caller, existing, step, operation);
  }

  /** All bindings move, and the shares end with the rollout. */
  function planMoves(
    moves: readonly PlannedMove[],
    shares: readonly Binding[],
    { seconds, max_error_percent }: typeof DEFAULT_TRIAL,
  ): UpgradeStep {
    const until = new Date(clock.now() + seconds * 1_000).toISOString();
    const moved = moves.map((move) => {
      const { before, row } = move;
      const ended_shares = shares.filter(({ share_of }) => share_of === row.binding_id);
      const previous = {
        ...row.previous!,
        ...(ended_shares.length === 0 ? {} : { shares: ended_shares.map(({ binding_id }) => binding_id) }),
      };
      const trial = { from_version: before.package_version, until, max_error_percent };
      return { ...move, row: { ...row, previous, ...(seconds === 0 ? {} : { trial }) } };
    });
    return { moved, created: [], removed: [...shares] };
  }

  /** Each binding keeps its version, and a second binding gets a share of its calls. */
  function planShares(
    caller: Caller,
    moves: readonly PlannedMove[],
    shares: readonly Binding[],
    traffic_percent: number,
    { max_error_percent }: typeof DEFAULT_TRIAL,
  ): UpgradeStep {
    const step: UpgradeStep = { moved: [], created: [], removed: [] };
    for (const { before: main, row: planned, checked, names } of moves) {
      const { previous: _previous, ...settings } = planned;
      const existing_shares = shares.filter(({ share_of }) => share_of === main.binding_id);
      const share = existing_shares.find(
        ({ package_version }) => package_version === planned.package_version,
      );
      step.removed.push(...existing_shares.filter((other) => other !== share));
      const row: Binding = {
        ...settings,
        binding_id: share?.binding_id ?? ids.next("binding"),
        rollout: { traffic_percent },
        trial: { from_version: main.package_version, until: null, max_error_percent },
        share_of: main.binding_id,
        generation: (share?.generation ?? 0) + 1,
        created_at: share?.created_at ?? now(),
      };
      const records = planner.buildRecords(caller, row, "binding.upgrade");
      if (share === undefined)
        step.created.push({ change: { before: null, row, checked, names, records }, main });
      else step.moved.push({ before: share, row, checked, names, records });
      if (main.held_upgrade !== undefined) {
        const { held_upgrade: _held, ...other_fields } = main;
        const cleared = { ...other_fields, generation: main.generation + 1, updated_at: now() };
        const audited = planner.buildRecords(caller, cleared, "binding.upgrade");
        step.moved.push({ before: main, row: cleared, checked, names: null, records: audited });
      }
    }
    return step;
  }

  async function applyStep(
    caller: Caller,
    existing: readonly Binding[],
    { moved, created, removed }: UpgradeStep,
    operation: Operation | undefined,
  ): Promise<Binding[]> {
    // The current versions stay in use until the transaction is committed.
    const started = [...moved, ...created.map(({ change, main }) => ({ ...change, before: main }))];
    await versions.requireStart(started, operation);
    const tokens = await Promise.all(removed.map((share) => revocation.readTokens(share)));
    if (moved.length + created.length + removed.length > 0)
      await writeClaimed([...moved, ...created.map(({ change }) => change)], (expected_revision) =>
        store.installations.commit({
          packages: [],
          moved: moved.map(({ before, row, records }) => ({ row, expected: before.generation, records })),
          created: created.map(({ change: { row, records } }) => ({ row, records })),
          removed: removed.map((row) => ({
            row,
            records: planner.buildRecords(caller, { ...row, status: "disabled" }, "binding.remove"),
          })),
          expected_revision,
        }),
      );
    for (const [index, share] of removed.entries()) {
      runner.retire(share.binding_id);
      void revocation.revoke(share, tokens[index]!);
    }
    await effects.apply(caller, [...moved, ...created.map(({ change }) => change)], operation);
    const rows = new Map(moved.map(({ row }) => [row.binding_id, row]));
    const all = [
      ...existing
        .filter((binding) => !removed.includes(binding))
        .map((binding) => rows.get(binding.binding_id) ?? binding),
      ...created.map(({ change }) => change.row),
    ];
    await effects.announce(caller, all);
    return all;
  }

  async function findPermissionsToHold(moves: readonly PlannedMove[]): Promise<string[]> {
    const withheld = moves.flatMap(({ row }) => row.previous?.permissions_held ?? []);
    const of_tools = await Promise.all(
      moves
        .filter(({ before }) => before.export_id === WHOLE_PACKAGE)
        .map(async ({ before, checked }) => {
          const from = await findExport(store.packages, before.scope.org_id, before);
          return findNewToolPermissions(from.package, checked.package);
        }),
    );
    return [...new Set([...withheld, ...of_tools.flat()])];
  }

  /** Records the request in the bindings. Their version stays in use until an admin approves the upgrade. */
  async function holdUpgrade(
    caller: Caller,
    existing: readonly Binding[],
    moves: readonly PlannedMove[],
    permissions: string[],
  ): Promise<Binding[]> {
    const requested_at = now();
    const changed = moves
      .filter(({ before, checked }) => before.held_upgrade?.digest !== checked.package.digest)
      .map(({ before, checked }) => {
        const { version: package_version, digest } = checked.package;
        const held_upgrade = {
          package_version,
          digest,
          permissions,
          requested_by: caller.actor,
          requested_at,
        };
        const row = { ...before, held_upgrade, generation: before.generation + 1, updated_at: requested_at };
        const records = planner.buildRecords(caller, row, "binding.upgrade_held");
        return {
          row,
          expected: before.generation,
          records: withDetails(records, { package_version, permissions }),
        };
      });
    if (changed.length === 0) return [...existing];
    await store.bindings.updateAll(changed);
    const rows = new Map(changed.map(({ row }) => [row.binding_id, row]));
    for (const binding_id of rows.keys()) runner.retire(binding_id);
    const all = existing.map((binding) => rows.get(binding.binding_id) ?? binding);
    await effects.announce(caller, all);
    return all;
  }

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
    const change = await planRollback(caller, before);
    const { row, records } = change;
    const written = await writeClaimed([change], (expected_revision) =>
      store.bindings.update(row, before.generation, records, expected_revision),
    );
    if (!written) throw outdatedError((await getBound(caller, id)).binding);
    await effects.apply(caller, [change], operation);
    await effects.announce(caller, [row]);
    return row;
  }

  /** A share gets no further calls; calls in flight finish. An upgrade that is held is withdrawn. */
  function cancelUpgrade(before: Binding): Binding | null {
    const { trial: _trial, held_upgrade, ...other_fields } = before;
    if (before.share_of === undefined && held_upgrade === undefined) return null;
    const rollout = before.share_of === undefined ? before.rollout : { traffic_percent: 0 };
    return { ...other_fields, rollout, generation: before.generation + 1, updated_at: now() };
  }

  async function planRollback(caller: Caller, before: Binding): Promise<PlannedMove> {
    const { previous } = before;
    if (previous === undefined)
      throw new BackplaneError(
        "request.invalid",
        `${before.binding_id} has no previous version to roll back to.`,
        { fix: "Specify a version: PATCH with package_version, or backplane binding set --to VERSION." },
      );
    const { package_version, digest, config, secrets } = previous;
    const to = await findExport(store.packages, before.scope.org_id, { ...before, package_version });
    // Other bytes may have been installed under this version since, and the operator has not trusted those.
    const is_same_content = to.package.digest === digest;
    const previous_binding: Binding = { ...before, ...previous, generation: before.generation };
    // The same bytes were trusted before, but only the host's admin may give that trust again.
    const policy =
      caller.actor === HOST_ADMIN ? previous.policy : { ...carrySettings(previous_binding, to).policy };
    if (policy.approval === "never" && before.policy.approval !== "never" && !hasRole(caller.role, "admin"))
      delete policy.approval;
    const settings = is_same_content ? { config, secrets, policy } : {};
    return await planner.patch(caller, before, { package_version, ...settings }, "binding.rollback", {
      is_rollback: is_same_content,
    });
  }

  /**
   * The gateway returns only to bytes that an operator has chosen. Nobody has chosen other bytes under the same
   * version, and they would get the secrets and mounts of the binding.
   */
  function requireSameBytes({ package_id, previous }: Binding, installed: { digest: string } | null): void {
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
        const records = planner.buildRecords(kernel, row, "binding.rollback_failed");
        return { row, expected: before.generation, records: withDetails(records, { ...cause, problem }) };
      });
    if (changed.length === 0) return;
    await store.bindings.updateAll(changed);
    for (const { row } of changed) runner.retire(row.binding_id);
    await effects.announce(
      kernel,
      changed.map(({ row }) => row),
    );
  }

  /** Plans the end of one trial. Throws `package.conflict` if the previous version has other bytes. */
  async function planTrialEnd(
    kernel: Caller,
    before: Binding,
    cause: TrialFailure,
  ): Promise<{ change: PlannedMove; row: Binding }> {
    const { scope, package_id, package_version, previous } = before;
    const rolled_back = { package_version, ...cause, at: now() };
    if (before.share_of !== undefined) {
      const checked = await findExport(store.packages, scope.org_id, before);
      const change = { before, row: cancelUpgrade(before)!, checked, names: null, records: {} };
      return { change, row: { ...change.row, rolled_back } };
    }
    const installed = await store.packages.find(scope.org_id, package_id, previous?.package_version ?? "");
    requireSameBytes(before, installed);
    // Trust that the upgrade dropped returns with the bytes that had it, as if the upgrade had not happened.
    const host: Caller = { ...kernel, actor: HOST_ADMIN, scopes: ["admin"], admin: true };
    const change = await planRollback(host, before);
    // The package may have been replaced before the plan read it, and the plan has the rights of the host.
    requireSameBytes(before, change.checked.package);
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
    const changes: PlannedMove[] = [];
    try {
      for (const before of trials) {
        const { change, row } = await planTrialEnd(kernel, before, cause);
        const details = { ...cause, version: package_version };
        const records = withDetails(planner.buildRecords(kernel, row, "binding.rollback"), details);
        changes.push({ ...change, row, records });
      }
    } catch (error) {
      if (codeOf(error) === "package.conflict")
        await reportFailedRollback(kernel, trials, cause, toBackplaneError(error));
      throw error;
    }
    try {
      const updates = changes.map(({ before, row, records }) => ({
        row,
        expected: before.generation,
        records,
      }));
      await writeClaimed(changes, (expected_revision) =>
        store.bindings.updateAll(updates, expected_revision),
      );
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

  return { upgrade, rollback, rollBackTrial };
}

function withDetails(records: ChangeRecords, details: JsonObject): ChangeRecords {
  const { audit } = records;
  if (audit === undefined) return records;
  return { ...records, audit: { ...audit, details: { ...audit.details, ...details } } };
}

function requireAdmin(caller: Caller): void {
  if (hasRole(caller.role, "admin")) return;
  throw new BackplaneError("policy.denied", "Only an owner or admin may grant a version more permissions.", {
    fix: "Request the upgrade with new_permissions: hold, and ask an admin to approve it.",
  });
}

/** Two candidates at the same time would share the calls in a way that nobody requested. */
function requireNoOtherRollout(shares: readonly Binding[], package_version: string): void {
  const other_share = shares.find(
    (share) => share.package_version !== package_version && share.rollout.traffic_percent > 0,
  );
  if (other_share === undefined) return;
  const { binding_id, package_id, package_version: version, rollout } = other_share;
  const message = `${package_id} ${version} has ${rollout.traffic_percent} % of the calls in a rollout.`;
  throw new BackplaneError("binding.conflict", message, {
    details: { bindings: [binding_id] },
    fix: `Finish it with backplane plugin upgrade ${package_id}@${version}, or end it with backplane plugin rollback ${package_id}.`,
  });
}

export function outdatedError(binding: Binding): BackplaneError {
  return new BackplaneError("request.precondition", undefined, {
    details: { generation: binding.generation },
  });
}

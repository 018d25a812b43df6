/**
 * Upgrades all bindings of a package. A version takes over immediately, or first gets a share of the calls in bindings
 * of its own. Either way the version is on trial, unless the request sets a trial of 0 seconds, and rollbacks.ts
 * returns to the previous version if it fails. An upgrade that requests new permissions can be held until an admin
 * decides. Every step is one transaction over all bindings that it changes, and everything that a later step needs is
 * in their rows, so any gateway can continue after a crash.
 */
import {
  BackplaneError,
  type Binding,
  type BindingUpgrade,
  definedFields,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import {
  type Caller,
  hasRole,
  type Kernel,
  type KernelDeps,
  type Operation,
  requireOperator,
} from "@backplane/ports";
import type { ChangeEffects } from "./change-effects.ts";
import { findExport } from "./check-binding.ts";
import { type Claim, createClaim } from "./claims.ts";
import { findNewToolPermissions, requireHeldContent } from "./held-permissions.ts";
import type { BindingPlanner, PlannedChange, PlannedUpdate } from "./plan-change.ts";
import type { VersionProbe } from "./probe-versions.ts";
import type { StoreChanges } from "./store-changes.ts";

const DEFAULT_TRIAL = { seconds: 60, max_error_percent: 50 };

interface UpgradesDeps {
  deps: KernelDeps;
  planner: BindingPlanner;
  effects: ChangeEffects;
  versions: VersionProbe;
  storeChanges: StoreChanges;
}

export type Upgrades = Pick<Kernel["bindings"], "upgrade">;

/**
 * The rows that one step of an upgrade stores. `created` are shares, each with the binding that it takes calls from.
 */
interface UpgradeStep {
  moved: PlannedUpdate[];
  created: { change: PlannedChange; main: Binding }[];
  removed: Binding[];
}

export function createUpgrades({ deps, planner, effects, versions, storeChanges }: UpgradesDeps): Upgrades {
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
        fix: "Bind it first: backplane plugin install SOURCE --bind, or POST /v1/plugin-bindings",
      });
    requireValidSettings(body, existing);
    const shares = existing.filter(({ share_of }) => share_of !== undefined);
    requireNoOtherRollout(shares, package_version);
    const movable = existing.filter(
      (binding) => binding.share_of === undefined && binding.package_version !== package_version,
    );
    const grants_new = new_permissions === "grant";
    const moves = await planner.moveAll(caller, movable, package_version, body.bindings ?? {}, grants_new);
    if (grants_new) requireHeldContent(moves);
    if (new_permissions === "hold") {
      const permissions = await findPermissionsToHold(moves);
      if (permissions.length > 0) return await holdUpgrade(caller, existing, moves, permissions, body);
    }
    const trial = { ...DEFAULT_TRIAL, ...definedFields(body.trial ?? {}) };
    const step =
      percent < 100
        ? planShares(caller, moves, shares, percent, trial)
        : planMoves(moves, existing, shares, trial);
    return await applyStep(caller, existing, step, operation);
  }

  /** All bindings move, and the shares end with the rollout. */
  function planMoves(
    moves: readonly PlannedUpdate[],
    existing: readonly Binding[],
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
    const existing_ids = new Set(existing.map(({ binding_id }) => binding_id));
    return { moved, created: [], removed: shares.filter(({ share_of }) => existing_ids.has(share_of!)) };
  }

  /** Each binding keeps its version, and a second binding gets a share of its calls. */
  function planShares(
    caller: Caller,
    moves: readonly PlannedUpdate[],
    shares: readonly Binding[],
    traffic_percent: number,
    { max_error_percent }: typeof DEFAULT_TRIAL,
  ): UpgradeStep {
    const step: UpgradeStep = { moved: [], created: [], removed: [] };
    for (const { before: main, row: planned, checked, names_claim } of moves) {
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
        step.created.push({ change: { before: null, row, checked, names_claim, records }, main });
      else step.moved.push({ before: share, row, checked, names_claim, records });
      if (main.held_upgrade !== undefined) {
        const { held_upgrade: _held, ...other_fields } = main;
        const cleared = { ...other_fields, generation: main.generation + 1, updated_at: now() };
        const audited = planner.buildRecords(caller, cleared, "binding.upgrade");
        step.moved.push({ before: main, row: cleared, checked, names_claim: null, records: audited });
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
    const changes = [...moved, ...created.map(({ change }) => change)];
    const unchanged = await claimUnchanged(
      caller,
      created.map(({ main }) => main),
    );
    await storeChanges(caller, changes, {
      claims: [unchanged],
      removed: removed.map((row) => ({
        row,
        records: planner.buildRecords(caller, { ...row, status: "disabled" }, "binding.remove"),
      })),
    });
    await effects.apply(caller, changes, operation);
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

  /** A share starts with the settings of its binding, so these must not change before the share is stored. */
  async function claimUnchanged(caller: Caller, mains: readonly Binding[]): Promise<Claim | null> {
    if (mains.length === 0) return null;
    return await createClaim(store, caller.scope.org_id, async () => {
      for (const { binding_id, generation } of mains) {
        const current = await store.bindings.get(caller.scope, binding_id);
        if (current?.binding.generation === generation) continue;
        const message = `The binding ${binding_id} was changed at the same time. No binding was updated.`;
        throw new BackplaneError("binding.conflict", message, {
          details: { binding_id },
          fix: "Read the bindings again and repeat the upgrade.",
        });
      }
    });
  }

  async function findPermissionsToHold(moves: readonly PlannedUpdate[]): Promise<string[]> {
    const withheld = moves.flatMap(({ row }) => row.previous?.permissions_held ?? []);
    const requested_by_tools = await Promise.all(
      moves
        .filter(({ before }) => before.export_id === WHOLE_PACKAGE)
        .map(async ({ before, checked }) => {
          const from = await findExport(store.packages, before.scope.org_id, before);
          return findNewToolPermissions(from.package, checked.package);
        }),
    );
    return [...new Set([...withheld, ...requested_by_tools.flat()])];
  }

  /** Records the request in the bindings. Their version stays in use until an admin approves the upgrade. */
  async function holdUpgrade(
    caller: Caller,
    existing: readonly Binding[],
    moves: readonly PlannedUpdate[],
    permissions: string[],
    { percent, trial }: Pick<BindingUpgrade, "percent" | "trial">,
  ): Promise<Binding[]> {
    const requested_at = now();
    const requested = {
      ...(percent === undefined || percent === 100 ? {} : { percent }),
      ...definedFields({ trial_seconds: trial?.seconds }),
    };
    const isSameRequest = ({ before: { held_upgrade }, checked }: PlannedUpdate) =>
      held_upgrade?.digest === checked.package.digest &&
      held_upgrade.percent === requested.percent &&
      held_upgrade.trial_seconds === requested.trial_seconds;
    const changed = moves
      .filter((move) => !isSameRequest(move))
      .map(({ before, checked }) => {
        const { version: package_version, digest } = checked.package;
        const held_upgrade = {
          package_version,
          digest,
          permissions,
          requested_by: caller.actor,
          requested_at,
          ...requested,
        };
        const row = { ...before, held_upgrade, generation: before.generation + 1, updated_at: requested_at };
        const details = { package_version, permissions };
        const records = planner.buildRecords(caller, row, "binding.upgrade_held", details);
        return { row, expected: before.generation, records };
      });
    if (changed.length === 0) return [...existing];
    await store.bindings.updateAll(changed);
    const rows = new Map(changed.map(({ row }) => [row.binding_id, row]));
    for (const binding_id of rows.keys()) runner.retire(binding_id);
    const all = existing.map((binding) => rows.get(binding.binding_id) ?? binding);
    await effects.announce(caller, all);
    return all;
  }

  return { upgrade };
}

/**
 * Refuses settings that would have no effect: settings for unknown exports, such as a stricter policy, and the length
 * of the trial of a share, which is on trial until its rollout ends.
 */
function requireValidSettings(
  { bindings = {}, percent = 100, trial }: BindingUpgrade,
  existing: readonly Binding[],
): void {
  const known_ids = new Set(existing.map(({ export_id }) => export_id));
  const unknown_id = Object.keys(bindings).find((id) => !known_ids.has(id));
  const issue =
    unknown_id !== undefined
      ? { path: `body.bindings.${unknown_id}`, message: `${unknown_id} is not bound in this scope` }
      : percent < 100 && trial?.seconds !== undefined
        ? { path: "body.trial.seconds", message: "a share of the calls is on trial until the rollout ends" }
        : null;
  if (issue === null) return;
  throw new BackplaneError("request.invalid", `The upgrade is not possible: ${issue.message}.`, {
    details: { issues: [issue] },
    fix:
      unknown_id === undefined
        ? "Leave trial.seconds out, or upgrade all calls."
        : `Use one of: ${[...known_ids].sort().join(", ")}.`,
  });
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
  const message = `${package_id} ${version} gets ${rollout.traffic_percent}% of the calls in a rollout.`;
  throw new BackplaneError("binding.conflict", message, {
    details: { bindings: [binding_id] },
    fix: `Finish it with backplane plugin upgrade ${package_id}@${version}, or end it with backplane plugin rollback ${package_id}.`,
  });
}

/**
 * Plans changes to bindings: who may make them, what a binding keeps, and whether the result is valid. Nothing is
 * stored here, so that one transaction can store several changes, and the packages that they need.
 */

import {
  BackplaneError,
  type Binding,
  type BindingCreate,
  type BindingPatch,
  type BindingPolicy,
  boundServerName,
  definedFields,
  type JsonObject,
  type Package,
} from "@backplane/contract";
import {
  type Caller,
  type ChangeRecords,
  hasRole,
  type KernelDeps,
  requireWholeOrg,
  type Scope,
} from "@backplane/ports";
import { type BuildRecords, createBindingRecords } from "./binding-records.ts";
import {
  type CheckedExport,
  checkBinding,
  findExport,
  findUnboundSlots,
  invalidBinding,
  isInstrument,
  type PackageFinder,
} from "./check-binding.ts";
import type { Claim } from "./claims.ts";
import { createHeldPermissions } from "./held-permissions.ts";
import { type CredentialMoves, carrySettings, withholdPermissions } from "./move-binding.ts";
import { isServer, type NameAuthority } from "./name-authority.ts";
import { requireClassAccess, requireHostAccess, requireMountAccess } from "./host-access.ts";
import { requireBoundSource } from "./bound-source.ts";
import { resolveSettings } from "./requested-settings.ts";
import { assignSecretVariables } from "./secret-variables.ts";
import { createSignedVersions } from "./signed-versions.ts";
import type { WaivedApprovals } from "./waived-approvals.ts";

/** A checked change that is not stored yet. */
export interface PlannedChange {
  /** Null for a new binding. */
  before: Binding | null;
  row: Binding;
  checked: CheckedExport;
  /** The claim that the checked names are still free; null if none had to be checked. */
  names_claim: Claim | null;
  /** Shares of ended rollouts that are removed with the change, because the binding may need their version. */
  replaced?: readonly Binding[];
  records: ChangeRecords;
}

/** A change to an existing binding: of its version, or only of its settings. */
export interface PlannedUpdate extends PlannedChange {
  before: Binding;
}

/** The settings that a change sets, keyed by export id. */
type SettingsByExport = Readonly<Record<string, Pick<BindingPatch, "config" | "secrets" | "policy">>>;

interface PatchOptions {
  /** True for a rollback: the settings are those that this version had before. */
  is_rollback?: boolean;
  /** All values of the body were chosen for this version, including those that the binding already has. */
  all_chosen?: boolean;
  /** The new version gets the permissions that the previous one did not request. */
  grants_new?: boolean;
}

export interface BindingPlanner {
  /** Returns the scope of the bindings that a request creates or changes. Throws if the caller may not change them. */
  resolveScope(caller: Caller, org_wide: boolean | undefined): Binding["scope"];
  /** Lists the bindings of exactly this scope. */
  listInScope(scope: Binding["scope"], package_id: string): Promise<Binding[]>;
  /** Plans a new binding, or the move of the binding that the export has in another version. */
  create(caller: Caller, body: BindingCreate): Promise<PlannedChange>;
  /**
   * Plans the move of these bindings, without the shares of ended rollouts, to another version. Throws
   * `binding.conflict` if several of them bind the same export. With `grants_new` the new version gets the permissions
   * that the previous versions did not request.
   */
  moveAll(
    caller: Caller,
    bindings: readonly Binding[],
    package_version: string,
    settings: SettingsByExport,
    grants_new?: boolean,
  ): Promise<PlannedUpdate[]>;
  patch(
    caller: Caller,
    before: Binding,
    body: BindingPatch,
    action: string,
    options?: PatchOptions,
  ): Promise<PlannedUpdate>;
  buildRecords: BuildRecords;
  /** The removals of the bindings that the changes replace, each once. */
  planRemovals(caller: Caller, changes: readonly PlannedChange[]): { row: Binding; records: ChangeRecords }[];
}

/** `packages` also finds packages that are installed in the same transaction. */
export function createBindingPlanner(
  deps: KernelDeps,
  credentials: Pick<CredentialMoves, "withoutOldCredentials">,
  packages: PackageFinder,
  waivers: WaivedApprovals,
  authority: NameAuthority,
): BindingPlanner {
  const { store } = deps;
  const signed = createSignedVersions(deps);
  const buildRecords = createBindingRecords(deps);
  const held = createHeldPermissions(deps);
  const findKeptConfig = async (scope: Scope, checked: CheckedExport) =>
    isInstrument(checked) ? await store.bindings.getKeptConfig(scope, checked.package.package_id) : null;

  async function create(caller: Caller, body: BindingCreate): Promise<PlannedChange> {
    const scope = resolveScope(caller, body.org_wide);
    const checked = await findExport(packages, scope.org_id, body);
    if (!hasRole(caller.role, "admin")) await requireSourceOfOrg(scope, checked.package);
    await signed.require(caller, null, checked.package);
    const same_export = (await listInScope(scope, body.package_id)).filter(
      ({ export_id }) => export_id === body.export_id,
    );
    const replaced = same_export.filter(isEndedShare);
    const other_versions = same_export.filter(
      (binding) => !isEndedShare(binding) && binding.package_version !== body.package_version,
    );
    const { config, secrets, policy, package_version } = body;
    // A binding with less than 100 percent is part of a rollout, and so is the new binding.
    const in_rollout = other_versions.length === 1 && other_versions[0]!.rollout.traffic_percent < 100;
    if (body.rollout === undefined && other_versions.length > 0 && !in_rollout) {
      // Moving the binding keeps its policy. A second binding would take its calls without that policy.
      const settings = { [body.export_id]: definedFields({ config, secrets, policy }) };
      return (await moveAll(caller, other_versions, package_version, settings))[0]!;
    }
    const now = new Date(deps.clock.now()).toISOString();
    // A binding that takes a share of the calls starts with the settings of the other one.
    const source =
      other_versions[0] === undefined
        ? undefined
        : await credentials.withoutOldCredentials(other_versions[0], checked);
    const copied = source === undefined ? null : await copySettings(source, checked);
    const draft: Binding = {
      binding_id: deps.ids.next("binding"),
      package_id: body.package_id,
      package_version,
      export_id: body.export_id,
      kind: checked.export.kind,
      scope,
      config: config ?? source?.config ?? (await findKeptConfig(scope, checked)) ?? {},
      secrets: { ...copied?.secrets, ...secrets },
      status: body.status ?? "active",
      unbound_slots: [],
      rollout: body.rollout ?? { traffic_percent: 100 },
      policy: { ...copied?.policy, ...policy },
      class_lowered_by: null,
      generation: 1,
      created_at: now,
      updated_at: now,
    };
    const named_slots = Object.keys(secrets ?? {});
    draft.policy = assignSecretVariables(checked, draft, { secrets: {}, policy: {}, ...copied }, named_slots);
    if (other_versions[0] !== undefined) {
      const from = await findExport(packages, scope.org_id, other_versions[0]);
      requireBoundSource(other_versions[0], from.package, checked.package);
      await signed.require(caller, from.package, checked.package);
      const from_version = { binding: other_versions[0], checked: from };
      held.require(caller, from_version, { binding: draft, checked }, policy);
    }
    const { row, names_claim } = await checkDraft(caller, checked, draft, null);
    const records = buildRecords(caller, row, "binding.create");
    return { before: null, row, checked, names_claim, records, replaced };
  }

  /** Policies of the org match tools by name, and a binding of a project takes the names from a binding of the org. */
  async function requireSourceOfOrg({ org_id, project_id }: Binding["scope"], to: Package): Promise<void> {
    if (project_id === null) return;
    for (const bound of await listInScope({ org_id, project_id: null }, to.package_id)) {
      const from = await packages.find(org_id, bound.package_id, bound.package_version);
      if (from !== null) requireBoundSource(bound, from, to);
    }
  }

  async function copySettings(
    source: Binding,
    to: CheckedExport,
  ): Promise<Pick<Binding, "policy" | "secrets">> {
    const { policy, secrets } = carrySettings(source, to);
    // A second binding starts without the trust of the first one, as after a move.
    if (policy.approval === "never") delete policy.approval;
    const from = await findExport(packages, source.scope.org_id, source);
    const narrowed = withholdPermissions(policy, from.export.permissions, to.export.permissions);
    return { policy: narrowed.policy, secrets };
  }

  async function moveAll(
    caller: Caller,
    bindings: readonly Binding[],
    package_version: string,
    settings: SettingsByExport,
    grants_new = false,
  ): Promise<PlannedUpdate[]> {
    const moving = bindings.filter((binding) => !isEndedShare(binding));
    for (const { export_id, binding_id } of moving) {
      const duplicate = moving.find(
        (binding) => binding.export_id === export_id && binding.binding_id !== binding_id,
      );
      if (duplicate !== undefined)
        throw severalVersionsError(moving.filter((binding) => binding.export_id === export_id));
    }
    const moves: PlannedUpdate[] = [];
    for (const before of moving) {
      const { config, secrets, policy } = settings[before.export_id] ?? {};
      const body: BindingPatch = {
        package_version,
        ...definedFields({ config }),
        changes: definedFields({ secrets, policy }),
      };
      moves.push(await patch(caller, before, body, "binding.upgrade", { all_chosen: true, grants_new }));
    }
    return moves;
  }

  async function patch(
    caller: Caller,
    before: Binding,
    body: BindingPatch,
    action: string,
    options: PatchOptions = {},
  ): Promise<PlannedUpdate> {
    const { is_rollback = false, all_chosen = false, grants_new = false } = options;
    const package_version = body.package_version ?? before.package_version;
    const is_move = package_version !== before.package_version;
    const checked = await findExport(packages, before.scope.org_id, { ...before, package_version });
    const carried = await credentials.withoutOldCredentials(before, checked);
    const carried_settings = is_move ? carrySettings(carried, checked) : { ...before, trust_dropped: [] };
    const { set, ...settings } = resolveSettings(
      before,
      { ...carried_settings, config: carried.config },
      body,
      !is_move || is_rollback || all_chosen,
    );
    const draft: Binding = {
      ...withoutUpgradeState(before, is_move),
      package_version,
      ...settings,
      // No caller sets `inactive`: it is an active binding with unbound slots.
      status: body.status ?? (before.status === "disabled" ? "disabled" : "active"),
      rollout: body.rollout ?? before.rollout,
      generation: before.generation + 1,
      updated_at: new Date(deps.clock.now()).toISOString(),
    };
    const named_slots = Object.keys(body.changes?.secrets ?? {});
    if (!is_rollback) draft.policy = assignSecretVariables(checked, draft, before, named_slots);
    if (checked.export.kind !== before.kind) {
      const message = `${draft.export_id} is a ${checked.export.kind} in version ${package_version} and was a ${before.kind}`;
      throw invalidBinding([{ path: "/package_version", message }]);
    }
    const from = await findExport(packages, before.scope.org_id, before);
    const from_version = { binding: before, checked: from };
    if (is_move) {
      // A rollback returns to content that was in use before.
      if (!is_rollback) {
        requireBoundSource(before, from.package, checked.package);
        await signed.require(caller, from.package, checked.package);
      }
      const sets_never = set.approval === "never" && !is_rollback;
      const trust = carried_settings.trust_dropped;
      const may_waive = is_rollback || hasRole(caller.role, "admin");
      await recordMove(before, from, checked, draft, {
        trust,
        is_rollback,
        grants_new,
        sets_never,
        may_waive,
        set,
      });
    }
    const sets_policy = body.policy !== undefined || body.changes?.policy !== undefined;
    const other_versions = is_rollback || is_move || !sets_policy ? [] : await findOtherVersions(before);
    if (!is_rollback) held.require(caller, from_version, { binding: draft, checked }, set, other_versions);
    const { row, names_claim } = await checkDraft(caller, checked, draft, from_version);
    if (is_move && before.status === "active" && row.status === "inactive")
      throw missingSecretsError(before, row);
    const records = buildRecords(caller, row, action, describeRename(checked, before, row));
    const replaced = is_move ? await findEndedShares(before) : [];
    return { before, row, checked, names_claim, records, replaced };
  }

  async function findEndedShares({ scope, package_id, export_id, binding_id }: Binding): Promise<Binding[]> {
    return (await listInScope(scope, package_id)).filter(
      (other) => isEndedShare(other) && other.export_id === export_id && other.binding_id !== binding_id,
    );
  }

  /** The other versions in which the export of this binding is bound in the same scope. */
  async function findOtherVersions({
    scope,
    package_id,
    package_version,
    export_id,
  }: Binding): Promise<CheckedExport[]> {
    const other_versions = (await listInScope(scope, package_id)).filter(
      (other) => other.export_id === export_id && other.package_version !== package_version,
    );
    return await Promise.all(other_versions.map((other) => findExport(packages, scope.org_id, other)));
  }

  /** Withholds new permissions and stores in the draft what a rollback needs. */
  async function recordMove(
    before: Binding,
    from: CheckedExport,
    checked: CheckedExport,
    draft: Binding,
    {
      trust,
      is_rollback,
      grants_new,
      sets_never,
      may_waive,
      set,
    }: {
      trust: readonly string[];
      is_rollback: boolean;
      grants_new: boolean;
      /** The change itself waives approval, for the new version. */
      sets_never: boolean;
      /** The caller may waive approval, so a waiver can be kept for the content of another version. */
      may_waive: boolean;
      set: BindingPolicy;
    },
  ): Promise<void> {
    const narrowed =
      is_rollback || grants_new
        ? { policy: draft.policy, withheld: [], limited: [] }
        : withholdPermissions(draft.policy, from.export.permissions, checked.export.permissions, set);
    draft.policy = narrowed.policy;
    if (draft.policy.approval === "never" && !sets_never) {
      // A rollback returns to permissions for which the operator has waived approval before.
      const moved_from = is_rollback ? null : { binding: before, checked: from };
      if (!may_waive || (await waivers.findLoss(checked, draft, moved_from)) !== null) {
        const { approval: _never, ...fields } = draft.policy;
        draft.policy = fields;
      }
    }
    const carried = grants_new
      ? { held: [], limited: [] }
      : held.carryOver({ binding: before, checked: from }, { binding: draft, checked }, is_rollback);
    const permissions_held = [...new Set([...narrowed.withheld, ...carried.held])];
    const permissions_limited = [...new Set([...narrowed.limited, ...carried.limited])].filter(
      (name) => !permissions_held.includes(name),
    );
    type Previous = NonNullable<Binding["previous"]>;
    const lost = before.policy.approval === "never" ? [...trust, "approval"] : trust;
    const dropped = (lost as Previous["trust_dropped"]).filter(
      (name) => draft.policy[name] !== before.policy[name],
    );
    draft.previous = {
      package_version: before.package_version,
      digest: from.package.digest,
      generation: before.generation,
      config: before.config,
      secrets: before.secrets,
      policy: before.policy,
      class_lowered_by: before.class_lowered_by,
      trust_dropped: dropped,
      permissions_held,
      ...(permissions_limited.length === 0 ? {} : { permissions_limited }),
    };
  }

  function resolveScope(caller: Caller, requested: boolean | undefined): Binding["scope"] {
    const org_wide = requested === true || caller.scope.project_id === null;
    if (org_wide) requireWholeOrg(caller, "bind for the whole organization");
    return { org_id: caller.scope.org_id, project_id: org_wide ? null : caller.scope.project_id };
  }

  async function listInScope(scope: Binding["scope"], package_id: string): Promise<Binding[]> {
    const bindings: Binding[] = [];
    for (let after: string | undefined; ; ) {
      const page = await store.bindings.list(
        scope,
        { package_id },
        { limit: 100, ...definedFields({ after }) },
      );
      bindings.push(...page.items.filter((binding) => binding.scope.project_id === scope.project_id));
      if (page.next === null) return bindings;
      after = page.next;
    }
  }

  /** Checks the draft and sets the fields that follow from it: unbound slots, status and who lowered the class. */
  async function checkDraft(
    caller: Caller,
    checked: CheckedExport,
    draft: Binding,
    from: { binding: Binding; checked: CheckedExport } | null,
  ): Promise<Pick<PlannedChange, "row" | "names_claim">> {
    const before = from?.binding ?? null;
    const class_lowered_by = requireClassAccess(caller, checked, draft, before);
    const issues = await checkBinding(deps, checked, draft);
    if (issues.length > 0) throw invalidBinding(issues);
    requireMountAccess(caller, draft, before);
    requireHostAccess(caller, draft, before);
    await waivers.require(caller, checked, draft, from);
    const claim = await authority.require(caller, checked, draft, from);
    const unbound_slots = findUnboundSlots(checked, draft);
    const status = draft.status === "active" && unbound_slots.length > 0 ? "inactive" : draft.status;
    return { row: { ...draft, unbound_slots, status, class_lowered_by }, names_claim: claim };
  }

  function planRemovals(caller: Caller, changes: readonly PlannedChange[]) {
    const replaced = new Map(
      changes.flatMap((change) => (change.replaced ?? []).map((row) => [row.binding_id, row] as const)),
    );
    return [...replaced.values()].map((row) => {
      const records = buildRecords(caller, { ...row, status: "disabled" }, "binding.remove");
      return { row, records };
    });
  }

  return { resolveScope, listInScope, create, moveAll, patch, buildRecords, planRemovals };
}

/**
 * A move ends the trial, the held upgrade and the notes of a rollback. Any other change ends only the trial that
 * follows a move, because a rollback would undo the later settings of the operator. The trial of a share has no end
 * time and ends only with the share.
 */
function withoutUpgradeState(before: Binding, is_move: boolean): Binding {
  const { trial, held_upgrade, rolled_back, rollback_failed, ...fields } = before;
  if (is_move) return fields;
  const kept_trial = trial?.until === null ? { trial } : {};
  return { ...fields, ...definedFields({ held_upgrade, rolled_back, rollback_failed }), ...kept_trial };
}

/** Lets the command line find tools by the former name of their server. */
function describeRename({ package: pack }: CheckedExport, before: Binding, row: Binding): JsonObject {
  const former_name = boundServerName(before);
  return isServer(pack) && former_name !== boundServerName(row) ? { former_name } : {};
}

export function isUpdate(change: PlannedChange): change is PlannedUpdate {
  return change.before !== null;
}

/** A rollout that was rolled back leaves its share without calls, so that calls in flight can finish. */
export function isEndedShare({ share_of, rollout }: Binding): boolean {
  return share_of !== undefined && rollout.traffic_percent === 0;
}

export function toUpdate({ before, row, records }: PlannedUpdate): {
  row: Binding;
  expected: number;
  records: ChangeRecords;
} {
  return { row, expected: before.generation, records };
}

function severalVersionsError(bindings: readonly Binding[]): BackplaneError {
  const [binding] = bindings;
  const versions = bindings.map(({ package_version }) => package_version).join(", ");
  const message = `${binding!.export_id} of ${binding!.package_id} is bound in several versions: ${versions}.`;
  return new BackplaneError("binding.conflict", message, {
    details: { bindings: bindings.map(({ binding_id }) => binding_id) },
    fix: "Change one of them by its binding_id, or remove the others first.",
  });
}

/** A move that would make an active binding inactive is refused. */
function missingSecretsError(before: Binding, { package_version, unbound_slots }: Binding): BackplaneError {
  const message = `version ${package_version} needs a secret for this slot, and the request does not set one; the binding stays on ${before.package_version}`;
  return invalidBinding(unbound_slots.map((slot) => ({ path: `/secrets/${slot}`, message })));
}

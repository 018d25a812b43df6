/**
 * Bindings make exports usable. Every change raises the generation, emits `binding.changed`, and retires the
 * processes of the old generation when their calls are done.
 */

import {
  BackplaneError,
  type Binding,
  type BindingCreate,
  type BindingPatch,
  type BindingUpgrade,
  canonicalJson,
  type JsonObject,
} from "@backplane/contract";
import {
  auditOf,
  type BoundPackage,
  type Caller,
  type Changes,
  type Facts,
  HOST_ADMIN,
  type Kernel,
  type KernelDeps,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import type { DefinitionsService } from "../definitions/definitions.ts";
import { standingLevel, toGrant } from "../grant/effective-grant.ts";
import { effectiveClass, lowersIsolation } from "../grant/execution-class.ts";
import type { TokenRevocation } from "../secrets/sign-in-tokens.ts";
import {
  type CheckedExport,
  checkBinding,
  findExport,
  findUnboundSlots,
  invalidBinding,
} from "./check-binding.ts";
import { carrySettings, createCredentialMoves, withholdPermissions } from "./move-binding.ts";

const MAX_ATTEMPTS = 200;

export interface BindingsParts {
  deps: KernelDeps;
  definitions: Pick<DefinitionsService, "describe">;
  revocation: Pick<TokenRevocation, "readTokens" | "revoke">;
  changes: Pick<Changes, "emitAndWait">;
}

export function createBindings({
  deps,
  definitions,
  revocation,
  changes,
}: BindingsParts): Kernel["bindings"] {
  const { store } = deps;
  /** Resolves after every listener, such as the dependents of a plugin, has handled the change. */
  const announce = (caller: Caller, ...bindings: Binding[]): Promise<void> =>
    changes.emitAndWait("bindings.changed", { caller, bindings });
  const credentials = createCredentialMoves(deps, revocation);

  async function create(caller: Caller, body: BindingCreate): Promise<Binding> {
    requireOperator(caller, "bind exports");
    const scope = resolveScope(caller, body.org_wide);
    const found = await findExport(deps, scope.org_id, body);
    const others = (await listInScope(scope, body.package_id)).filter(
      ({ export_id, package_version }) =>
        export_id === body.export_id && package_version !== body.package_version,
    );
    const { config, secrets, policy, package_version } = body;
    // A binding with less than 100 percent is part of a rollout, and so is the new one beside it.
    const shared = others.length === 1 && others[0]!.rollout.traffic_percent < 100;
    if (body.rollout === undefined && others.length > 0 && !shared) {
      // Moving the binding keeps its policy. A second binding would serve its calls without that policy.
      const parts = defined({ config, secrets, policy });
      const moved = await moveAll(caller, others, package_version, { [body.export_id]: parts });
      await announce(caller, ...moved);
      return moved[0]!;
    }
    const now = new Date(deps.clock.now()).toISOString();
    // A binding that takes a share of the calls starts with the policy and secrets of the other one.
    const beside =
      others[0] === undefined ? undefined : await credentials.withoutOldCredentials(others[0], found);
    const kept = beside === undefined ? null : await copySettings(beside, found);
    const draft: Binding = {
      binding_id: deps.ids.next("binding"),
      package_id: body.package_id,
      package_version,
      export_id: body.export_id,
      kind: found.export.kind,
      scope,
      config: config ?? beside?.config ?? {},
      secrets: { ...kept?.secrets, ...secrets },
      status: body.status ?? "active",
      unbound_slots: [],
      rollout: body.rollout ?? { traffic_percent: 100 },
      policy: { ...kept?.policy, ...policy },
      class_lowered_by: null,
      generation: 1,
      created_at: now,
      updated_at: now,
    };
    const row = await checkDraft(caller, found, draft, null);
    await store.bindings.create(row, changeFacts(caller, row, "binding.create"));
    await definitions.describe({ binding: row, package: found.package });
    await announce(caller, row);
    return row;
  }

  async function copySettings(
    beside: Binding,
    to: CheckedExport,
  ): Promise<Pick<Binding, "policy" | "secrets">> {
    const { policy, secrets } = carrySettings(beside, to.export);
    const from = await findExport(deps, beside.scope.org_id, beside);
    const held = withholdPermissions(policy, from.export.permissions, to.export.permissions);
    return { policy: held.policy, secrets };
  }

  async function upgrade(caller: Caller, body: BindingUpgrade): Promise<Binding[]> {
    requireOperator(caller, "upgrade bindings");
    const scope = resolveScope(caller, body.org_wide);
    const { package_id, package_version, bindings: parts = {} } = body;
    const existing = await listInScope(scope, package_id);
    if (existing.length === 0)
      throw new BackplaneError("binding.not_found", `${package_id} is not bound in this scope.`, {
        fix: `backplane plugin install SOURCE --bind, or POST /v1/plugin-bindings`,
      });
    const older = existing.filter((one) => one.package_version !== package_version);
    const moved = older.length === 0 ? [] : await moveAll(caller, older, package_version, parts);
    const all = existing.map((one) => moved.find(({ binding_id }) => binding_id === one.binding_id) ?? one);
    await announce(caller, ...all);
    return all;
  }

  /** Moves all bindings in one transaction. The old version serves calls until it is committed. */
  async function moveAll(
    caller: Caller,
    older: readonly Binding[],
    package_version: string,
    parts: Readonly<Record<string, Pick<BindingPatch, "config" | "secrets" | "policy">>>,
  ): Promise<Binding[]> {
    for (const { export_id, binding_id } of older) {
      const twin = older.find((one) => one.export_id === export_id && one.binding_id !== binding_id);
      if (twin !== undefined) throw severalVersions(older.filter((one) => one.export_id === export_id));
    }
    const changes = [];
    for (const before of older) {
      const { config, secrets, policy } = parts[before.export_id] ?? {};
      const to = await findExport(deps, before.scope.org_id, { ...before, package_version });
      const kept = carrySettings(await credentials.withoutOldCredentials(before, to), to.export);
      const body: BindingPatch = {
        package_version,
        ...defined({ config }),
        ...(secrets === undefined ? {} : { secrets: { ...kept.secrets, ...secrets } }),
        ...(policy === undefined ? {} : { policy: { ...kept.policy, ...policy } }),
      };
      const { row, found } = await apply(caller, before, body);
      changes.push({
        before,
        row,
        found,
        expected: before.generation,
        facts: changeFacts(caller, row, "binding.upgrade"),
      });
    }
    await store.bindings.updateAll(changes.map(({ row, expected, facts }) => ({ row, expected, facts })));
    for (const { row } of changes) deps.runner.retire(row.binding_id);
    for (const { before, row, found } of changes)
      await credentials.dropOldCredentials(caller, before, row, found);
    for (const { row, found } of changes)
      await definitions.describe({ binding: row, package: found.package });
    return changes.map(({ row }) => row);
  }

  async function rollback(caller: Caller, id: string, expected?: number): Promise<Binding> {
    requireOperator(caller, "change bindings");
    const { binding: before } = await getBound(caller, id);
    if (before.scope.project_id === null) requireWholeOrg(caller, "change this binding");
    if (expected !== undefined && before.generation !== expected) throw outdated(before);
    const { previous } = before;
    if (previous === undefined)
      throw new BackplaneError("request.invalid", `${id} has no previous version to roll back to.`, {
        fix: "Name a version: PATCH with package_version, or backplane binding set --to VERSION.",
      });
    const { package_version, digest, config, secrets } = previous;
    const to = await findExport(deps, before.scope.org_id, { ...before, package_version });
    // Other bytes may have been installed under this version since, and the operator has not trusted those.
    const same = to.package.digest === digest;
    const then: Binding = { ...before, ...previous, generation: before.generation };
    // The same bytes were trusted before, but only the host's admin may give that trust again.
    const policy = caller.actor === HOST_ADMIN ? previous.policy : carrySettings(then, to.export).policy;
    const settings = same ? { config, secrets, policy } : {};
    const { row, found } = await apply(caller, before, { package_version, ...settings }, same);
    if (!(await store.bindings.update(row, before.generation, changeFacts(caller, row, "binding.rollback"))))
      throw outdated((await getBound(caller, id)).binding);
    deps.runner.retire(id);
    await credentials.dropOldCredentials(caller, before, row, found);
    await definitions.describe({ binding: row, package: found.package });
    await announce(caller, row);
    return row;
  }

  async function patch(
    caller: Caller,
    id: string,
    body: BindingPatch,
    expected: number | undefined,
  ): Promise<Binding> {
    requireOperator(caller, "change bindings");
    let version: string | undefined;
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const { binding: before } = await getBound(caller, id);
      if (before.scope.project_id === null) requireWholeOrg(caller, "change this binding");
      if (expected !== undefined && before.generation !== expected) throw outdated(before);
      // If two callers move the binding to different versions, the second has not seen the first move.
      version ??= before.package_version;
      if (body.package_version !== undefined && version !== before.package_version)
        throw movedMeanwhile(before);
      const { row, found } = await apply(caller, before, body);
      if (await store.bindings.update(row, before.generation, changeFacts(caller, row, "binding.change"))) {
        deps.runner.retire(id);
        await credentials.dropOldCredentials(caller, before, row, found);
        await definitions.describe({ binding: row, package: found.package });
        await announce(caller, row);
        return row;
      }
    }
    throw new BackplaneError("request.overloaded", `binding ${id} was changed by too many requests at once`);
  }

  /** With `back` the settings are those that the operator gave this very version before. */
  async function apply(
    caller: Caller,
    before: Binding,
    body: BindingPatch,
    back = false,
  ): Promise<{ row: Binding; found: CheckedExport }> {
    const package_version = body.package_version ?? before.package_version;
    const moves = package_version !== before.package_version;
    const found = await findExport(deps, before.scope.org_id, { ...before, package_version });
    const carried = await credentials.withoutOldCredentials(before, found);
    const kept = moves ? carrySettings(carried, found.export) : { ...before, trust_dropped: [] };
    const draft: Binding = {
      ...before,
      package_version,
      config: body.config ?? carried.config,
      secrets: body.secrets ?? kept.secrets,
      // Nobody sets `inactive`: it is an active binding with unbound slots.
      status: body.status ?? (before.status === "disabled" ? "disabled" : "active"),
      rollout: body.rollout ?? before.rollout,
      policy: body.policy ?? kept.policy,
      generation: before.generation + 1,
      updated_at: new Date(deps.clock.now()).toISOString(),
    };
    if (found.export.kind !== before.kind) {
      const message = `${draft.export_id} is a ${found.export.kind} in version ${package_version} and was a ${before.kind}`;
      throw invalidBinding([{ path: "/package_version", message }]);
    }
    if (moves) await recordMove(before, found, draft, kept.trust_dropped, back);
    const row = await checkDraft(caller, found, draft, before);
    if (moves && before.status === "active" && row.status === "inactive") throw needsSecrets(before, row);
    return { row, found };
  }

  /** Withholds new permissions and stores in the draft what a rollback needs. */
  async function recordMove(
    before: Binding,
    found: CheckedExport,
    draft: Binding,
    trust: readonly string[],
    back: boolean,
  ): Promise<void> {
    const from = await findExport(deps, before.scope.org_id, before);
    const held = back
      ? { policy: draft.policy, held: [] }
      : withholdPermissions(draft.policy, from.export.permissions, found.export.permissions);
    draft.policy = held.policy;
    type Previous = NonNullable<Binding["previous"]>;
    const dropped = trust.filter(
      (name) =>
        draft.policy[name as "host_target" | "class"] !== before.policy[name as "host_target" | "class"],
    );
    draft.previous = {
      package_version: before.package_version,
      digest: from.package.digest,
      generation: before.generation,
      config: before.config,
      secrets: before.secrets,
      policy: before.policy,
      class_lowered_by: before.class_lowered_by,
      trust_dropped: dropped as Previous["trust_dropped"],
      permissions_held: held.held as Previous["permissions_held"],
    };
  }

  function resolveScope(caller: Caller, wide: boolean | undefined): Binding["scope"] {
    const org_wide = wide === true || caller.scope.project_id === null;
    if (org_wide) requireWholeOrg(caller, "bind for the whole org");
    return { org_id: caller.scope.org_id, project_id: org_wide ? null : caller.scope.project_id };
  }

  /** Lists the bindings of exactly this scope. */
  async function listInScope(scope: Binding["scope"], package_id: string): Promise<Binding[]> {
    const found: Binding[] = [];
    for (let after: string | undefined; ; ) {
      const page = await store.bindings.list(scope, { package_id }, { limit: 100, ...defined({ after }) });
      found.push(...page.items.filter((one) => one.scope.project_id === scope.project_id));
      if (page.next === null) return found;
      after = page.next;
    }
  }

  /** Checks the draft and sets the fields that follow from it: unbound slots, status and who lowered the class. */
  async function checkDraft(
    caller: Caller,
    found: CheckedExport,
    draft: Binding,
    before: Binding | null,
  ): Promise<Binding> {
    const issues = await checkBinding(deps, found, draft);
    if (issues.length > 0) throw invalidBinding(issues);
    requireMountAccess(caller, draft, before);
    requireHostAccess(caller, draft, before);
    const unbound_slots = findUnboundSlots(found.export, draft.secrets);
    const status = draft.status === "active" && unbound_slots.length > 0 ? "inactive" : draft.status;
    return {
      ...draft,
      unbound_slots,
      status,
      class_lowered_by: requireClassAccess(caller, found, draft, before),
    };
  }

  /** A mount gives a plugin access to the host's disk, which no org owns, so only the host's admin may add one. */
  function requireMountAccess(caller: Caller, draft: Binding, before: Binding | null): void {
    if (caller.actor === HOST_ADMIN || (draft.policy.mounts ?? []).length === 0) return;
    const stands = before !== null && before.package_version === draft.package_version;
    const given = new Set(stands ? before.policy.mounts?.map((mount) => canonicalJson(mount)) : []);
    if (draft.policy.mounts?.every((mount) => given.has(canonicalJson(mount)))) return;
    throw new BackplaneError("policy.denied", "only the admin token may mount a folder of the host", {
      fix: "Leave policy.mounts unchanged, or ask whoever runs the gateway.",
    });
  }

  /** The code of the package then runs as the gateway's own user, and a new version is new code. */
  function requireHostAccess(caller: Caller, draft: Binding, before: Binding | null): void {
    if (caller.actor === HOST_ADMIN || draft.policy.host_target !== true) return;
    const stands = before !== null && before.package_version === draft.package_version;
    if (stands && before.policy.host_target === true) return;
    throw new BackplaneError("policy.denied", "only the admin token may let tools run on the host", {
      fix: "Leave policy.host_target out, or ask whoever runs the gateway.",
    });
  }

  function requireClassAccess(
    caller: Caller,
    found: CheckedExport,
    draft: Binding,
    before: Binding | null,
  ): string | null {
    const wanted = draft.policy.class;
    if (wanted === undefined || !lowersIsolation(wanted, found.export)) return null;
    const stands = before !== null && before.class_lowered_by !== null && before.policy.class === wanted;
    if (stands && before.package_version === draft.package_version) return before.class_lowered_by;
    if (!caller.admin) throw new BackplaneError("binding.class_forbidden");
    // Inline code can do everything that the gateway can, in every org.
    if (wanted === "inline" && caller.actor !== HOST_ADMIN) {
      throw new BackplaneError(
        "binding.class_forbidden",
        "only the admin token may run code inline, in the gateway's own process",
        {
          fix: "Use class worker, or ask whoever runs the gateway.",
        },
      );
    }
    return caller.actor;
  }

  async function remove(caller: Caller, id: string, expected?: number): Promise<void> {
    requireOperator(caller, "remove bindings");
    const { binding } = await getBound(caller, id);
    if (binding.scope.project_id === null) requireWholeOrg(caller, "remove this binding");
    const tokens = await revocation.readTokens(binding);
    const facts = changeFacts(caller, { ...binding, status: "disabled" }, "binding.remove");
    if (!(await store.bindings.remove(binding.scope, id, facts, expected))) {
      // The binding was removed, or changed since the caller read it.
      throw outdated((await getBound(caller, id)).binding);
    }
    deps.runner.retire(id);
    void revocation.revoke(binding, tokens);
    await announce(caller, binding);
  }

  async function validate(caller: Caller, id: string) {
    const { binding } = await getBound(caller, id);
    const found = await findExport(deps, binding.scope.org_id, binding);
    const issues = await checkBinding(deps, found, binding);
    const unbound_slots = findUnboundSlots(found.export, binding.secrets);
    const isolation = effectiveClass(binding, found.export);
    return {
      valid: issues.length === 0 && unbound_slots.length === 0,
      status: binding.status,
      unbound_slots,
      issues,
      requested: found.export.permissions,
      grant: toGrant(standingLevel({ binding, ...found }, isolation, caller.scope, deps.host)),
    };
  }

  async function getBound(caller: Caller, id: string): Promise<BoundPackage> {
    const found = await store.bindings.get(caller.scope, id);
    if (found === null) throw new BackplaneError("binding.not_found");
    return found;
  }

  function changeFacts(caller: Caller, row: Binding, action: string): Facts {
    const about = {
      package_id: row.package_id,
      package_version: row.package_version,
      export_id: row.export_id,
      status: row.status,
      generation: row.generation,
    };
    const lowered: JsonObject =
      row.class_lowered_by === null || row.policy.class === undefined
        ? {}
        : { class: row.policy.class, class_lowered_by: row.class_lowered_by };
    // A change of an org-wide binding is reported in the project from which it was made.
    const scope = row.scope.project_id === null ? caller.scope : row.scope;
    const { previous } = row;
    // Only the change that moved the binding reports the move.
    const moved: JsonObject =
      previous === undefined || previous.generation !== row.generation - 1
        ? {}
        : {
            from_version: previous.package_version,
            trust_dropped: previous.trust_dropped,
            permissions_held: previous.permissions_held,
          };
    return {
      events: [
        {
          id: deps.ids.next("event"),
          type: "binding.changed",
          scope,
          occurred_at: deps.clock.now(),
          subject: { kind: "binding", id: row.binding_id },
          summary: { ...about, action },
        },
      ],
      audit: auditOf(deps, caller, action, row.binding_id, { ...about, ...lowered, ...moved }, scope),
    };
  }

  return {
    create,
    get: async (caller, id) => (await getBound(caller, id)).binding,
    list: (caller, filter, page) => store.bindings.list(caller.scope, filter, page),
    patch,
    upgrade,
    rollback,
    validate,
    remove,
  };
}

/** Leaves out undefined values. */
function defined<T extends object>(parts: T): { [K in keyof T]?: NonNullable<T[K]> } {
  const named = Object.entries(parts).filter(([, value]) => value !== undefined);
  return Object.fromEntries(named) as { [K in keyof T]?: NonNullable<T[K]> };
}

function severalVersions(bindings: readonly Binding[]): BackplaneError {
  const [one] = bindings;
  const versions = bindings.map(({ package_version }) => package_version).join(", ");
  const message = `${one!.export_id} of ${one!.package_id} is bound in several versions: ${versions}.`;
  return new BackplaneError("binding.conflict", message, {
    details: { bindings: bindings.map(({ binding_id }) => binding_id) },
    fix: "Change one of them by its binding_id, or remove the others first.",
  });
}

function movedMeanwhile({ binding_id, package_version }: Binding): BackplaneError {
  const message = `${binding_id} was moved to ${package_version} in the meantime.`;
  return new BackplaneError("binding.conflict", message, { details: { binding_id, package_version } });
}

/** An active binding must not become inactive by a move, so the move is refused. */
function needsSecrets(before: Binding, { package_version, unbound_slots }: Binding): BackplaneError {
  const message = `version ${package_version} needs a secret for this slot; the binding stays on ${before.package_version}`;
  return invalidBinding(unbound_slots.map((slot) => ({ path: `/secrets/${slot}`, message })));
}

function outdated(binding: Binding): BackplaneError {
  return new BackplaneError("request.precondition", undefined, {
    details: { generation: binding.generation },
  });
}

/**
 * Bindings make exports usable. Any change raises the generation, tells `binding.changed`, and retires the
 * processes of the old generation once their calls are done.
 */
import {
  BackplaneError,
  type Binding,
  type BindingCreate,
  type BindingPatch,
  canonicalJson,
  type JsonObject,
} from "@backplane/contract";
import { auditOf, HOST_ADMIN, requireOperator, requireWholeOrg } from "../caller.ts";
import type { DefinitionsRoom } from "../definitions/definitions.ts";
import type { KernelDeps } from "../deps.ts";
import type { Kernel } from "../facade.ts";
import { standingLevel, toGrant } from "../grant/effective.ts";
import { effectiveClass, lowers } from "../policy/class.ts";
import type { BoundPackage, Caller, Facts } from "../ports/index.ts";
import type { GiveBack } from "../sign-ins/give-back.ts";
import { bindingIssues, type CheckedExport, findExport, invalid, unboundSlots } from "./check-binding.ts";

const RACES = 200;

export function createBindings(
  deps: KernelDeps,
  definitions: Pick<DefinitionsRoom, "describe">,
  givenBack: Pick<GiveBack, "holds" | "tell">,
): Kernel["bindings"] {
  const { store } = deps;

  async function create(caller: Caller, body: BindingCreate): Promise<Binding> {
    requireOperator(caller, "bind exports");
    const org_wide = body.org_wide === true || caller.scope.project_id === null;
    if (org_wide) requireWholeOrg(caller, "bind for the whole org");
    const scope = { org_id: caller.scope.org_id, project_id: org_wide ? null : caller.scope.project_id };
    const found = await findExport(deps, scope.org_id, body);
    const now = new Date(deps.clock.now()).toISOString();
    const draft: Binding = {
      binding_id: deps.ids.next("binding"),
      package_id: body.package_id,
      package_version: body.package_version,
      export_id: body.export_id,
      kind: found.export.kind,
      scope,
      config: body.config ?? {},
      secrets: body.secrets ?? {},
      status: body.status ?? "active",
      unbound_slots: [],
      rollout: body.rollout ?? { traffic_percent: 100 },
      policy: body.policy ?? {},
      class_lowered_by: null,
      generation: 1,
      created_at: now,
      updated_at: now,
    };
    const row = await complete(caller, found, draft, null);
    await store.bindings.create(row, changed(caller, row, "binding.create"));
    await definitions.describe({ binding: row, package: found.package });
    return row;
  }

  async function patch(
    caller: Caller,
    id: string,
    body: BindingPatch,
    expected: number | undefined,
  ): Promise<Binding> {
    requireOperator(caller, "change bindings");
    for (let race = 0; race < RACES; race++) {
      const { binding: before } = await bound(caller, id);
      if (before.scope.project_id === null) requireWholeOrg(caller, "change this binding");
      if (expected !== undefined && before.generation !== expected) throw outdated(before);
      const { row, found } = await apply(caller, before, body);
      if (await store.bindings.update(row, before.generation, changed(caller, row, "binding.change"))) {
        deps.runner.retire(id);
        await definitions.describe({ binding: row, package: found.package });
        return row;
      }
    }
    throw new BackplaneError("request.overloaded", "the binding is changed by too many at once");
  }

  async function apply(
    caller: Caller,
    before: Binding,
    body: BindingPatch,
  ): Promise<{ row: Binding; found: CheckedExport }> {
    const draft: Binding = {
      ...before,
      package_version: body.package_version ?? before.package_version,
      config: body.config ?? before.config,
      secrets: body.secrets ?? before.secrets,
      // Inactive is no wish of anybody's: it is active, waiting for its slots.
      status: body.status ?? (before.status === "disabled" ? "disabled" : "active"),
      rollout: body.rollout ?? before.rollout,
      policy: body.policy ?? before.policy,
      generation: before.generation + 1,
      updated_at: new Date(deps.clock.now()).toISOString(),
    };
    const found = await findExport(deps, before.scope.org_id, draft);
    if (found.export.kind !== before.kind) {
      const message = `${draft.export_id} is a ${found.export.kind} in this version, it was a ${before.kind}`;
      throw invalid([{ path: "/package_version", message }]);
    }
    return { row: await complete(caller, found, draft, before), found };
  }

  /** The draft, checked, with what follows from it: slots, status, and who lowered the class. */
  async function complete(
    caller: Caller,
    found: CheckedExport,
    draft: Binding,
    before: Binding | null,
  ): Promise<Binding> {
    const issues = await bindingIssues(deps, found, draft);
    if (issues.length > 0) throw invalid(issues);
    refuseMounts(caller, draft, before);
    refuseHost(caller, draft, before);
    const unbound_slots = unboundSlots(found.export, draft.secrets);
    const status = draft.status === "active" && unbound_slots.length > 0 ? "inactive" : draft.status;
    return {
      ...draft,
      unbound_slots,
      status,
      class_lowered_by: loweredBy(caller, found, draft, before),
    };
  }

  /** A mount opens the host's disk to a plugin, which is beyond any org: only the host's own admin gives one. */
  function refuseMounts(caller: Caller, draft: Binding, before: Binding | null): void {
    if (caller.actor === "admin" || (draft.policy.mounts ?? []).length === 0) return;
    const stands = before !== null && before.package_version === draft.package_version;
    const given = new Set(stands ? before.policy.mounts?.map((mount) => canonicalJson(mount)) : []);
    if (draft.policy.mounts?.every((mount) => given.has(canonicalJson(mount)))) return;
    throw new BackplaneError("policy.denied", "only the admin token may mount a folder of the host", {
      fix: "Leave policy.mounts as it is, or ask whoever runs the gateway.",
    });
  }

  /** Code of the package runs as the gateway's own user then; a new version is new code. */
  function refuseHost(caller: Caller, draft: Binding, before: Binding | null): void {
    if (caller.actor === "admin" || draft.policy.host_target !== true) return;
    const stands = before !== null && before.package_version === draft.package_version;
    if (stands && before.policy.host_target === true) return;
    throw new BackplaneError("policy.denied", "only the admin token may let tools run on the host", {
      fix: "Leave policy.host_target out, or ask whoever runs the gateway.",
    });
  }

  function loweredBy(
    caller: Caller,
    found: CheckedExport,
    draft: Binding,
    before: Binding | null,
  ): string | null {
    const wanted = draft.policy.class;
    if (wanted === undefined || !lowers(wanted, found.export)) return null;
    const stands = before !== null && before.class_lowered_by !== null && before.policy.class === wanted;
    if (stands && before.package_version === draft.package_version) return before.class_lowered_by;
    if (!caller.admin) throw new BackplaneError("binding.class_forbidden");
    // In the gateway's own process a plugin can do all that the gateway can, in every org.
    if (wanted === "inline" && caller.actor !== HOST_ADMIN) {
      throw new BackplaneError(
        "binding.class_forbidden",
        "only the admin token may run code in the gateway itself",
        {
          fix: "Use class worker, or ask whoever runs the gateway.",
        },
      );
    }
    return caller.actor;
  }

  async function remove(caller: Caller, id: string, expected?: number): Promise<void> {
    requireOperator(caller, "remove bindings");
    const { binding } = await bound(caller, id);
    if (binding.scope.project_id === null) requireWholeOrg(caller, "remove this binding");
    const tokens = await givenBack.holds(binding);
    const facts = changed(caller, { ...binding, status: "disabled" }, "binding.remove");
    if (!(await store.bindings.remove(binding.scope, id, facts, expected))) {
      // Gone, or no longer what the caller has read.
      throw outdated((await bound(caller, id)).binding);
    }
    deps.runner.retire(id);
    void givenBack.tell(binding, tokens);
  }

  async function validate(caller: Caller, id: string) {
    const { binding } = await bound(caller, id);
    const found = await findExport(deps, binding.scope.org_id, binding);
    const issues = await bindingIssues(deps, found, binding);
    const unbound_slots = unboundSlots(found.export, binding.secrets);
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

  async function bound(caller: Caller, id: string): Promise<BoundPackage> {
    const found = await store.bindings.get(caller.scope, id);
    if (found === null) throw new BackplaneError("binding.not_found");
    return found;
  }

  function changed(caller: Caller, row: Binding, action: string): Facts {
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
    // What holds for the whole org was changed from somewhere, and those who work there hear of it.
    const scope = row.scope.project_id === null ? caller.scope : row.scope;
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
      audit: auditOf(deps, caller, action, row.binding_id, { ...about, ...lowered }, scope),
    };
  }

  return {
    create,
    get: async (caller, id) => (await bound(caller, id)).binding,
    list: (caller, filter, page) => store.bindings.list(caller.scope, filter, page),
    patch,
    validate,
    remove,
  };
}

function outdated(binding: Binding): BackplaneError {
  return new BackplaneError("request.precondition", undefined, {
    details: { generation: binding.generation },
  });
}

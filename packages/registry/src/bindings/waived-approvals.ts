/**
 * Bindings whose calls need no approval (`policy.approval = never`). Only an admin may waive approval, and only up to
 * the risk that the policy allows with `lasting_approvals`. The waiver covers the grant that the binding has at that
 * time.
 */
import {
  BackplaneError,
  type Binding,
  isSelfDescribing,
  type PluginExport,
  tolerates,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { type Caller, hasRole, type KernelDeps } from "@backplane/ports";
import { toolsOf } from "../exports/whole-package.ts";
import { levelBeforeCall, toGrant, withSecretEnv } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { listWiderParts } from "../grant/wider-parts.ts";
import type { Policies } from "../policy/policies.ts";
import { computeRisk } from "../policy/risk.ts";
import { type CheckedExport, invalidBinding } from "./check-binding.ts";

type WaivedApprovalDeps = Pick<KernelDeps, "store" | "host"> & { policies: Pick<Policies, "getEffective"> };

export interface WaivedApprovals {
  /** Throws if the draft waives approval and its caller or the policy does not permit that. */
  require(caller: Caller, to: CheckedExport, draft: Binding, from: BoundVersion | null): Promise<void>;
  /** Returns why a binding loses its waiver when it moves to another version, or null if it keeps the waiver. */
  findLoss(to: CheckedExport, draft: Binding, from: BoundVersion | null): Promise<string | null>;
}

interface BoundVersion {
  binding: Binding;
  checked: CheckedExport;
}

export function createWaivedApprovals({ store, host, policies }: WaivedApprovalDeps): WaivedApprovals {
  function computeGrant(binding: Binding, checked: CheckedExport) {
    const bound = { binding, package: checked.package, export: checked.export };
    const level = levelBeforeCall(bound, effectiveClass(binding, checked.export), binding.scope, host);
    return withSecretEnv(toGrant(level), binding.policy);
  }

  function findWiderParts(to: CheckedExport, draft: Binding, from: BoundVersion): string[] {
    return listWiderParts(computeGrant(from.binding, from.checked), computeGrant(draft, to));
  }

  /** Describes the first tool whose risk is too high to waive approval, or returns null. */
  async function findRiskProblem(to: CheckedExport, draft: Binding): Promise<string | null> {
    const policy = await policies.getEffective(draft.scope);
    const { lasting_approvals } = policy.document;
    const grant = computeGrant(draft, to);
    for (const item of await listBoundTools(to, draft)) {
      if (item.kind !== "tool") continue;
      const { risk } = computeRisk({ export: item, effect_class: item.tool.effect_class }, grant, policy, []);
      if (tolerates(lasting_approvals, risk)) continue;
      const name = item.id === WHOLE_PACKAGE ? draft.package_id : item.id;
      return risk === "critical"
        ? `${name} is critical, and critical calls always need approval`
        : `the risk of ${name} is ${risk}, and the policy's lasting_approvals is ${lasting_approvals}`;
    }
    return null;
  }

  /** A server that has not been started yet is treated as one tool with unknown effects. */
  async function listBoundTools(to: CheckedExport, draft: Binding): Promise<readonly PluginExport[]> {
    if (to.export.id !== WHOLE_PACKAGE) return [to.export];
    const tools = isSelfDescribing(to.package.manifest.runtime.protocol)
      ? (await store.definitions.get(draft.scope.org_id, draft.binding_id))?.exports
      : toolsOf(to.package);
    return tools === undefined || tools.length === 0 ? [to.export] : tools;
  }

  return {
    async require(caller, to, draft, from) {
      if (draft.policy.approval !== "never") return;
      const unchanged =
        from?.binding.policy.approval === "never" && findWiderParts(to, draft, from).length === 0;
      if (unchanged) return;
      if (!hasRole(caller.role, "admin"))
        throw new BackplaneError(
          "policy.denied",
          "Only an owner or admin may set policy.approval to never.",
          {
            fix: "Leave out policy.approval, or ask an admin.",
          },
        );
      const problem = await findRiskProblem(to, draft);
      if (problem !== null)
        throw invalidBinding([{ path: "/policy/approval", message: `never is not possible: ${problem}` }]);
    },
    async findLoss(to, draft, from) {
      const wider_parts = from === null ? [] : findWiderParts(to, draft, from);
      if (wider_parts.length > 0) return `the new version can do more: ${wider_parts.join(", ")}`;
      return await findRiskProblem(to, draft);
    },
  };
}

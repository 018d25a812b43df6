/**
 * Bindings whose calls never ask (`policy.approval = never`). That is trust in what the calls can do, so it is given by an
 * admin, within the policy's `lasting_approvals`, and only for the grant that the binding has at that time.
 */
import {
  BackplaneError,
  type Binding,
  isDescribed,
  type PluginExport,
  tolerates,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { atLeast, type Caller, type KernelDeps } from "@backplane/ports";
import { toolsOf } from "../exports/whole-package.ts";
import { standingLevel, toGrant, withSecretEnv } from "../grant/effective-grant.ts";
import { effectiveClass } from "../grant/execution-class.ts";
import { widerParts } from "../grant/wider-parts.ts";
import type { Policies } from "../policy/policies.ts";
import { riskOf } from "../policy/risk.ts";
import { type CheckedExport, invalidBinding } from "./check-binding.ts";

type UnaskedDeps = Pick<KernelDeps, "store" | "host"> & { policies: Pick<Policies, "of"> };

export interface UnaskedCalls {
  /** Throws if the draft never asks and the caller, or the policy, does not permit that. */
  require(caller: Caller, to: CheckedExport, draft: Binding, from: BoundVersion | null): Promise<void>;
  /** Why a binding that never asks may not keep that when it moves, or null. */
  findLoss(to: CheckedExport, draft: Binding, from: BoundVersion | null): Promise<string | null>;
}

interface BoundVersion {
  binding: Binding;
  found: CheckedExport;
}

export function createUnaskedCalls({ store, host, policies }: UnaskedDeps): UnaskedCalls {
  function grantOf(binding: Binding, found: CheckedExport) {
    const bound = { binding, package: found.package, export: found.export };
    const level = standingLevel(bound, effectiveClass(binding, found.export), binding.scope, host);
    return withSecretEnv(toGrant(level), binding.policy);
  }

  function wider(to: CheckedExport, draft: Binding, from: BoundVersion): string[] {
    return widerParts(grantOf(from.binding, from.found), grantOf(draft, to));
  }

  /** The tool that would still ask, because its risk is above the ceiling. */
  async function findRiskProblem(to: CheckedExport, draft: Binding): Promise<string | null> {
    const policy = await policies.of(draft.scope);
    const { lasting_approvals } = policy.document;
    const grant = grantOf(draft, to);
    for (const item of await boundTools(to, draft)) {
      if (item.kind !== "tool") continue;
      const { risk } = riskOf({ export: item, effect_class: item.tool.effect_class }, grant, policy, []);
      if (tolerates(lasting_approvals, risk)) continue;
      const name = item.id === WHOLE_PACKAGE ? draft.package_id : item.id;
      return risk === "critical"
        ? `${name} is critical, and critical calls always ask`
        : `the risk of ${name} is ${risk}, and the policy's lasting_approvals is ${lasting_approvals}`;
    }
    return null;
  }

  /** A server that was not started yet counts as one tool of unknown effects. */
  async function boundTools(to: CheckedExport, draft: Binding): Promise<readonly PluginExport[]> {
    if (to.export.id !== WHOLE_PACKAGE) return [to.export];
    const tools = isDescribed(to.package.manifest.runtime.protocol)
      ? (await store.definitions.get(draft.scope.org_id, draft.binding_id))?.exports
      : toolsOf(to.package);
    return tools === undefined || tools.length === 0 ? [to.export] : tools;
  }

  return {
    async require(caller, to, draft, from) {
      if (draft.policy.approval !== "never") return;
      const stands = from?.binding.policy.approval === "never" && wider(to, draft, from).length === 0;
      if (stands) return;
      if (!atLeast(caller.role, "admin"))
        throw new BackplaneError("policy.denied", "only an owner or admin may let calls run without asking", {
          fix: "Leave out policy.approval, or ask an admin.",
        });
      const problem = await findRiskProblem(to, draft);
      if (problem !== null)
        throw invalidBinding([{ path: "/policy/approval", message: `never is not possible: ${problem}` }]);
    },
    async findLoss(to, draft, from) {
      const more = from === null ? [] : wider(to, draft, from);
      if (more.length > 0) return `the new version can do more: ${more.join(", ")}`;
      return await findRiskProblem(to, draft);
    },
  };
}

/** Finds the bindings of a package that can move to another version, and plans their moves without storing them. */
import { BackplaneError, type Binding, type Grant, type Package } from "@backplane/contract";
import type { BoundPackage, Caller, Description, KernelDeps, Operation } from "@backplane/ports";
import { describeProcess } from "../definitions/definitions.ts";
import type { Policies } from "../policy/policies.ts";
import { findExport } from "./check-binding.ts";
import type { BindingPlanner } from "./plan-change.ts";

export interface UpgradeCandidates {
  /** The bindings of the scope that use another version of this package. Throws binding.not_found if there are none. */
  listMovable(caller: Caller, target: Package, org_wide: boolean | undefined): Promise<Binding[]>;
  /** The package in use, and the binding as an upgrade would store it. */
  planMove(caller: Caller, binding: Binding, target: Package): Promise<{ from: Package; moved: Binding }>;
  /** Requests the tools of a process that gets these values instead of the binding's secrets. Stores nothing. */
  describe(
    bound: BoundPackage,
    secretsFor: (grant: Pick<Grant, "secret_slots">) => Record<string, string>,
    operation?: Operation,
  ): Promise<Description>;
}

export function createUpgradeCandidates(
  deps: KernelDeps,
  policies: Pick<Policies, "getEffective">,
  planner: Pick<BindingPlanner, "resolveScope" | "listInScope" | "moveAll">,
): UpgradeCandidates {
  return {
    async listMovable(caller, { package_id, version }, org_wide) {
      const scope = planner.resolveScope(caller, org_wide);
      const movable = (await planner.listInScope(scope, package_id)).filter(
        ({ package_version }) => package_version !== version,
      );
      if (movable.length > 0) return movable;
      const message = `No binding of ${package_id} in this scope uses a version other than ${version}.`;
      throw new BackplaneError("binding.not_found", message, {
        fix: "List the bindings with `backplane binding list`.",
      });
    },
    async planMove(caller, binding, { version }) {
      const { package: from } = await findExport(deps.store.packages, binding.scope.org_id, binding);
      const [move] = await planner.moveAll(caller, [binding], version, {});
      return { from, moved: move!.row };
    },
    describe: (bound, secretsFor, operation) =>
      describeProcess(
        deps,
        policies,
        { sendWithSecrets: (_bound, grant, send) => send(secretsFor(grant)) },
        bound,
        operation,
      ),
  };
}

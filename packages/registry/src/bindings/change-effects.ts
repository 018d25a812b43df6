/** Applies the effects of changed bindings once the changes are stored. */

import type { Binding } from "@backplane/contract";
import type { Caller, Changes, KernelDeps, Operation } from "@backplane/ports";
import type { DefinitionsService } from "../definitions/definitions.ts";
import type { CredentialMoves } from "./move-binding.ts";
import type { PlannedChange } from "./plan-change.ts";

export interface ChangeEffects {
  /** Retires the processes of the old generations, ends sign-ins to old servers, and reads the new definitions. */
  apply(caller: Caller, stored: readonly PlannedChange[], operation?: Operation): Promise<void>;
  /** Resolves after every listener, such as the dependents of a plugin, has handled the change. */
  announce(caller: Caller, bindings: readonly Binding[]): Promise<void>;
}

interface ChangeEffectsDeps {
  deps: Pick<KernelDeps, "runner">;
  definitions: Pick<DefinitionsService, "describe">;
  credentials: Pick<CredentialMoves, "dropOldCredentials">;
  changes: Pick<Changes, "emitAndWait">;
}

export function createChangeEffects({
  deps,
  definitions,
  credentials,
  changes,
}: ChangeEffectsDeps): ChangeEffects {
  return {
    async apply(caller, stored, operation) {
      for (const { before, row } of stored) if (before !== null) deps.runner.retire(row.binding_id);
      for (const { before, row, checked } of stored)
        if (before !== null) await credentials.dropOldCredentials(caller, before, row, checked);
      for (const { row, checked } of stored)
        await definitions.describe({ binding: row, package: checked.package }, operation);
    },
    announce: (caller, bindings) => changes.emitAndWait("bindings.changed", { caller, bindings }),
  };
}

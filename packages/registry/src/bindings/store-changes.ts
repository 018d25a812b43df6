/** Stores planned changes of bindings in one transaction, with the removals that they require. */
import { type BackplaneError, type Binding, codeOf } from "@backplane/contract";
import type { Caller, KernelDeps, RemovedBinding } from "@backplane/ports";
import type { TokenRevocation } from "../secrets/sign-in-tokens.ts";
import { type Claim, writeClaimed } from "./claims.ts";
import { type BindingPlanner, isUpdate, type PlannedChange, toUpdate } from "./plan-change.ts";

export type StoreChanges = (
  caller: Caller,
  changes: readonly PlannedChange[],
  more?: {
    claims?: readonly (Claim | null)[];
    /** Bindings to remove besides those that the changes replace. */
    removed?: readonly RemovedBinding[];
  },
) => Promise<void>;

export function createChangeWriter(
  { store, runner }: Pick<KernelDeps, "store" | "runner">,
  planner: Pick<BindingPlanner, "planRemovals">,
  revocation: Pick<TokenRevocation, "readTokens" | "revoke">,
): StoreChanges {
  return async (caller, changes, { claims = [], removed = [] } = {}) => {
    const known_ids = new Set(removed.map(({ row }) => row.binding_id));
    const replaced = planner
      .planRemovals(caller, changes)
      .filter(({ row }) => !known_ids.has(row.binding_id));
    const all_removed = [...removed, ...replaced];
    const tokens = await Promise.all(all_removed.map(({ row }) => revocation.readTokens(row)));
    const moved = changes.filter(isUpdate).map(toUpdate);
    const created = changes
      .filter((change) => !isUpdate(change))
      .map(({ row, records }) => ({ row, records }));
    if (moved.length + created.length + all_removed.length === 0) return;
    await writeClaimed([...claims, ...changes.map(({ names_claim }) => names_claim)], (expected_revision) =>
      store.installations.commit({ packages: [], moved, created, removed: all_removed, expected_revision }),
    );
    for (const [index, { row }] of all_removed.entries()) {
      runner.retire(row.binding_id);
      void revocation.revoke(row, tokens[index]!);
    }
  };
}

/** Whether one of the rows was changed or removed after it was read. */
export function isConflictOf(error: unknown, rows: readonly Binding[]): boolean {
  if (codeOf(error) !== "binding.conflict") return false;
  const { details } = error as BackplaneError;
  return rows.some(({ binding_id }) => binding_id === details?.binding_id);
}

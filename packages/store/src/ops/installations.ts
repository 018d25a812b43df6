import {
  deleteBinding,
  insertBinding,
  type RemoveBinding,
  raiseRevision,
  replaceBindings,
  type UpdateBindings,
  type WriteBinding,
} from "./bindings.ts";
import { type Op, refuse } from "./op.ts";
import { type InsertPackage, insertPackage } from "./packages.ts";

export interface CommitInstallation {
  org_id: string;
  /** Null if no change was checked against other bindings. */
  expected_revision: number | null;
  packages: InsertPackage[];
  moved: UpdateBindings["changes"];
  created: WriteBinding[];
  removed: RemoveBinding[];
}

/** Packages first, because a binding refers to its package. Returns what `insertPackage` returns for each package. */
export function* commitInstallation(p: CommitInstallation): Op<(string | null)[]> {
  const existing: (string | null)[] = [];
  if (p.removed.length + p.moved.length + p.created.length > 0)
    yield* raiseRevision(p.org_id, p.expected_revision);
  for (const pack of p.packages) existing.push(yield* insertPackage(pack));
  for (const binding of p.removed) {
    if (yield* deleteBinding(binding)) continue;
    refuse(
      "binding.conflict",
      `The binding ${binding.id} was changed at the same time. No binding was updated.`,
      {
        binding_id: binding.id,
      },
    );
  }
  yield* replaceBindings(p.moved);
  for (const binding of p.created) yield* insertBinding(binding);
  return existing;
}

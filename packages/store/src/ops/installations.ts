import {
  createBinding,
  type RemoveBinding,
  removeBinding,
  updateBindings,
  type WriteBinding,
} from "./bindings.ts";
import { type Op, refuse } from "./op.ts";
import { type InsertPackage, insertPackage } from "./packages.ts";

export interface CommitInstallation {
  packages: InsertPackage[];
  moved: (WriteBinding & { expected: number })[];
  created: WriteBinding[];
  removed: RemoveBinding[];
}

/** Packages first, because a binding refers to its package. Gives what `insertPackage` gives for each package. */
export function* commitInstallation(p: CommitInstallation): Op<(string | null)[]> {
  const existing: (string | null)[] = [];
  for (const pack of p.packages) existing.push(yield* insertPackage(pack));
  for (const binding of p.removed) {
    if (yield* removeBinding(binding)) continue;
    refuse("binding.conflict", `${binding.id} was changed at the same time. No binding was updated.`, {
      binding_id: binding.id,
    });
  }
  yield* updateBindings({ changes: p.moved });
  for (const binding of p.created) yield* createBinding(binding);
  return existing;
}

import { createBinding, updateBindings, type WriteBinding } from "./bindings.ts";
import type { Op } from "./op.ts";
import { type InsertPackage, insertPackage } from "./packages.ts";

export interface CommitInstallation {
  packages: InsertPackage[];
  moved: (WriteBinding & { expected: number })[];
  created: WriteBinding[];
}

/** Packages first, because a binding refers to its package. Gives what `insertPackage` gives for each package. */
export function* commitInstallation(p: CommitInstallation): Op<(string | null)[]> {
  const existing: (string | null)[] = [];
  for (const pack of p.packages) existing.push(yield* insertPackage(pack));
  yield* updateBindings({ changes: p.moved });
  for (const binding of p.created) yield* createBinding(binding);
  return existing;
}

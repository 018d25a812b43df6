/** Checks that apply to every package that is installed. */

import { BackplaneError } from "@backplane/contract";
import type { Caller, ImportedPackage, KernelDeps } from "@backplane/ports";

/** Folders of the host and registries are open to admins only. */
export function requireSourceAccess(caller: Caller, uploaded: boolean): void {
  if (!uploaded && !caller.admin) throw new BackplaneError("package.source_forbidden");
}

/** Discards the bytes of a package that this gateway cannot run. */
export async function requireRunnable(
  { runner }: Pick<KernelDeps, "runner">,
  rows: { discard(digest: string): Promise<void> },
  imported: ImportedPackage,
): Promise<ImportedPackage> {
  const { protocol } = imported.manifest.runtime;
  // A package of skills contains nothing that runs.
  if (protocol === "skills" || runner.runs?.(protocol) !== false) return imported;
  await rows.discard(imported.digest);
  throw new BackplaneError("package.invalid", `this gateway does not run ${protocol} packages`, {
    details: { protocol },
    fix: "Use the protocol vai.rpc.v1, or a version of Backplane that runs this one.",
  });
}

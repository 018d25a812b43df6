/** What every package has to pass that comes in, whatever it was part of. */

import { BackplaneError } from "@backplane/contract";
import type { Caller, ImportedPackage, KernelDeps } from "@backplane/ports";

/** What lies on the host or comes from a registry is the admin's to bring in. */
export function requireSourceAccess(caller: Caller, uploaded: boolean): void {
  if (!uploaded && !caller.admin) throw new BackplaneError("package.source_forbidden");
}

/** Bytes that this gateway cannot run are not kept. */
export async function requireRunnable(
  { runner }: Pick<KernelDeps, "runner">,
  rows: { discard(digest: string): Promise<void> },
  imported: ImportedPackage,
): Promise<ImportedPackage> {
  const { protocol } = imported.manifest.runtime;
  // Nothing of a package of skills runs.
  if (protocol === "skills" || runner.runs?.(protocol) !== false) return imported;
  await rows.discard(imported.digest);
  throw new BackplaneError("package.invalid", `this gateway does not run ${protocol} packages yet`, {
    details: { protocol },
    fix: "Use the protocol vai.rpc.v1, or a version of Backplane that runs this one.",
  });
}

/**
 * Installed packages: immutable, unique by org, package_id and version; packages with the same digest share their
 * bytes.
 */

import { BackplaneError } from "@backplane/contract";
import {
  type Caller,
  type Kernel,
  type KernelDeps,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import type { PackageRows } from "./package-rows.ts";

export function createPackages(
  deps: KernelDeps,
  rows: PackageRows,
): Pick<Kernel["packages"], "get" | "list" | "remove"> {
  const { store } = deps;

  async function remove(caller: Caller, id: string): Promise<void> {
    requireOperator(caller, "remove packages");
    const row = await get(caller, id);
    // Other projects may be about to bind a package that somebody else installed.
    if (row.installed_by !== caller.actor) requireWholeOrg(caller, `remove ${row.package_id} ${row.version}`);
    await rows.remove(caller, row);
  }

  async function get(caller: Caller, id: string) {
    const row = await store.packages.get(caller.scope.org_id, id);
    if (row === null) throw new BackplaneError("package.not_found");
    return row;
  }

  return {
    get,
    list: (caller, page) => store.packages.list(caller.scope.org_id, page),
    remove,
  };
}

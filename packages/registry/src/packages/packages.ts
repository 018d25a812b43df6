/**
 * Installed packages: immutable, unique by org, package_id and version; packages with the same digest share their
 * bytes.
 */

import { BackplaneError } from "@backplane/contract";
import {
  type Caller,
  type Kernel,
  type KernelDeps,
  type PackageSource,
  requireOperator,
  requireWholeOrg,
} from "@backplane/ports";
import { requireRunnable, requireSourceAccess } from "./check-source.ts";
import { installAgentPlugin } from "./install-agent-plugin.ts";
import type { PackageRows } from "./package-rows.ts";

export function createPackages(deps: KernelDeps, rows: PackageRows): Kernel["packages"] {
  const { store } = deps;

  async function install(caller: Caller, source: PackageSource) {
    requireOperator(caller, "install packages");
    requireSourceAccess(caller, source.kind === "archive");
    const imported = await requireRunnable(deps, rows, await deps.importer.import(source));
    return await rows.add(caller, rows.draft(caller, imported));
  }

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
    install,
    installAgentPlugin: (caller, source, options) => installAgentPlugin(deps, rows, caller, source, options),
    get,
    list: (caller, page) => store.packages.list(caller.scope.org_id, page),
    remove,
  };
}

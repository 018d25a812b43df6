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
import { createCurrentSignatures } from "../signatures/current-signature.ts";
import type { PackageRows } from "./package-rows.ts";

export function createPackages(
  deps: KernelDeps,
  rows: PackageRows,
): Pick<Kernel["packages"], "get" | "list" | "remove"> {
  const { store } = deps;

  const withCurrentSignatures = createCurrentSignatures(deps);

  async function remove(caller: Caller, id: string): Promise<void> {
    requireOperator(caller, "remove packages");
    const row = await get(caller, id);
    // Other projects may be about to bind a package that somebody else installed.
    if (row.installed_by !== caller.actor) requireWholeOrg(caller, `remove ${row.package_id} ${row.version}`);
    await rows.remove(caller, row);
  }

  async function get(caller: Caller, id: string) {
    const { org_id } = caller.scope;
    const row = await store.packages.get(org_id, id);
    if (row === null) throw new BackplaneError("package.not_found");
    return (await withCurrentSignatures(org_id, [row]))[0]!;
  }

  return {
    get,
    async list({ scope: { org_id } }, page) {
      const { items, next } = await store.packages.list(org_id, page);
      return { items: await withCurrentSignatures(org_id, items), next };
    },
    remove,
  };
}

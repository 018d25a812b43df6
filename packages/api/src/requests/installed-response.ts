import type { Installation } from "@backplane/contract";

/** 201 if the installation stored a package or changed a binding; 200 if it changed nothing, or for a dry run. */
export function installedResponse(installation: Installation): { status: number; json: Installation } {
  const changed =
    installation.dry_run !== true &&
    (installation.packages.some(({ created }) => created) ||
      installation.bindings.some(({ change }) => change !== "unchanged"));
  return { status: changed ? 201 : 200, json: installation };
}

import type { Installation } from "@backplane/contract";

/** 201 if the installation stored a package or changed a binding, 200 if everything was already in place. */
export function installedResponse(installation: Installation): { status: number; json: Installation } {
  const changed =
    installation.packages.some(({ created }) => created) ||
    installation.bindings.some(({ change }) => change !== "unchanged");
  return { status: changed ? 201 : 200, json: installation };
}

/** Decides who may install from a kind of source, and who may look up its versions. */
import { BackplaneError } from "@backplane/contract";
import type { Caller, InstallationSource } from "@backplane/ports";

/** Folders on the host and registries are open to admins only. */
const ADMIN_SOURCES: readonly InstallationSource["kind"][] = ["folder", "oci", "npm", "pypi", "image"];

export function requireSourceAccess(caller: Caller, kind: InstallationSource["kind"]): void {
  if (ADMIN_SOURCES.includes(kind) && !caller.admin) throw forbiddenSourceError(kind);
}

export function forbiddenSourceError(kind: InstallationSource["kind"]): BackplaneError {
  return new BackplaneError(
    "package.source_forbidden",
    kind === "folder"
      ? "Only the admin token may install from a folder on the host."
      : "Only an admin credential may install from a registry.",
  );
}

/**
 * A package id does not say who published a package: the images x/acme/server and y/acme/server and the npm package
 * `@acme/server` have the same one. A binding therefore stays with the source of its package, because its secrets,
 * waived approvals and name were given to packages of that source (sec.credential-destination).
 */
import { BackplaneError, type Binding, findPackageSource, type Package } from "@backplane/contract";

/** Throws `binding.conflict` if the two versions of the package come from different sources. */
export function requireBoundSource(bound: Binding, from: Package, to: Package): void {
  if (hasSameSource(from, to)) return;
  const { binding_id, package_id } = bound;
  const [old_source, new_source] = [from, to].map((pack) => findPackageSource(pack) ?? "a local source");
  throw new BackplaneError(
    "binding.conflict",
    `${package_id} is bound from ${old_source} (${binding_id}), and ${to.version} comes from ${new_source}. The secrets and permissions of the binding were given to ${old_source}.`,
    {
      details: { binding_id, package_id, from: old_source!, to: new_source! },
      fix: `To use ${new_source}, remove the binding and install again: backplane binding remove ${binding_id}. The new binding starts without the settings and secrets of the old one.`,
    },
  );
}

function hasSameSource(from: Package, to: Package): boolean {
  const [old_source, new_source] = [findPackageSource(from), findPackageSource(to)];
  if (old_source === new_source) return true;
  // Keys are trusted for package ids, so a verified signature identifies the publisher wherever the package is stored.
  if (to.signature?.state === "verified" && wasVerified(from)) return true;
  if (isMcpServer(from) || isMcpServer(to)) return false;
  // An author tries local files before and between published versions.
  return old_source === null || new_source === null;
}

export function wasVerified({ signature }: Package): boolean {
  return signature !== undefined && ["verified", "expired", "revoked"].includes(signature.state);
}

/** The package id of an MCP server is derived from a name that anyone can use, and not chosen by an author. */
function isMcpServer({ manifest }: Package): boolean {
  return manifest.runtime.protocol.startsWith("mcp.");
}

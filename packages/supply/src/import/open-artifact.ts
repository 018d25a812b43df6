/** Opens a package that is an OCI artifact: everything about it is checked before its files are fetched and unpacked. */
import { BackplaneError, type Manifest } from "@backplane/contract";
import type { ArtifactClaim } from "@backplane/ports";
import { checkListing } from "../archive/check-listing.ts";
import type { UnpackLimits } from "../archive/limits.ts";
import type { HostPlatform } from "../manifest/host-platform.ts";
import { type ArtifactStore, type PluginArtifact, readPluginArtifact } from "../oci/plugin-artifact.ts";
import { digestMismatch } from "../oci/registry-errors.ts";
import type { TreeFile, TreeListing } from "../tree/tree-listing.ts";

export async function readAcceptedArtifact(
  store: ArtifactStore,
  host: HostPlatform,
  limits: UnpackLimits,
  accept: (claim: ArtifactClaim) => Promise<void>,
): Promise<PluginArtifact> {
  const artifact = await readPluginArtifact(store, host);
  checkListing(artifact.files, limits);
  const { digest, signatures } = artifact;
  await accept({ digest, signatures });
  return artifact;
}

/** Compares the unpacked layer with the listing that was read before. */
export function requireSameFiles(artifact: PluginArtifact, { digest, files }: TreeListing): void {
  if (digest === artifact.digest) return;
  throw digestMismatch(firstDifference(artifact.files, files) ?? "The layer", artifact.digest, digest);
}

function firstDifference(expected: readonly TreeFile[], actual: readonly TreeFile[]): string | null {
  const actual_files = new Map(actual.map((file) => [file.path, file]));
  const changed_file = expected.find(({ path, sha256, mode }) => {
    const file = actual_files.get(path);
    return file?.sha256 !== sha256 || file.mode !== mode;
  });
  return changed_file?.path ?? null;
}

/** The artifact must specify the same package and version as the manifest, because people read and sign the artifact. */
export function requireSameIdentity(artifact: PluginArtifact, { package_id, version }: Manifest): void {
  const claimed = `${artifact.package_id ?? package_id} ${artifact.version ?? version}`;
  if (claimed === `${package_id} ${version}`) return;
  throw new BackplaneError(
    "package.invalid",
    `The OCI manifest names ${claimed}, but the package is ${package_id} ${version}.`,
    { fix: "Publish it again with `backplane plugin push`." },
  );
}

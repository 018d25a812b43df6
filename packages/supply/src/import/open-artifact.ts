/**
 * Opens a package that is an OCI artifact: its list of files and its signatures are checked before its files are
 * fetched and unpacked.
 */
import { BackplaneError, type Manifest } from "@backplane/contract";
import type { ArtifactClaim } from "@backplane/ports";
import { checkListing } from "../archive/check-listing.ts";
import type { UnpackLimits } from "../archive/limits.ts";
import type { HostPlatform } from "../manifest/host-platform.ts";
import { type ArtifactSource, type PluginArtifact, readPluginArtifact } from "../oci/plugin-artifact.ts";

export async function readAcceptedArtifact(
  store: ArtifactSource,
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

/**
 * The artifact must not name another package or version than the manifest, because people read and sign the artifact.
 */
export function requireSameIdentity(artifact: PluginArtifact, { package_id, version }: Manifest): void {
  const claimed = `${artifact.package_id ?? package_id} ${artifact.version ?? version}`;
  if (claimed === `${package_id} ${version}`) return;
  throw new BackplaneError(
    "package.invalid",
    `The OCI manifest names ${claimed}, but the package is ${package_id} ${version}.`,
    { fix: "Publish it again with `backplane plugin push`." },
  );
}

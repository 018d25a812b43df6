/**
 * The newest version of a package in an OCI registry: the highest version tag or, for a package that was installed by a
 * tag such as `latest`, the version that the tag refers to now. Reads lists of tags and manifests; the files of an
 * artifact are read only if its manifest does not state the package id and the version.
 */
import { compareVersions, type Package } from "@backplane/contract";
import { VersionSchema } from "@backplane/contract/schema";
import type { Kernel, KernelDeps } from "@backplane/ports";
import { requireSourceAccess } from "../installations/source-access.ts";
import { createCredentialsFinder } from "../secrets/registry-credentials.ts";
import { type FindNewest, UPGRADE_HINT, unknownVersion } from "./available-version.ts";

const VERSION_TAG = /^v?(\d{1,9}\.\d{1,9}\.\d{1,9}(?:-[0-9A-Za-z.-]+)?)$/;

export function createRegistryVersions(
  deps: KernelDeps,
  installations: Pick<Kernel["installations"], "inspect">,
): FindNewest {
  const { importer } = deps;
  return async (caller, pack, operation) => {
    const installed = pack.oci?.reference ?? null;
    if (installed === null)
      return unknownVersion(`An OCI image layout does not list the available versions. ${UPGRADE_HINT}`);
    requireSourceAccess(caller, "oci");
    const options = { operation, findRegistryCredentials: createCredentialsFinder(deps, caller) };
    const { repository, tag, pinned } = splitReference(installed);
    let newest = tag;
    // A tag such as latest is read again, because it may have moved to another version.
    if (pinned || readVersion(tag) !== null) {
      newest = selectNewestTag(await importer.listTags(installed, options), pack, tag);
      if (newest === null)
        return unknownVersion(`No tag of ${repository} is a version of the package. ${UPGRADE_HINT}`);
    }
    const source = `${repository}:${newest}`;
    const stated = await importer.readArtifact(source, options);
    const is_stated = stated.package_id !== null && stated.version !== null;
    const [offered] = is_stated
      ? [{ package_id: stated.package_id!, version: stated.version! }]
      : (await installations.inspect(caller, { kind: "oci", reference: source }, operation)).packages;
    if (offered?.package_id !== pack.package_id)
      return unknownVersion("Its source contains another package now.");
    const { version } = offered;
    if (!VersionSchema.safeParse(version).success)
      return unknownVersion(`${source} does not state a valid version. ${UPGRADE_HINT}`);
    const expected = readVersion(newest);
    if (expected !== null && compareVersions(expected, version) !== 0)
      return unknownVersion(`${source} contains the version ${version}. ${UPGRADE_HINT}`);
    if (version === pack.version && stated.manifest_digest !== pack.oci?.manifest_digest)
      return unknownVersion(
        `${source} now has other content under the version ${version}, which cannot replace the installed content. Ask its publisher for a new version.`,
      );
    return { newest_available: version, source, note: null };
  };
}

/** Offers a pre-release only if the package in use is a pre-release. */
function selectNewestTag(
  tags: readonly string[],
  { version }: Package,
  installed: string | null,
): string | null {
  const allows_prereleases = isPrerelease(version);
  const candidates = tags.flatMap((tag) => {
    const stated = readVersion(tag);
    return stated === null || (isPrerelease(stated) && !allows_prereleases) ? [] : [{ tag, stated }];
  });
  // Some publishers tag a version twice, with and without a `v`; the form of the installed tag stays.
  const hasSameForm = (tag: string) => tag.startsWith("v") === (installed ?? "").startsWith("v");
  candidates.sort(
    (a, b) => compareVersions(b.stated, a.stated) || Number(hasSameForm(b.tag)) - Number(hasSameForm(a.tag)),
  );
  return candidates[0]?.tag ?? null;
}

function readVersion(tag: string | null): string | null {
  return VERSION_TAG.exec(tag ?? "")?.[1] ?? null;
}

function isPrerelease(version: string): boolean {
  return version.split("+", 1)[0]!.includes("-");
}

function splitReference(reference: string): { repository: string; tag: string | null; pinned: boolean } {
  const [name, digest] = reference.split("@", 2) as [string, string?];
  const tag = /:([^:/]+)$/.exec(name)?.[1] ?? null;
  const repository = tag === null ? name : name.slice(0, -tag.length - 1);
  return { repository, tag, pinned: digest !== undefined };
}

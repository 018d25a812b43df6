/**
 * The version of a package that was loaded from a linked folder: the version of its manifest, with a digest of the
 * content as build metadata, because an installed version never changes. Build metadata does not affect the order of
 * versions.
 */
const EDITED = /[+.]edit\.d[0-9a-f]{12}$/;

export function editedVersion(version: string, digest: string): string {
  const start = "sha256:".length;
  return `${version}${version.includes("+") ? "." : "+"}edit.d${digest.slice(start, start + 12)}`;
}

/** The version without the digest, as in the manifest. */
export function manifestVersion(version: string): string {
  return version.replace(EDITED, "");
}

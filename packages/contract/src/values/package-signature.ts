/** The text that a signature of a package covers. Signing and verifying are in other modules; both use this text. */

/** The file that contains the signature of a package. */
export const SIGNATURE_FILE = "marketplace.signature.json";
export const SIGNATURE_FORMAT = "vai.signature.v1";

interface SignedFields {
  format: string;
  package_id: string;
  version: string;
  digest: string;
  dependency_lock: readonly { path: string; sha256: string }[];
  key_id: string;
  signed_at: string;
}

/** Files in which package managers pin the dependencies of a package. */
const LOCK_FILES: ReadonlySet<string> = new Set([
  "package-lock.json",
  "npm-shrinkwrap.json",
  "pnpm-lock.yaml",
  "yarn.lock",
  "bun.lock",
  "uv.lock",
  "poetry.lock",
  "Pipfile.lock",
  "requirements.txt",
  "Cargo.lock",
  "go.sum",
  "gradle.lockfile",
]);
const MAX_LOCKS = 64;

/** The first 64 lock files of a package, sorted by path. Those of bundled dependencies are left out. */
export function dependencyLockOf(
  files: readonly { path: string; sha256: string }[],
): { path: string; sha256: string }[] {
  return files
    .filter(
      ({ path }) =>
        LOCK_FILES.has(path.slice(path.lastIndexOf("/") + 1)) && !/(?:^|\/)node_modules\//.test(path),
    )
    .map(({ path, sha256 }) => ({ path, sha256 }))
    .sort((left, right) => (left.path < right.path ? -1 : 1))
    .slice(0, MAX_LOCKS);
}

/** The bytes that are signed. The order of the fields is fixed, so the layout of the JSON file does not matter. */
export function signedText(signature: SignedFields): string {
  const { format, package_id, version, digest, dependency_lock, key_id, signed_at } = signature;
  const locks = dependency_lock.map(({ path, sha256 }) => [path, sha256]);
  return `${format}\n${JSON.stringify([package_id, version, digest, locks, key_id, signed_at])}`;
}

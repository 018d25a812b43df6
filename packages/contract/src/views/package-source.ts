/** Where a package was published, as far as the gateway knows that from its own download. */
import type { Package } from "../schema/index.ts";

/** The parts of `manifest.source` before the version, for packages whose manifest the gateway writes. */
const NAME_OF_SOURCE: Partial<Record<Package["origin"], RegExp>> = {
  npm: /^npm:(?:@[^@/;\s]+\/)?[^@/;\s]+/,
  pypi: /^pypi:[^=@;\s]+/,
  image: /^image:[^@;\s]+/,
};

const TAG = /:[^:/]*$/;

/** A registry with the name of the package there; null for local files and remote servers. */
export function findPackageSource({ origin, manifest, oci }: Package): string | null {
  if (oci !== undefined)
    return oci.reference === null ? null : withoutVersion(`oci:${oci.reference.replace(/^oci:\/\//, "")}`);
  const source = NAME_OF_SOURCE[origin]?.exec(manifest.source)?.[0];
  if (source === undefined) return null;
  return origin === "image" ? withoutVersion(source) : source;
}

function withoutVersion(reference: string): string {
  const name = reference.replace(/@.*$/, "");
  const scheme = name.indexOf(":") + 1;
  return name.slice(0, scheme) + name.slice(scheme).replace(TAG, "");
}

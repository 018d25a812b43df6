/** The formats in the order in which they are tried: a folder with a vai-plugin.toml may contain other formats too. */

import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import type { TreeListing } from "../../tree/tree-listing.ts";
import type { PackageFormat } from "./format.ts";
import { hefty } from "./hefty.ts";
import { invalidSource, missingManifest } from "./source-errors.ts";
import { explainNestedTools, toolFiles } from "./tool-files.ts";
import { vaiPlugin } from "./vai-plugin.ts";

export const FORMATS: readonly PackageFormat[] = [vaiPlugin, hefty, toolFiles];

export function detectFormat(listing: TreeListing): PackageFormat {
  const format = FORMATS.find((format) => format.recognizes(listing));
  if (format !== undefined) return format;
  const nested = listing.files.find(({ path }) => path.split("/")[1] === MANIFEST_FILE);
  const paths = [...new Set(listing.files.map(({ path }) => path.split("/")[0] as string))];
  if (nested !== undefined)
    throw invalidSource(
      `The source contains ${nested.path} instead of ${MANIFEST_FILE}; pack the content of the folder, not the folder`,
    );
  const nested_tools = explainNestedTools(listing);
  throw nested_tools === null
    ? missingManifest("The source", paths)
    : invalidSource(`The source ${nested_tools}`);
}

/**
 * One way in which people already lay out a plugin. It is recognised by its files, and becomes the one manifest; from
 * there on nobody knows where it came from. A new format is a new file here and a line in the list.
 */
import type { Manifest } from "@backplane/contract";
import type { TreeListing } from "../../content/tree-listing.ts";

export interface PackageFormat {
  readonly name: string;
  /** Whether a folder with these names at its top may be one. */
  marker(names: readonly string[]): boolean;
  recognises(listing: TreeListing): boolean;
  /** Throws package.invalid, which names file and line and what to write. `text` is what the manifest was read from. */
  read(tree: string, listing: TreeListing): Promise<{ manifest: Manifest; text: string }>;
  /** The dialect starts a program of its own, so there is none in the package to check. */
  readonly own_entrypoint: boolean;
}

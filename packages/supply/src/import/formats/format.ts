/**
 * One way in which people already lay out a plugin. It is recognised by its files, and becomes the one manifest; from
 * there on nobody knows where it came from. A new format is a new file here and a line in the list.
 */
import type { Manifest } from "@backplane/contract";
import type { TreeListing } from "../../tree/tree-listing.ts";

/** What is known of a source besides its files. */
export interface Told {
  /** What its folder is called. */
  name?: string;
  /** What the package has to be called, whatever its files say. */
  package_id?: string;
  /** Its files change under the same name, so its version says what they are. */
  changing?: boolean;
}

interface FormatRead {
  manifest: Manifest;
  text: string;
  /** When the plugin itself says that it was first installed. */
  born_at?: string | null;
}

export interface PackageFormat {
  readonly name: string;
  /** Whether a folder with these names at its top may be one. */
  marker(names: readonly string[]): boolean;
  recognises(listing: TreeListing): boolean;
  /** Throws package.invalid, which names file and line and what to write. `text` is what the manifest was read from. */
  read(tree: string, listing: TreeListing, told?: Told): Promise<FormatRead>;
  /** The dialect starts a program of its own, so there is none in the package to check. */
  readonly own_entrypoint: boolean;
}

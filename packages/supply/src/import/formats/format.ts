/**
 * A layout of plugin folders that people already use. It is recognized by its files and converted to the manifest;
 * after that the rest of the code does not depend on the format. A new format is a new file here and an entry in
 * FORMATS.
 */
import type { Manifest } from "@backplane/contract";
import type { TreeListing } from "../../tree/tree-listing.ts";

/** Facts about a source besides its files. */
export interface SourceHints {
  /** The name of its folder. */
  name?: string;
  /** The id that the package must have, whatever its files say. */
  package_id?: string;
  /**
   * Whether the files can change while their version stays the same; the package version then includes their digest.
   */
  changing?: boolean;
}

interface FormatResult {
  manifest: Manifest;
  text: string;
  /** When the plugin was first installed, according to the plugin itself. */
  installed_at?: string | null;
}

export interface PackageFormat {
  readonly name: string;
  /** Whether a folder with these names at its top level may have this format. */
  matchesNames(names: readonly string[]): boolean;
  recognizes(listing: TreeListing): boolean;
  /** Throws package.invalid with file, line and what to write. `text` is the text that the manifest was read from. */
  read(tree: string, listing: TreeListing, hints?: SourceHints): Promise<FormatResult>;
  /** The dialect starts its own program, so the package has no entrypoint to check. */
  readonly starts_own_program: boolean;
}

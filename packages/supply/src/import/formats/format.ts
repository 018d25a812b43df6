/**
 * A format of packages. It is usually recognized by its files and is converted to the manifest, so the rest of the code
 * does not depend on the format. A new format for uploads is a new file here and an entry in FORMATS.
 */
import type { Manifest } from "@backplane/contract";
import type { TreeListing } from "../../tree/tree-listing.ts";

/** Facts about a source besides its files. */
export interface SourceHints {
  /** The name of the folder that was packed. */
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
  /**
   * Throws an error that names the file and what to write. `text` is the text in which the line of a later error is
   * found; empty if the format has no such text.
   */
  read(tree: string, listing: TreeListing, hints?: SourceHints): Promise<FormatResult>;
  /** Whether the dialect or this format chooses the program, so that `checkEntrypoint` does not apply. */
  readonly starts_own_program: boolean;
}

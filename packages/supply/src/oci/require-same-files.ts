import type { TreeFile, TreeListing } from "../tree/tree-listing.ts";
import type { PluginArtifact } from "./plugin-artifact.ts";
import { digestMismatch } from "./registry-errors.ts";

/** Compares the unpacked layer with the listing that was read before. */
export function requireSameFiles(artifact: PluginArtifact, { digest, files }: TreeListing): void {
  if (digest === artifact.digest) return;
  throw digestMismatch(firstDifference(artifact.files, files) ?? "The layer", artifact.digest, digest);
}

function firstDifference(expected: readonly TreeFile[], actual: readonly TreeFile[]): string | null {
  const actual_files = new Map(actual.map((file) => [file.path, file]));
  const changed_file = expected.find(({ path, sha256, mode }) => {
    const file = actual_files.get(path);
    return file?.sha256 !== sha256 || file.mode !== mode;
  });
  return changed_file?.path ?? null;
}

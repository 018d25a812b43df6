/** Applies the rules for archives to a tree that is already on disk. */
import type { TreeFile } from "../tree/tree-listing.ts";
import { createNameLedger, safePath } from "./entry-rules.ts";
import type { UnpackLimits } from "./limits.ts";
import { unsafePackage } from "./unsafe.ts";

/** Throws `package.unsafe` if an archive with these files would be refused for their names, number or sizes. */
export function checkListing(files: readonly TreeFile[], limits: UnpackLimits): void {
  if (files.length > limits.entries)
    throw unsafePackage("too-many-entries", `it has more than ${limits.entries} entries`);
  const ledger = createNameLedger(unsafePackage);
  let bytes = 0;
  for (const { path, size } of files) {
    if (size > limits.file_bytes)
      throw unsafePackage("file-too-large", `it is larger than ${limits.file_bytes} bytes`, path);
    bytes += size;
    if (bytes > limits.unpacked_bytes)
      throw unsafePackage(
        "too-large",
        `its files have more than ${limits.unpacked_bytes} bytes in total`,
        path,
      );
    ledger.add(safePath(path, false, unsafePackage), "file");
  }
}

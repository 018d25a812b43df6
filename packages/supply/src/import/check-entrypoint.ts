/** What the manifest starts must be startable: a file of the package, executable; or a bare name for the PATH. */
import { posix } from "node:path";
import { BackplaneError, type Manifest, runsElsewhere } from "@backplane/contract";
import { isBareName } from "../manifest/manifest-rules.ts";
import { MANIFEST_FILE } from "../manifest/read-manifest.ts";
import { findLines } from "../manifest/toml-lines.ts";
import type { TreeListing } from "../tree/tree-listing.ts";

export function checkEntrypoint(manifest: Manifest, listing: TreeListing, toml: string): void {
  if (runsElsewhere(manifest.runtime.protocol)) return;
  const program = manifest.runtime.entrypoint[0] as string;
  const file = listing.files.find(({ path }) => path === posix.normalize(program));
  if (isBareName(program)) {
    // A name without a slash is looked up on the PATH, where the author's own file is not.
    if (file !== undefined) throw failed(toml, program, `is a file of the package; write "./${program}"`);
    return;
  }
  if (file === undefined)
    throw failed(toml, program, "is not in the package; add the file or correct the path");
  if (file.mode !== "0755") {
    throw failed(toml, program, `is not executable; run \`chmod +x ${program}\` and pack again`);
  }
}

function failed(toml: string, program: string, what: string): BackplaneError {
  const path = "runtime.entrypoint[0]";
  const line = findLines(toml).of(["runtime", "entrypoint", 0]);
  const message = `${path} ${JSON.stringify(program)} ${what}`;
  return new BackplaneError("package.invalid", `${MANIFEST_FILE}:${line}: ${message}`, {
    details: { file: MANIFEST_FILE, issues: [{ path, line, message }] },
  });
}

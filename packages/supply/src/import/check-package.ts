/** Checks a package against its manifest: platform, entrypoint and skills. check-schema-files.ts checks its schemas. */
import { posix } from "node:path";
import { BackplaneError, isRemoteProtocol, type Manifest } from "@backplane/contract";
import type { HostPlatform } from "../manifest/host-platform.ts";
import { isBareName } from "../manifest/manifest-rules.ts";
import { MANIFEST_FILE } from "../manifest/read-manifest.ts";
import { findLines } from "../manifest/toml-lines.ts";
import type { TreeListing } from "../tree/tree-listing.ts";

/** Refuses a package if its manifest lists platforms and the host is not one of them (pkg.platform). */
export function checkPlatform({ runtime }: Manifest, host: HostPlatform): void {
  const { os, arch } = runtime;
  const supports =
    (os === undefined || os.includes(host.os)) && (arch === undefined || arch.includes(host.arch));
  if (supports) return;
  const supported = (os ?? ["any"]).flatMap((system) => (arch ?? ["any"]).map((cpu) => `${system}/${cpu}`));
  throw new BackplaneError(
    "package.platform",
    `The package does not run on ${host.os}/${host.arch}; it supports ${supported.join(", ")}.`,
    { details: { host: `${host.os}/${host.arch}`, supported } },
  );
}

/** The entrypoint must be an executable file of the package, or a bare name for the PATH. */
export function checkEntrypoint(manifest: Manifest, listing: TreeListing, toml: string): void {
  if (isRemoteProtocol(manifest.runtime.protocol)) return;
  const program = manifest.runtime.entrypoint[0] as string;
  const file = listing.files.find(({ path }) => path === posix.normalize(program));
  if (isBareName(program)) {
    // A name without a slash is looked up on the PATH, which does not include the package.
    if (file !== undefined)
      throw invalidEntrypoint(toml, program, `is a file of the package; write "./${program}"`);
    return;
  }
  if (file === undefined)
    throw invalidEntrypoint(toml, program, "is not in the package; add the file or correct the path");
  if (file.mode !== "0755") {
    throw invalidEntrypoint(toml, program, `is not executable; run \`chmod +x ${program}\` and pack again`);
  }
}

function invalidEntrypoint(toml: string, program: string, problem: string): BackplaneError {
  const path = "runtime.entrypoint[0]";
  const line = findLines(toml).lineOf(["runtime", "entrypoint", 0]);
  const message = `${path} ${JSON.stringify(program)} ${problem}`;
  return new BackplaneError("package.invalid", `${MANIFEST_FILE}:${line}: ${message}`, {
    details: { file: MANIFEST_FILE, issues: [{ path, line, message }] },
  });
}

/** Every skill of the manifest must have its SKILL.md in the package. */
export function checkSkills({ skills = [] }: Manifest, { files }: TreeListing): void {
  for (const { name, path } of skills) {
    const file = `${path}/SKILL.md`;
    if (files.some((entry) => entry.path === file)) continue;
    throw new BackplaneError("package.invalid", `The skill ${name} has no file ${file}.`, {
      fix: "Specify the folder that contains its SKILL.md.",
    });
  }
}

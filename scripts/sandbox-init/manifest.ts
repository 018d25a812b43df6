/**
 * Builds the sandbox-init programs and their manifest. The gateway compares a program with the manifest before it
 * starts the program.
 */
import { hash } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type Arch,
  compileLocally,
  compileShipped,
  SHIPPED_FLAGS,
  SOURCES,
  sourceDigests,
  TOOLCHAINS,
  toolchainVersions,
} from "./toolchain.ts";

export const PREBUILT = join(SOURCES, "prebuilt");

export interface Manifest {
  programs: Record<string, { sha256: string; toolchain: Record<string, string> | null }>;
  flags: string[];
  sources: Record<string, string>;
}

const INSTALL =
  "on Debian 12 (x64): dpkg --add-architecture arm64 && apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev musl-tools gcc-aarch64-linux-gnu linux-libc-dev-arm64-cross musl-dev:arm64";

const ARCHS = Object.keys(TOOLCHAINS) as Arch[];

/** Builds the programs for all architectures, and their manifest. */
export function buildShipped(folder: string): Manifest {
  mkdirSync(folder, { recursive: true });
  const manifest: Manifest = { programs: {}, flags: SHIPPED_FLAGS, sources: sourceDigests() };
  for (const arch of ARCHS) {
    const toolchain = toolchainVersions(arch);
    if (toolchain === null) throw new Error(`The toolchain for ${arch} is missing. Install it ${INSTALL}`);
    const file = join(folder, `linux-${arch}`);
    compileShipped(arch, file);
    manifest.programs[`linux-${arch}`] = { sha256: checksumOf(file), toolchain };
  }
  writeManifest(folder, manifest);
  return manifest;
}

/**
 * Builds only the program for this machine from `sources`, with any compiler. Compiled files that are kept in `objects`
 * speed up later builds.
 */
export function buildLocally(folder: string, sources: string = SOURCES, objects?: string): void {
  mkdirSync(folder, { recursive: true });
  const name = `linux-${process.arch}`;
  const compiled = objects ?? mkdtempSync(join(tmpdir(), "backplane-objects-"));
  compileLocally(join(folder, name), sources, compiled);
  if (objects === undefined) rmSync(compiled, { recursive: true });
  const sha256 = checksumOf(join(folder, name));
  writeManifest(folder, { programs: { [name]: { sha256, toolchain: null } }, flags: [], sources: {} });
}

/**
 * Returns the differences from the shipped programs. The programs are built again only if the sources and the toolchain
 * are the same.
 */
export function findDifferencesFromShipped(folder: string = PREBUILT): string[] {
  const shipped = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as Manifest;
  const differing: string[] = [];
  const sources = sourceDigests();
  for (const name of new Set([...Object.keys(sources), ...Object.keys(shipped.sources)])) {
    if (sources[name] !== shipped.sources[name])
      differing.push(`${name} differs from the source that the programs were built from`);
  }
  for (const arch of ARCHS) {
    const { toolchain } = shipped.programs[`linux-${arch}`]!;
    const installed = toolchainVersions(arch);
    for (const [part, version] of Object.entries(toolchain ?? {})) {
      if (installed?.[part] === version) continue;
      differing.push(
        `the ${part} for ${arch} is ${installed?.[part] ?? "missing"}, and the programs were built with ${version}. Install it ${INSTALL}`,
      );
    }
  }
  if (differing.length > 0)
    return [...differing, "After a change to the sources, run `npm run build:sandbox-init`."];
  const rebuilt = mkdtempSync(join(tmpdir(), "backplane-sandbox-init-"));
  try {
    buildShipped(rebuilt);
    for (const name of [...ARCHS.map((arch) => `linux-${arch}`), "manifest.json"]) {
      if (!readFileSync(join(folder, name)).equals(readFileSync(join(rebuilt, name)))) {
        differing.push(`${name} has different bytes when it is built again`);
      }
    }
  } finally {
    rmSync(rebuilt, { recursive: true });
  }
  return differing;
}

function checksumOf(file: string): string {
  chmodSync(file, 0o755);
  return hash("sha256", readFileSync(file), "hex");
}

function writeManifest(folder: string, manifest: Manifest): void {
  writeFileSync(join(folder, "manifest.json"), `${JSON.stringify(manifest, null, 2)}\n`);
}

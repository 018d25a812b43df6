/**
 * The sandbox-init that is shipped with this package, one static program per architecture. The manifest next to it
 * holds the checksums of the programs, and those of the sources and the compiler that they were built from
 * (scripts/build-sandbox-init.ts).
 */
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BackplaneError } from "@backplane/contract";

export const SHIPPED = fileURLToPath(new URL("../../sandbox-init/prebuilt/", import.meta.url));

export interface InitProgram {
  bytes: Buffer;
  sha256: string;
}

interface Manifest {
  programs: Partial<Record<string, { sha256: string }>>;
}

export async function readInit(folder: string = SHIPPED, arch: string = process.arch): Promise<InitProgram> {
  const name = `linux-${arch}`;
  const manifest = await readFile(join(folder, "manifest.json"), "utf8").catch(unreadable);
  const expected = (JSON.parse(manifest) as Manifest).programs[name]?.sha256;
  const bytes = await readFile(join(folder, name)).catch(unreadable);
  const sha256 = hash("sha256", bytes, "hex");
  if (sha256 !== expected) throw damaged(`${join(folder, name)} does not have its recorded checksum`);
  return { bytes, sha256 };
}

function unreadable(error: Error): never {
  throw damaged(error.message);
}

function damaged(reason: string): BackplaneError {
  return new BackplaneError("sandbox.unavailable", `sandbox-init cannot be used: ${reason}`, {
    fix: "Install Backplane again; in its repository: git restore packages/runner/sandbox-init/prebuilt",
  });
}

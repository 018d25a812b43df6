/**
 * A local npm registry that serves installed packages, those of test/peers first, unchanged and with their
 * dependencies. The real npm can thus install published servers with or without access to the public registry.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Registry, startRegistry } from "../../../packages/supply/test/support/npm-registry.ts";
import { PEERS } from "./peers.ts";

interface Manifest {
  name: string;
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

export async function startInstalledRegistry(names: readonly string[]): Promise<Registry> {
  const registry = await startRegistry();
  const published_folders = new Set<string>();
  const root = resolve(".");
  const publish = (name: string, from: string) => {
    const dir = find(name, from, root);
    // Packages of other platforms are not installed here and not requested.
    if (dir === null || published_folders.has(dir)) return;
    published_folders.add(dir);
    const manifest = JSON.parse(readFileSync(join(dir, "package.json"), "utf8")) as Manifest;
    registry.publish(name, manifest.version, pack(dir), manifest);
    for (const each of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }))
      publish(each, dir);
  };
  for (const name of names) publish(name, PEERS);
  return registry;
}

/** Finds the folder of an installed package as Node resolves it. */
function find(name: string, from: string, root: string): string | null {
  for (let at = from; ; at = dirname(at)) {
    const dir = join(at, "node_modules", name);
    if (existsSync(join(dir, "package.json"))) return dir;
    if (at === root) return null;
  }
}

function pack(dir: string): Buffer {
  const args = ["czf", "-", "--exclude=./node_modules", "--transform=s,^\\.,package,", "-C", dir, "."];
  return execFileSync("tar", args, { maxBuffer: 256 << 20 });
}

/**
 * An npm registry on this machine that offers what is installed here: the published packages unchanged, with all that
 * they depend on. So the real npm installs the real servers, with or without a way to the real registry.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type Registry, startRegistry } from "../../packages/supply/test/npm-registry.ts";

interface Manifest {
  name: string;
  version: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

export async function startInstalledRegistry(names: readonly string[]): Promise<Registry> {
  const registry = await startRegistry();
  const seen = new Set<string>();
  const root = resolve(".");
  const publish = (name: string, from: string) => {
    const dir = find(name, from, root);
    // What another platform needs is not installed here, and not asked for.
    if (dir === null || seen.has(dir)) return;
    seen.add(dir);
    const manifest = JSON.parse(readFileSync(join(dir, "package.json"), "utf8")) as Manifest;
    registry.publish(name, manifest.version, pack(dir), manifest);
    for (const each of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }))
      publish(each, dir);
  };
  for (const name of names) publish(name, root);
  return registry;
}

/** As Node looks for it. */
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

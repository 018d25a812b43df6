/**
 * Finds the path in the dependency tree to a dependency that npm could not resolve. The message of npm contains only
 * the address, so the path is looked up in the package metadata in a cache of npm.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isRegistrySpec, specsOf } from "./vet-lock.ts";

export type Dependencies = Parameters<typeof specsOf>[0];
type Versions = Record<string, Dependencies>;

const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Finds the first dependency from outside the registry that `isReported` accepts, with its path from `root`; null if
 * there is none. Pass the manifest of `root` if `root` does not come from the registry.
 */
export async function findUnresolved(
  cache: string,
  root: { name: string; manifest: Dependencies | null },
  isReported: (spec: string) => boolean,
): Promise<{ path: string[]; spec: string } | null> {
  const metadata = await readMetadata(join(cache, "_cacache", "content-v2"));
  if (root.manifest !== null) metadata.set(root.name, { own: root.manifest });
  const queue: string[][] = [[root.name]];
  const visited = new Set([root.name]);
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    for (const version of Object.values(metadata.get(path.at(-1)!) ?? {}).reverse()) {
      for (const [name, spec] of Object.entries(specsOf(version))) {
        if (!isRegistrySpec(spec) && isReported(spec)) return { path: [...path, name], spec };
        const package_name = /^npm:(@?[^@]+)/.exec(spec)?.[1] ?? name;
        if (visited.has(package_name)) continue;
        visited.add(package_name);
        queue.push([...path, package_name]);
      }
    }
  }
  return null;
}

async function readMetadata(folder: string): Promise<Map<string, Versions>> {
  const metadata = new Map<string, Versions>();
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    if ((await stat(file)).size > MAX_BYTES) continue;
    try {
      const { name, versions } = JSON.parse(await readFile(file, "utf8")) as {
        name?: unknown;
        versions?: unknown;
      };
      if (typeof name === "string" && typeof versions === "object" && versions !== null)
        metadata.set(name, versions as Versions);
    } catch {
      // The cache contains archives too.
    }
  }
  return metadata;
}

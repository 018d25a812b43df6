/**
 * Finds the path in the dependency tree to a dependency that npm could not resolve. The message of npm contains only the
 * address, so the path is looked up in the package metadata that npm has cached during this run.
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { isRegistrySpec, specsOf } from "./vet-lock.ts";

export type Dependencies = Parameters<typeof specsOf>[0];
type Versions = Record<string, Dependencies>;

const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The first dependency from outside the registry that `blamed` accepts, with its path from `root`. The manifest of `root`
 * is given when it does not come from the registry. Null if there is none.
 */
export async function findUnresolved(
  cache: string,
  root: { name: string; manifest: Dependencies | null },
  blamed: (spec: string) => boolean,
): Promise<{ path: string[]; spec: string } | null> {
  const seen = await readMetadata(join(cache, "_cacache", "content-v2"));
  if (root.manifest !== null) seen.set(root.name, { own: root.manifest });
  const queue: string[][] = [[root.name]];
  const visited = new Set([root.name]);
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    for (const version of Object.values(seen.get(path.at(-1)!) ?? {}).reverse()) {
      for (const [name, spec] of Object.entries(specsOf(version))) {
        if (!isRegistrySpec(spec) && blamed(spec)) return { path: [...path, name], spec };
        const real = /^npm:(@?[^@]+)/.exec(spec)?.[1] ?? name;
        if (visited.has(real)) continue;
        visited.add(real);
        queue.push([...path, real]);
      }
    }
  }
  return null;
}

async function readMetadata(folder: string): Promise<Map<string, Versions>> {
  const seen = new Map<string, Versions>();
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
        seen.set(name, versions as Versions);
    } catch {
      // The cache contains archives too.
    }
  }
  return seen;
}

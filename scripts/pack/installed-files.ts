/**
 * Reads third-party packages and their dependencies from node_modules, as the lockfile places them: the files that Node
 * loads, and the licenses.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { listFiles, readPacked, withoutMap } from "./module-files.ts";
import type { PackedFile } from "./tarball.ts";

interface LockEntry {
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
  link?: boolean;
}

interface Lock {
  packages: Record<string, LockEntry>;
}

const INCLUDED = /(?:\.(?:js|cjs|mjs|json)|(?:^|\/)(?:licen[cs]e|notice|copying)[^/]*)$/i;
/**
 * Tests, nested packages (which are listed on their own), and folders at the top of a package that contain no code that
 * Node loads. A folder of the same name deeper in the package is kept.
 */
const EXCLUDED =
  /\.test\.[cm]?js$|^(?:tests?|__tests__|examples?|benchmarks?|bench|docs?|\.[^/]*)\/|(?:^|\/)node_modules\//;

/** `names` are dependencies of modules of the repository, which npm installs at the top of node_modules. */
export function readInstalled(root: string, names: Iterable<string>): PackedFile[] {
  const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  const visited_paths = new Set<string>();
  const visit = (from: string, name: string, optional: boolean) => {
    const path = resolveLocked(packages, from, name);
    if (path === null && optional) return;
    if (path === null)
      throw new Error(`${from || "The repository"} needs ${name}, which is not in package-lock.json.`);
    if (visited_paths.has(path)) return;
    visited_paths.add(path);
    const { dependencies = {}, optionalDependencies = {} } = packages[path]!;
    for (const each of Object.keys(dependencies)) visit(path, each, each in optionalDependencies);
  };
  for (const name of names) visit("", name, false);
  return [...visited_paths].sort().flatMap((path) =>
    listFiles(join(root, path), "**")
      .filter((file) => INCLUDED.test(file) && !EXCLUDED.test(file))
      .map((file) => withoutMap({ ...readPacked(join(root, path), file), path: `${path}/${file}` }))
      // No program of a library is executed directly.
      .map((file) => ({ ...file, executable: false })),
  );
}

/** Resolves like Node: next to the package, then in every node_modules above. */
function resolveLocked(packages: Lock["packages"], from: string, name: string): string | null {
  for (let at = from; ; at = at.replace(/\/?node_modules\/(?:@[^/]+\/)?[^/]+$/, "")) {
    const path = `${at === "" ? "" : `${at}/`}node_modules/${name}`;
    if (packages[path] !== undefined && packages[path].link !== true) return path;
    if (at === "") return null;
  }
}

/**
 * Which file a package means by itself: the `.` of its `exports` under the conditions that this process runs with,
 * else its `main`. The file exists and its real path is inside the package; nothing is executed to find it.
 */
import { realpath, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";

export interface PackageJson {
  name?: unknown;
  version?: unknown;
  main?: unknown;
  exports?: unknown;
  [key: string]: unknown;
}

/** `--conditions` and `-C` of this process, in either spelling. */
export function conditionsOf(execArgv: readonly string[]): string[] {
  const found: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const match = /^(?:--conditions|-C)(?:=(.+))?$/.exec(execArgv[i]!);
    if (match === null) continue;
    const value = match[1] ?? execArgv[++i];
    if (value !== undefined && !found.includes(value)) found.push(value);
  }
  return found;
}

/** A path relative to the package, or null when it names none. */
export function entryOf(manifest: PackageJson, conditions: readonly string[]): string | null {
  if (manifest.exports === undefined || manifest.exports === null) {
    return typeof manifest.main === "string" ? manifest.main : "index.js";
  }
  const active = new Set([...conditions, "node", "import", "module-sync", "default"]);
  return target(rootOf(manifest.exports), active);
}

/** Below `dir` as it was given, even where that is a link that will lead elsewhere; or why there is none. */
export async function fileInside(dir: string, path: string): Promise<{ file: string } | { problem: string }> {
  const root = await realpath(dir);
  let file: string;
  try {
    file = await realpath(resolve(root, path));
  } catch {
    return { problem: `its module ${path} is not there; build the package first` };
  }
  if (!file.startsWith(root + sep)) return { problem: `its module ${path} lies outside the package` };
  if (!(await stat(file)).isFile()) return { problem: `its module ${path} is no file` };
  return { file: join(dir, relative(root, file)) };
}

/** The value of `.`; an object without paths as keys is the value itself. */
function rootOf(exports: unknown): unknown {
  if (typeof exports !== "object" || exports === null || Array.isArray(exports)) return exports;
  const keys = Object.keys(exports);
  return keys.some((key) => key.startsWith(".")) ? (exports as Record<string, unknown>)["."] : exports;
}

/** As Node reads it: the first key that is active decides, unless it leads nowhere. */
function target(value: unknown, active: ReadonlySet<string>): string | null {
  if (typeof value === "string") return value.startsWith("./") ? value : null;
  if (Array.isArray(value)) {
    for (const item of value) {
      const found = target(item, active);
      if (found !== null) return found;
    }
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  for (const [condition, inner] of Object.entries(value)) {
    if (!active.has(condition)) continue;
    const found = target(inner, active);
    if (found !== null) return found;
  }
  return null;
}

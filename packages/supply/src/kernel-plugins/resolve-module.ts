/**
 * Resolves the entry file of a package: the `.` of its `exports` under the conditions of this process, otherwise its
 * `main` or `index.js`. The file must exist, and its real path must be inside the package. Nothing is executed.
 */
import { realpath, stat } from "node:fs/promises";
import { join, relative, resolve, sep } from "node:path";
import { isObject } from "@backplane/contract";
import type { PackageJson } from "../npm/package-json.ts";

/** The values of `--conditions` and `-C`. */
export function conditionsOf(execArgv: readonly string[]): string[] {
  const names: string[] = [];
  for (let i = 0; i < execArgv.length; i++) {
    const match = /^(?:--conditions|-C)(?:=(.+))?$/.exec(execArgv[i]!);
    if (match === null) continue;
    const value = match[1] ?? execArgv[++i];
    if (value !== undefined && !names.includes(value)) names.push(value);
  }
  return names;
}

/** Returns a path relative to the package; null when there is no entry. */
export function findModuleEntry(manifest: PackageJson, conditions: readonly string[]): string | null {
  if (manifest.exports === undefined || manifest.exports === null) {
    return typeof manifest.main === "string" ? manifest.main : "index.js";
  }
  const active = new Set([...conditions, "node", "import", "module-sync", "default"]);
  return resolveTarget(rootExportOf(manifest.exports), active);
}

/** The returned path begins with `dir` as given, because `dir` can be a link that later points elsewhere. */
export async function findModuleFile(
  dir: string,
  path: string,
): Promise<{ file: string } | { problem: string }> {
  const root = await realpath(dir);
  let file: string;
  try {
    file = await realpath(resolve(root, path));
  } catch {
    return { problem: `its module ${path} is missing; build the package first` };
  }
  if (!file.startsWith(root + sep)) return { problem: `its module ${path} is outside the package` };
  if (!(await stat(file)).isFile()) return { problem: `its module ${path} is not a file` };
  return { file: join(dir, relative(root, file)) };
}

/** The value of `.`. An object whose keys are not paths is itself that value. */
function rootExportOf(exports: unknown): unknown {
  if (!isObject(exports)) return exports;
  const keys = Object.keys(exports);
  return keys.some((key) => key.startsWith(".")) ? exports["."] : exports;
}

/** Like Node, uses the first active condition that resolves to a path. */
function resolveTarget(value: unknown, active: ReadonlySet<string>): string | null {
  if (typeof value === "string") return value.startsWith("./") ? value : null;
  if (Array.isArray(value)) {
    for (const item of value) {
      const resolved = resolveTarget(item, active);
      if (resolved !== null) return resolved;
    }
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  for (const [condition, inner] of Object.entries(value)) {
    if (!active.has(condition)) continue;
    const resolved = resolveTarget(inner, active);
    if (resolved !== null) return resolved;
  }
  return null;
}

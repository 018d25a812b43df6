/**
 * Tells when something below a folder was saved. Editors save in many ways (in place, by rename, twice), so several
 * events close together are one. A part that appears or goes is picked up; a watch that breaks is set up again.
 */
import { type FSWatcher, readdirSync, statSync, watch as watchPath } from "node:fs";
import { join } from "node:path";

const QUIET_MS = 60;
/** After a watch broke, and for file systems that tell nothing. */
const LOOK_AGAIN_MS = 2_000;

/** `parts` are the folders below `path` that are watched with all that is in them; null: all but what is hidden. */
export function watchFolder(path: string, parts: readonly string[] | null, changed: () => void): () => void {
  const watchers = new Map<string, { watcher: FSWatcher; inode: number }>();
  let quiet: NodeJS.Timeout | undefined;
  const tell = () => {
    clearTimeout(quiet);
    quiet = setTimeout(() => {
      lookForParts();
      changed();
    }, QUIET_MS);
  };
  const add = (target: string, recursive: boolean) => {
    try {
      const inode = statSync(target).ino;
      // A folder that was replaced has the same name and is another one.
      if (watchers.get(target)?.inode === inode) return;
      drop(target);
      const watcher = watchPath(target, { recursive, persistent: false }, tell);
      watcher.on("error", () => drop(target));
      watchers.set(target, { watcher, inode });
    } catch {
      // Not there, or not readable: the next look may find it.
    }
  };
  const drop = (target: string) => {
    watchers.get(target)?.watcher.close();
    watchers.delete(target);
  };
  const lookForParts = () => {
    add(path, false);
    const there = new Set(partsOf(path, parts).map((part) => join(path, part)));
    for (const target of watchers.keys()) if (target !== path && !there.has(target)) drop(target);
    for (const target of there) add(target, true);
  };
  const seen = () => [...watchers].map(([target, { inode }]) => `${inode} ${target}`).join("\n");
  lookForParts();
  const again = setInterval(() => {
    const before = seen();
    lookForParts();
    if (seen() !== before) tell();
  }, LOOK_AGAIN_MS);
  again.unref();
  return () => {
    clearTimeout(quiet);
    clearInterval(again);
    for (const target of watchers.keys()) drop(target);
  };
}

function partsOf(path: string, parts: readonly string[] | null): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && (parts?.includes(entry.name) ?? isOwn(entry.name)))
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

function isOwn(name: string): boolean {
  return !name.startsWith(".") && name !== "node_modules";
}

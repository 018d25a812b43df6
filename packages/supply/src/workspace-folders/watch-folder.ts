/**
 * Watches a folder for changes. Editors save in several ways (in place, by rename, twice), so events in quick
 * succession are reported once. Subfolders that appear or disappear are noticed, and a failed watch is restored.
 */
import { type FSWatcher, readdirSync, statSync, watch as watchPath } from "node:fs";
import { join } from "node:path";

const QUIET_MS = 60;
/** The interval of scans that restore failed watches and notice subfolders whose events were missed. */
const RESCAN_MS = 2_000;

/** `parts` are the subfolders that are watched recursively; null for all but hidden ones and node_modules. */
export function watchFolder(path: string, parts: readonly string[] | null, onChange: () => void): () => void {
  const watchers = new Map<string, { watcher: FSWatcher; inode: number }>();
  let quiet_timer: NodeJS.Timeout | undefined;
  const scheduleReport = () => {
    clearTimeout(quiet_timer);
    quiet_timer = setTimeout(() => {
      rescan();
      onChange();
    }, QUIET_MS);
  };
  const addWatcher = (target: string, recursive: boolean) => {
    try {
      const inode = statSync(target).ino;
      // A replaced folder has the same name but another inode.
      if (watchers.get(target)?.inode === inode) return;
      closeWatcher(target);
      const watcher = watchPath(target, { recursive, persistent: false }, scheduleReport);
      watcher.on("error", () => closeWatcher(target));
      watchers.set(target, { watcher, inode });
    } catch {
      // Missing or unreadable; the next scan tries again.
    }
  };
  const closeWatcher = (target: string) => {
    watchers.get(target)?.watcher.close();
    watchers.delete(target);
  };
  const rescan = () => {
    addWatcher(path, false);
    const existing = new Set(listParts(path, parts).map((part) => join(path, part)));
    for (const target of watchers.keys()) if (target !== path && !existing.has(target)) closeWatcher(target);
    for (const target of existing) addWatcher(target, true);
  };
  const describeWatched = () => [...watchers].map(([target, { inode }]) => `${inode} ${target}`).join("\n");
  rescan();
  const rescan_timer = setInterval(() => {
    const previous = describeWatched();
    rescan();
    if (describeWatched() !== previous) scheduleReport();
  }, RESCAN_MS);
  rescan_timer.unref();
  return () => {
    clearTimeout(quiet_timer);
    clearInterval(rescan_timer);
    for (const target of watchers.keys()) closeWatcher(target);
  };
}

function listParts(path: string, parts: readonly string[] | null): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && (parts?.includes(entry.name) ?? isVisible(entry.name)))
      .map(({ name }) => name);
  } catch {
    return [];
  }
}

function isVisible(name: string): boolean {
  return !name.startsWith(".") && name !== "node_modules";
}

import type { WorkspaceChange, WorkspaceFile } from "@backplane/contract";

/** What of `now` differs from what was trusted. */
export function fileChanges(
  before: readonly WorkspaceFile[],
  now: readonly WorkspaceFile[],
): WorkspaceChange[] {
  const known = new Map(before.map((file) => [file.path, file]));
  const changes: WorkspaceChange[] = [];
  for (const { path, size, sha256 } of now) {
    const old = known.get(path);
    known.delete(path);
    if (old === undefined) changes.push({ path, size, change: "added" });
    else if (old.sha256 !== sha256) changes.push({ path, size, change: "changed" });
  }
  for (const path of known.keys()) changes.push({ path, size: 0, change: "removed" });
  return changes.sort((a, b) => (a.path < b.path ? -1 : 1));
}

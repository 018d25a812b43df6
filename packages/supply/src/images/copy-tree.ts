/**
 * Copies a listed tree into a new folder and verifies the copy. The fingerprint of the copy is taken before its content
 * is hashed, so the fingerprint identifies the verified content. The copy never uses hard links or shared extents,
 * because a write to the original must not change the copy.
 */
import { constants } from "node:fs";
import { chmod, type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { mapConcurrently } from "../tree/read-tree.ts";
import type { TreeFile } from "../tree/tree-listing.ts";
import { type Difference, findDifference } from "../tree/verify-tree.ts";
import { type Fingerprint, takeFingerprint } from "./fingerprint.ts";

const CHUNK_BYTES = 256 * 1024;
/** Non-blocking, so that a FIFO in place of a file does not block. */
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
/**
 * Many kernels take file times from a clock that ticks every 4 to 10 ms, and some file systems store whole seconds, so
 * a change within the same tick would not change the times. After this wait every change has a later time.
 */
const TICK_MS = 20;
const SECOND_MS = 1_100;

export type CopyResult = { fingerprint: Fingerprint } | { difference: Difference };

/** `to` must not exist. Throws errors of the file system, such as ENOSPC. */
export async function copyTree(from: string, to: string, files: readonly TreeFile[]): Promise<CopyResult> {
  await mkdir(to, { mode: 0o700 });
  for (const folder of foldersOf(files)) {
    await mkdir(join(to, folder));
    // chmod is not subject to the umask. The user of a sandbox must be able to read the copy.
    await chmod(join(to, folder), 0o755);
  }
  const copied = await mapConcurrently(files, (file) =>
    copyFile(join(from, file.path), join(to, file.path), file),
  );
  const failed = copied.indexOf(false);
  if (failed !== -1) return { difference: { file: (files[failed] as TreeFile).path, what: "changed" } };
  // The copy becomes readable last. A sandboxed process, which runs as another user, does not see the parent folders.
  await chmod(to, 0o755);
  const { ctimeNs } = await stat(to, { bigint: true });
  await pause(ctimeNs % 1_000_000_000n === 0n ? SECOND_MS : TICK_MS);
  const fingerprint = await takeFingerprint(to, files);
  const difference = await findDifference(to, files);
  return difference === null ? { fingerprint } : { difference };
}

/** Parents before their children. */
function foldersOf(files: readonly TreeFile[]): string[] {
  const folders = new Set<string>();
  for (const { path } of files) {
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) folders.add(folder);
  }
  return [...folders].sort();
}

/** Returns false if the source differs from the listed file in a way that needs no hashing to detect. */
async function copyFile(from: string, to: string, { mode, size }: TreeFile): Promise<boolean> {
  const source = await open(from, READ).catch(() => null);
  if (source === null) return false;
  try {
    const info = await source.stat();
    if (!info.isFile() || info.size !== size) return false;
    const target = await open(to, "wx", 0o600);
    try {
      if (!(await copyBytes(source, target, size))) return false;
      await target.chmod(mode === "0755" ? 0o555 : 0o444);
    } finally {
      await target.close();
    }
    return true;
  } finally {
    await source.close();
  }
}

/** Copies at most `size` bytes, so that a growing file does not fill the disk. */
async function copyBytes(source: FileHandle, target: FileHandle, size: number): Promise<boolean> {
  const buffer = Buffer.allocUnsafe(Math.min(size, CHUNK_BYTES) || 1);
  for (let at = 0; at < size; ) {
    const { bytesRead } = await source.read(buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0) return false;
    let written = 0;
    while (written < bytesRead) {
      written += (await target.write(buffer, written, bytesRead - written, at + written)).bytesWritten;
    }
    at += bytesRead;
  }
  return true;
}

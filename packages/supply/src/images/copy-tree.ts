/**
 * Copies a listed tree byte by byte into a folder of our own, and verifies the copy. What counts is the copy: its
 * fingerprint is taken first and its bytes are hashed afterwards, so bytes that pass are those that the fingerprint
 * stands for. Never a hard link or a shared extent: writing to the original must not reach the copy.
 */
import { constants } from "node:fs";
import { chmod, type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { inTurns } from "../tree/read-tree.ts";
import type { TreeFile } from "../tree/tree-listing.ts";
import { type Difference, differenceOf } from "../tree/verify-tree.ts";
import { type Fingerprint, takeFingerprint } from "./fingerprint.ts";

const PIECE_BYTES = 256 * 1024;
/** Not blocking: a FIFO in the place of a file must not hold us. */
const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);
/**
 * Many kernels stamp files with a clock that ticks every 4 to 10 ms, some file systems with whole seconds, so a change
 * within the tick of the copy would leave its times as they are. After this wait every change has a later time.
 */
const TICK_MS = 20;
const SECOND_MS = 1_100;

export type Copied = { fingerprint: Fingerprint } | { difference: Difference };

/** `to` must not be there yet. Throws what the file system throws, such as ENOSPC. */
export async function copyTree(from: string, to: string, files: readonly TreeFile[]): Promise<Copied> {
  await mkdir(to, { mode: 0o700 });
  for (const folder of foldersOf(files)) {
    await mkdir(join(to, folder));
    // Whatever the umask: see below.
    await chmod(join(to, folder), 0o755);
  }
  const copied = await inTurns(files, (file) => copyFile(join(from, file.path), join(to, file.path), file));
  const lost = copied.indexOf(false);
  if (lost !== -1) return { difference: { file: (files[lost] as TreeFile).path, what: "changed" } };
  // A sandboxed process is another user and sees nothing of the folders above this one.
  await chmod(to, 0o755);
  const { ctimeNs } = await stat(to, { bigint: true });
  await pause(ctimeNs % 1_000_000_000n === 0n ? SECOND_MS : TICK_MS);
  const fingerprint = await takeFingerprint(to, files);
  const difference = await differenceOf(to, files);
  return difference === null ? { fingerprint } : { difference };
}

/** Each after the one that it is in. */
function foldersOf(files: readonly TreeFile[]): string[] {
  const folders = new Set<string>();
  for (const { path } of files) {
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) folders.add(folder);
  }
  return [...folders].sort();
}

/** False: it is not the file that was listed, by what can be seen without a hash. */
async function copyFile(from: string, to: string, { mode, size }: TreeFile): Promise<boolean> {
  const source = await open(from, READ).catch(() => null);
  if (source === null) return false;
  try {
    const info = await source.stat();
    if (!info.isFile() || info.size !== size) return false;
    const target = await open(to, "wx", 0o600);
    try {
      if (!(await pump(source, target, size))) return false;
      await target.chmod(mode === "0755" ? 0o555 : 0o444);
    } finally {
      await target.close();
    }
    return true;
  } finally {
    await source.close();
  }
}

/** Never more than was listed: a file that grows must not fill the disk. */
async function pump(source: FileHandle, target: FileHandle, size: number): Promise<boolean> {
  const buffer = Buffer.allocUnsafe(Math.min(size, PIECE_BYTES) || 1);
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

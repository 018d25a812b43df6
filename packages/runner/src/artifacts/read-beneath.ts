/**
 * Reads one file from the scratch folder of a plain process. The plugin may change the folder at the same time, so
 * each part of the path is opened relative to the descriptor of its parent and without following links, and all
 * checks are made on the open descriptor. sandbox-init does the same inside a sandbox (artifact.c).
 */
import { closeSync, constants, existsSync, fstatSync, lstatSync, openSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { type ArtifactFault, isArtifactPath } from "@backplane/contract";
import { faultOf } from "./artifact-fault.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
const SPECIAL = 0o6000;

export async function readBeneath(
  folder: string,
  path: string,
  max_bytes: number,
): Promise<Buffer | ArtifactFault> {
  if (!isArtifactPath(path)) return "bad_path";
  let handle: FileHandle | null = null;
  try {
    handle = await openBeneath(folder, path.split("/"));
    const { mode, nlink, size } = await handle.stat();
    if ((mode & constants.S_IFMT) !== constants.S_IFREG) return "not_a_file";
    if (nlink !== 1) return "link";
    if ((mode & SPECIAL) !== 0) return "setuid";
    if (size > max_bytes) return "too_large";
    return await readWhole(handle, size, max_bytes);
  } catch (error) {
    return faultOf((error as NodeJS.ErrnoException).code);
  } finally {
    await handle?.close();
  }
}

/** Node has no openat, so the path of the descriptor in /proc is used instead. */
async function openBeneath(folder: string, parts: string[]): Promise<FileHandle> {
  const last = parts.pop()!;
  let parent = openSync(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    let base = pathOfDescriptor(parent, folder);
    for (const part of parts) {
      const path = join(base, part);
      if (lstatSync(path).isSymbolicLink()) throw Object.assign(new Error("a link"), { code: "ELOOP" });
      const next = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      closeSync(parent);
      parent = next;
      base = pathOfDescriptor(next, path);
    }
    // O_NONBLOCK, because opening a FIFO without a writer would block.
    return await open(join(base, last), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } finally {
    closeSync(parent);
  }
}

/**
 * Without /proc the folder is opened by its name, after a check that the name still refers to the open descriptor.
 */
function pathOfDescriptor(fd: number, path: string): string {
  if (existsSync(`/proc/self/fd/${fd}`)) return `/proc/self/fd/${fd}`;
  const [of_descriptor, of_path] = [fstatSync(fd), lstatSync(path)];
  if (of_descriptor.ino !== of_path.ino || of_descriptor.dev !== of_path.dev)
    throw Object.assign(new Error("changed"), { code: "ELOOP" });
  return path;
}

/** Reads to the end, because the file may have grown or shrunk since it was checked. */
async function readWhole(
  handle: FileHandle,
  size: number,
  max_bytes: number,
): Promise<Buffer | ArtifactFault> {
  let buffer = Buffer.allocUnsafe(size + 1);
  for (let length = 0; ; ) {
    const { bytesRead } = await handle.read(buffer, length, buffer.length - length, length);
    if (bytesRead === 0) return buffer.subarray(0, length);
    length += bytesRead;
    if (length > max_bytes) return "too_large";
    if (length === buffer.length) buffer = Buffer.concat([buffer], Math.min(2 * length, max_bytes + 1));
  }
}

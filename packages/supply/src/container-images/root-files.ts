/**
 * The root file system of an image inside a package: a list of its files, and their contents one after another.
 * Packages contain no links, so the links of an image exist only in the list until the root is expanded for a process.
 */
import { chmod, type FileHandle, mkdir, open, readFile, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { unsafeImage } from "../archive/unsafe.ts";
import { IMAGE_LIMITS, type ImageLimits } from "./image-limits.ts";
import { type ImageTree, partsOf } from "./image-tree.ts";

/** Paths in the package. */
const ROOT_LIST = "image/root.json";
export const ROOT_DATA = "image/root.data";

type RootEntry =
  | [path: string, kind: "folder"]
  | [path: string, kind: "file" | "program", offset: number, size: number]
  | [path: string, kind: "link", target: string];

const CHUNK_BYTES = 256 * 1024;

/**
 * Writes the tree in the order of its paths, so the same image becomes the same package. The limits apply to the
 * expanded root, where each hard link is a file, and where links may have led to longer paths than those of the layers.
 */
export async function writeRoot(
  tree: ImageTree,
  spool: FileHandle,
  folder: string,
  { unpacked_bytes, text_bytes }: ImageLimits = IMAGE_LIMITS,
): Promise<void> {
  await mkdir(dirname(join(folder, ROOT_DATA)), { recursive: true });
  const data = await open(join(folder, ROOT_DATA), "wx", 0o644);
  const entries: RootEntry[] = [];
  /** Hard links share the content of their first name. */
  const written = new Map<number, number>();
  let at = 0;
  let expanded = 0;
  let text = 0;
  try {
    for (const { path, node } of tree.entries()) {
      partsOf(path);
      text += Buffer.byteLength(path);
      if (text > text_bytes)
        throw unsafeImage(
          "names-too-long",
          `the paths of the image have more than ${text_bytes} bytes in total`,
        );
      if (node.kind === "file") expanded += node.content.size;
      if (expanded > unpacked_bytes)
        throw unsafeImage("too-large", `the files of the image have more than ${unpacked_bytes} bytes`, path);
      if (node.kind === "folder") entries.push([path, "folder"]);
      else if (node.kind === "link") entries.push([path, "link", node.target]);
      else {
        const { offset, size } = node.content;
        const known = size === 0 ? 0 : written.get(offset);
        if (known === undefined) {
          await copyRange(spool, offset, size, data);
          written.set(offset, at);
        }
        entries.push([path, node.executable ? "program" : "file", known ?? at, size]);
        if (known === undefined) at += size;
      }
    }
  } finally {
    await data.close();
  }
  const lines = entries.map((entry) => JSON.stringify(entry)).join(",\n");
  const list = await open(join(folder, ROOT_LIST), "wx", 0o644);
  await list.writeFile(`[\n${lines}\n]\n`);
  await list.close();
}

/**
 * Expands the root of a verified package into the new folder `into` and returns the paths in it. Links are created
 * last, so nothing is written through one.
 */
export async function expandRoot(folder: string, into: string): Promise<string[]> {
  const entries = JSON.parse(await readFile(join(folder, ROOT_LIST), "utf8")) as RootEntry[];
  for (const [path] of entries) {
    if (partsOf(path).join("/") !== path)
      throw new BackplaneError(
        "package.corrupt",
        `The image lists the invalid path ${JSON.stringify(path)}.`,
      );
  }
  await makeFolder(into);
  const data = await open(join(folder, ROOT_DATA), "r");
  try {
    for (const entry of entries) {
      const path = join(into, entry[0]);
      if (entry[1] === "folder") await makeFolder(path);
      else if (entry[1] !== "link") {
        const file = await open(path, "wx", 0o600);
        try {
          await copyRange(data, entry[2], entry[3], file);
          await file.chmod(entry[1] === "program" ? 0o555 : 0o444);
        } finally {
          await file.close();
        }
      }
    }
  } finally {
    await data.close();
  }
  for (const entry of entries) if (entry[1] === "link") await symlink(entry[2], join(into, entry[0]));
  return entries.map(([path]) => path);
}

/** Sets the mode regardless of the gateway's umask, because the sandbox runs as another user. */
async function makeFolder(path: string): Promise<void> {
  await mkdir(path);
  await chmod(path, 0o755);
}

async function copyRange(from: FileHandle, offset: number, size: number, to: FileHandle): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(size, CHUNK_BYTES) || 1);
  for (let done = 0; done < size; ) {
    const { bytesRead } = await from.read(buffer, 0, Math.min(buffer.length, size - done), offset + done);
    if (bytesRead === 0)
      throw new BackplaneError("package.corrupt", "The contents of the image are truncated.");
    await to.writeFile(buffer.subarray(0, bytesRead));
    done += bytesRead;
  }
}

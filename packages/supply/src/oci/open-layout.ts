/** Opens any local form of a package as an image layout: a folder, an archive, or a layout as a folder or tar. */
import { createReadStream } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { unpackArchive } from "../archive/unpack-archive.ts";
import { findFiles, mapConcurrently, readTreeFile } from "../tree/read-tree.ts";
import { listTree } from "../tree/tree-listing.ts";
import { isLayout, openLayoutArtifact } from "./layout-artifact.ts";
import { packLayout } from "./pack-layout.ts";
import type { ArtifactSource } from "./plugin-artifact.ts";

export interface OpenedLayout {
  dir: string;
  store: ArtifactSource;
}

/** `temporary` is an empty folder for files that have to be written. */
export async function openAsLayout(path: string, temporary: string): Promise<OpenedLayout> {
  let folder = path;
  if (!(await stat(path)).isDirectory()) {
    folder = join(temporary, "tree");
    await unpackArchive(createReadStream(path), folder);
  }
  if (isLayout(await readdir(folder))) return await readLayout(folder);
  const layout = join(temporary, "layout");
  await packLayout(folder, layout);
  return await readLayout(layout);
}

async function readLayout(dir: string): Promise<OpenedLayout> {
  const { files } = await findFiles(dir);
  const listing = listTree(await mapConcurrently(files, (path) => readTreeFile(dir, path)));
  return { dir, store: await openLayoutArtifact(dir, listing) };
}

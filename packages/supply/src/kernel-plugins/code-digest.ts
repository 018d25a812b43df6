/** The digest of a kernel plugin's own files, without its dependencies and hidden files such as `.git`. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { mapConcurrently, readTreeFile } from "../tree/read-tree.ts";
import { listTree } from "../tree/tree-listing.ts";

export async function computeCodeDigest(dir: string): Promise<string> {
  return listTree(await mapConcurrently(await listOwnFiles(dir, ""), (path) => readTreeFile(dir, path)))
    .digest;
}

async function listOwnFiles(dir: string, below: string): Promise<string[]> {
  const files: string[] = [];
  for (const entry of await readdir(join(dir, below), { withFileTypes: true })) {
    if (entry.name === "node_modules" || entry.name.startsWith(".")) continue;
    const path = below === "" ? entry.name : `${below}/${entry.name}`;
    if (entry.isFile()) files.push(path);
    else if (entry.isDirectory()) files.push(...(await listOwnFiles(dir, path)));
  }
  return files;
}

/** Verifies every installed tree against its digest, one after another, for `doctor`. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Difference } from "../tree/verify-tree.ts";
import { checkFolder } from "./content-store.ts";

export interface InspectedTree {
  digest: string;
  difference: Difference | null;
  /** The number of trees; `index` begins at 1. */
  count: number;
  index: number;
}

/** `dir` is the home's `blobs` folder. Changes nothing. A tree that is removed meanwhile is skipped. */
export async function* inspectContent(dir: string): AsyncGenerator<InspectedTree, void> {
  const listTrees = async () =>
    (await readdir(join(dir, "sha256")).catch(() => [])).filter((name) => TREE.test(name));
  const names = await listTrees();
  for (const [position, name] of names.entries()) {
    const digest = `sha256:${name}`;
    const difference = await checkFolder(join(dir, "sha256", name), digest);
    if (difference !== null && !(await listTrees()).includes(name)) continue;
    yield { digest, difference, count: names.length, index: position + 1 };
  }
}

const TREE = /^[0-9a-f]{64}$/;

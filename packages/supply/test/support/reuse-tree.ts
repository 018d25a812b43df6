/** Replaces npm in tests of later steps, because loading the real npm takes longer than those steps. */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Npm } from "../../src/npm/npm-command.ts";

interface ReusableTree {
  folder: string;
  /** The lock that npm showed when it was paused. */
  lock: unknown;
}

/**
 * The real npm installs `spec` once, at the first installation. Every installation with the returned npm vets that lock
 * and gets a copy of that tree, which must contain the requested package.
 */
export function reuseTree(npm: Npm, spec: string): Npm {
  let reusable: Promise<ReusableTree> | undefined;
  const install = async (args: readonly string[], dir: string): Promise<ReusableTree> => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-reused-tree-"));
    writeFileSync(join(folder, "package.json"), readFileSync(join(dir, "package.json")));
    const own_args = [...args.slice(0, -1).map((arg) => (arg === dir ? folder : arg)), spec];
    let lock: unknown;
    const paused = await npm.install(own_args, folder, async (resolved) => {
      lock = resolved;
    });
    if (!paused) throw new Error("This npm cannot be paused.");
    return { folder, lock };
  };
  return {
    ...npm,
    async install(args, dir, vet) {
      reusable ??= install(args, dir);
      const { folder, lock } = await reusable;
      await vet(lock);
      mkdirSync(dir, { recursive: true });
      cpSync(folder, dir, { recursive: true });
      return true;
    },
  };
}

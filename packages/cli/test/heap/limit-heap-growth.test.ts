import { spawnSync } from "node:child_process";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { OWN_HEAP_FLAGS } from "../../src/heap/small-heap.ts";

const MODULE = resolve("packages/cli/src/heap/limit-heap-growth.ts");

/** V8 accepts compiled code only with this tag, so the tag shows whether the flags have changed. */
function readCodeTags(...flags: string[]): { before: number; after: number } {
  const program = `const { cachedDataVersionTag } = await import("node:v8");
    const before = cachedDataVersionTag();
    const { limitHeapGrowth } = await import(${JSON.stringify(MODULE)});
    limitHeapGrowth(process);
    console.log(JSON.stringify({ before, after: cachedDataVersionTag() }));`;
  const args = [...flags, "--input-type=module", "-e", program];
  return JSON.parse(spawnSync(process.execPath, args, { encoding: "utf8" }).stdout);
}

test("keeps Node's compiled code valid at the start and changes V8's flags afterwards", () => {
  const plain = readCodeTags();
  const with_own_flags = readCodeTags(...OWN_HEAP_FLAGS);
  expect(plain.after).toBe(plain.before);
  expect(with_own_flags.before).toBe(plain.before);
  expect(with_own_flags.after).not.toBe(with_own_flags.before);
});

import { rmSync } from "node:fs";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { killBeforeEach, runCompletely } from "../fixtures/write-points.ts";

let dir: string;
beforeAll(() => {
  dir = createMemoryFolder("bp-points-");
});
afterAll(() => rmSync(dir, { recursive: true }));

// test/slow/store/faults.test.ts kills the process at every point; here only at a sample of them.
verifies(
  "fault.write-points",
  "leaves the old or the new state when killed before a sampled write",
  async () => {
    const complete_run = await runCompletely(dir, true);
    expect(complete_run.statements).toBeGreaterThan(100);
    const sample = Array.from(
      { length: 6 },
      (_, n) => 1 + Math.floor(((n + 0.5) * complete_run.statements) / 6),
    );
    expect(await killBeforeEach(sample, dir, true, complete_run)).toEqual([]);
  },
);

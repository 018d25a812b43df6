import { rmSync } from "node:fs";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect } from "vitest";
import {
  copyBeforeEach,
  killBeforeEach,
  runCompletely,
} from "../../../packages/store/test/fixtures/write-points.ts";
import { verifies } from "../../support/verifies.ts";

let dir: string;
beforeAll(() => {
  dir = createMemoryFolder("bp-points-");
});
afterAll(() => rmSync(dir, { recursive: true }));

for (const threaded of [true, false]) {
  verifies(
    "fault.write-points",
    `leaves the old or the new state if the process crashes before any single write statement or commit (threaded: ${threaded})`,
    async () => {
      const complete_run = await runCompletely(dir, threaded);
      expect(complete_run.statements).toBeGreaterThan(100);
      const { faults, texts } = await copyBeforeEach(dir, threaded, complete_run);
      expect(texts).toHaveLength(complete_run.statements);
      expect(faults).toEqual([]);
      // Around a commit the crash itself also matters: which steps were acknowledged, and which locks are left.
      const commits = texts.flatMap((text, n) => (text === "commit" ? [n + 1] : []));
      expect(commits.length).toBeGreaterThan(40);
      const around = commits.flatMap((k) => [k, k + 1]).filter((k) => k <= complete_run.statements);
      expect(await killBeforeEach(around, dir, threaded, complete_run)).toEqual([]);
    },
  );
}

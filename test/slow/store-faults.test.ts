import { rmSync } from "node:fs";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect } from "vitest";
import { copyBeforeEach, killBeforeEach, wholeRun } from "../../packages/store/test/fixtures/write-points.ts";
import { verifies } from "../support/verifies.ts";

let dir: string;
beforeAll(() => {
  dir = createMemoryFolder("bp-points-");
});
afterAll(() => rmSync(dir, { recursive: true }));

for (const threaded of [true, false]) {
  verifies(
    "fault.write-points",
    `leaves the old or the new state after a crash before any write statement or commit (threaded: ${threaded})`,
    async () => {
      const whole = await wholeRun(dir, threaded);
      expect(whole.statements).toBeGreaterThan(100);
      const { faults, texts } = await copyBeforeEach(dir, threaded, whole);
      expect(texts).toHaveLength(whole.statements);
      expect(faults).toEqual([]);
      // Around a commit the crash itself also matters: which steps were acknowledged, and which locks are left.
      const commits = texts.flatMap((text, n) => (text === "commit" ? [n + 1] : []));
      expect(commits.length).toBeGreaterThan(40);
      const around = commits.flatMap((k) => [k, k + 1]).filter((k) => k <= whole.statements);
      expect(await killBeforeEach(around, dir, threaded, whole)).toEqual([]);
    },
  );
}

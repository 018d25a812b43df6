import { rmSync } from "node:fs";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect } from "vitest";
import { dieBeforeEach, wholeRun } from "../../packages/store/test/fixtures/write-points.ts";
import { verifies } from "../support/verifies.ts";

let dir: string;
beforeAll(() => {
  dir = createMemoryFolder("bp-points-");
});
afterAll(() => rmSync(dir, { recursive: true }));

for (const threaded of [true, false]) {
  verifies(
    "fault.write-points",
    `death before every write statement and commit leaves the old or the new state (threaded: ${threaded})`,
    async () => {
      const whole = await wholeRun(dir, threaded);
      expect(whole.statements).toBeGreaterThan(100);
      const every = Array.from({ length: whole.statements }, (_, n) => n + 1);
      expect(await dieBeforeEach(every, dir, threaded, whole)).toEqual([]);
    },
  );
}

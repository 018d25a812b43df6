import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { dieBeforeEach, wholeRun } from "./fixtures/write-points.ts";

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "bp-points-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

// test/slow/store-faults.test.ts dies at every point; here a sample spread over the whole life.
verifies("fault.write-points", "death before a sampled write leaves the old or the new state", async () => {
  const whole = await wholeRun(dir, true);
  expect(whole.statements).toBeGreaterThan(100);
  const sample = Array.from({ length: 6 }, (_, n) => 1 + Math.floor(((n + 0.5) * whole.statements) / 6));
  expect(await dieBeforeEach(sample, dir, true, whole)).toEqual([]);
});

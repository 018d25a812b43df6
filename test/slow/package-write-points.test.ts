/** Real processes that install, remove and repair a package are killed before every single write. */
import { rmSync } from "node:fs";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect } from "vitest";
import { changesIn, killAtEach, listWritePoints } from "../../packages/supply/test/install-points.ts";
import { verifies } from "../support/verifies.ts";

const base = createMemoryFolder("backplane-install-points-");
afterAll(() => rmSync(base, { recursive: true, force: true }));
let changes: Awaited<ReturnType<typeof changesIn>>;
beforeAll(async () => {
  changes = await changesIn(base);
});

const TITLES = {
  install: "a killed installation leaves the package absent or complete",
  remove: "a killed removal leaves the package complete or absent",
  heal: "a killed repair leaves intact bytes or damage that is detected",
};

for (const name of ["install", "remove", "heal"] as const) {
  verifies("fault.write-points", TITLES[name], async () => {
    const points = await listWritePoints(changes[name]);
    const kinds = [
      "run",
      "rename",
      "rm",
      "sync",
      ...(name === "remove" ? [] : ["mkdir", "open", "half a file"]),
    ];
    expect(points).toEqual(expect.arrayContaining(kinds));
    expect(await killAtEach(changes[name], [...points.keys()])).toEqual([]);
  });
}

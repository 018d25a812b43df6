/** Real processes that install, remove and repair a package are killed before every single write. */
import { rmSync } from "node:fs";
import { createMemoryFolder } from "@backplane/test-kit/memory-folder";
import { afterAll, beforeAll, expect } from "vitest";
import {
  killAtEach,
  listWritePoints,
  prepareChanges,
} from "../../../packages/supply/test/support/write-points.ts";
import { verifies } from "../../support/verifies.ts";

const base = createMemoryFolder("backplane-install-points-");
afterAll(() => rmSync(base, { recursive: true, force: true }));
let changes: Awaited<ReturnType<typeof prepareChanges>>;
beforeAll(async () => {
  changes = await prepareChanges(base);
});

const TITLES = {
  install: "a killed installation leaves the package absent or complete",
  remove: "a killed removal leaves the package complete or absent",
  repair: "a killed repair leaves intact bytes or damage that is detected",
};

for (const name of ["install", "remove", "repair"] as const) {
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

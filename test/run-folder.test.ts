/** The folders of a run are removed even while the workers still write their compiled code into them. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { removeFolder } from "./support/vitest/run-folder.ts";

test.each([
  ["returned although the folder is still there", () => {}],
  [
    "failed",
    () => {
      throw new Error("the folder is not empty");
    },
  ],
])("removes a folder again after a removal that %s", async (_, failing) => {
  const folder = mkdtempSync(join(tmpdir(), "removed-"));
  let removals = 0;
  await removeFolder(folder, () => {
    removals++;
    if (removals < 3) failing();
    else rmSync(folder, { recursive: true });
  });
  expect(removals).toBe(3);
  expect(existsSync(folder)).toBe(false);
});

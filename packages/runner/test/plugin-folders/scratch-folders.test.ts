import { existsSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTestRunner, until } from "../support/runner.ts";

test("removes scratch folders of an earlier gateway but no other files", async () => {
  const scratch_root = mkdtempSync(join(tmpdir(), "backplane-sweep-"));
  mkdirSync(join(scratch_root, "inv_old/deep"), { recursive: true });
  writeFileSync(join(scratch_root, "inv_old/deep/file"), "x");
  mkdirSync(join(scratch_root, "someone-elses"));
  createTestRunner({ scratch_root });
  await until(() => !existsSync(join(scratch_root, "inv_old")));
  expect(readdirSync(scratch_root)).toEqual(["someone-elses"]);
});

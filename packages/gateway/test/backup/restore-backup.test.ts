import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { lockHome } from "@backplane/store";
import { expect, onTestFinished, test } from "vitest";
import { restoreBackup } from "../../src/backup/restore-backup.ts";

test("leaves no files in a new home after a failed restore, and only the lock file in a used one", async () => {
  const folder = mkdtempSync(join(tmpdir(), "backplane-restore-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const archive = join(folder, "notar");
  writeFileSync(archive, "not a tar file");
  const restore = (home: string) =>
    restoreBackup({ home, archive, env: {}, force: false, progress: () => undefined });
  const fresh = join(folder, "fresh");
  await expect(restore(fresh)).rejects.toMatchObject({ code: "backup.invalid" });
  expect(readdirSync(fresh)).toEqual([]);
  const used = join(folder, "used");
  mkdirSync(used);
  const lock = lockHome(used);
  await expect(restore(used)).rejects.toMatchObject({ code: "home.locked" });
  lock.release();
  await expect(restore(used)).rejects.toMatchObject({ code: "backup.invalid" });
  expect(readdirSync(used)).toEqual(["backplane.lock"]);
});

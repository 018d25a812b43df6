import { chownSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { claimStateFolder, FIRST_STATE_UID } from "../../src/sandbox/state-user.ts";

const root = process.getuid?.() === 0;

test.runIf(root)("gives each folder its own stable user, even for files that root created", async () => {
  const state = mkdtempSync(join(tmpdir(), "backplane-state-"));
  onTestFinished(() => rmSync(state, { recursive: true, force: true }));
  const [first, second] = ["one", "two"].map((name) => join(state, name)) as [string, string];
  for (const folder of [first, second]) mkdirSync(join(folder, "deep"), { recursive: true });
  const outside = join(state, "outside");
  writeFileSync(outside, "of the gateway");
  symlinkSync(outside, join(first, "deep/link"));
  symlinkSync(state, join(first, "up"));

  const uids = await Promise.all([claimStateFolder(first), claimStateFolder(second)]);
  expect([...uids].sort((a, b) => a - b)).toEqual([FIRST_STATE_UID, FIRST_STATE_UID + 1]);
  writeFileSync(join(first, "deep/by-root"), "");
  expect(await claimStateFolder(first)).toBe(uids[0]);
  for (const path of [first, join(first, "deep"), join(first, "deep/by-root"), join(first, "deep/link")]) {
    expect([path, lstatSync(path).uid, lstatSync(path).gid]).toEqual([path, uids[0], uids[0]]);
  }
  // Links are not followed.
  expect(lstatSync(outside).uid).toBe(0);
  expect(lstatSync(state).uid).toBe(0);
  // A folder that belongs to another plugin's user gets its own user again.
  chownSync(second, uids[0]!, uids[0]!);
  expect(await claimStateFolder(second)).not.toBe(uids[0]);
});

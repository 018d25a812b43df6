/**
 * The gateway's own programs: the contents that were read first are executed, even if the file or its
 * private copy is changed.
 */
import fs, {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PrivateCopies } from "../../src/programs/private-copies.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

function createCopies(): { copies: PrivateCopies; parent: string } {
  const parent = join(createEmptyFolder(), "cache");
  const copies = new PrivateCopies(parent);
  onTestFinished(() => copies.close());
  return { copies, parent };
}

const overwrite = (path: string, text: string) => {
  chmodSync(path, 0o755);
  writeFileSync(path, text);
};

verifies(
  "integrity.exec",
  "detects and restores a private copy that was overwritten or replaced",
  async () => {
    const { copies } = createCopies();
    const path = copies.put("program", Buffer.from("ORIGINAL"), 0o555);
    expect(copies.verify()).toBe(true);
    for (const wait_ms of [0, 50]) {
      // First right after the file was written, then once its timestamps can be trusted.
      await pause(wait_ms);
      expect(copies.verify()).toBe(true);
      overwrite(path, "CHANGED!");
      expect([copies.verify([path]), copies.verify()]).toEqual([false, true]);
      writeFileSync(`${path}.next`, "CHANGED!");
      renameSync(`${path}.next`, path);
      expect([copies.verify(), copies.verify([path])]).toEqual([false, true]);
      expect(readFileSync(path, "utf8")).toBe("ORIGINAL");
    }
    expect((statSync(path).mode & 0o777).toString(8)).toBe("555");
  },
);

verifies(
  "integrity.exec",
  "detects a change within one tick of the file timestamp clock by comparing the contents",
  () => {
    const { copies } = createCopies();
    const path = copies.put("program", Buffer.from("ORIGINAL"));
    const { lstatSync } = fs;
    const unchanged_stats = lstatSync(path, { bigint: true });
    onTestFinished(() => {
      fs.lstatSync = lstatSync;
      syncBuiltinESMExports();
    });
    // Simulates a kernel whose clock has not ticked since.
    fs.lstatSync = ((file: string, options: object) =>
      file === path ? unchanged_stats : lstatSync(file, options)) as typeof lstatSync;
    syncBuiltinESMExports();
    overwrite(path, "CHANGED!");
    expect(copies.verify()).toBe(false);
  },
);

verifies("integrity.exec", "copies a program once and ignores later changes to the original", () => {
  const { copies, parent } = createCopies();
  const original = join(parent, "../host.mjs");
  writeFileSync(original, "ORIGINAL");
  const copy = copies.ensureCopy(original);
  writeFileSync(original, "CHANGED!");
  overwrite(copy, "CHANGED!");
  expect(copies.ensureCopy(original)).toBe(copy);
  expect([readFileSync(copy, "utf8"), copy.endsWith("host.mjs")]).toEqual(["ORIGINAL", true]);
});

test("ignores unknown paths", () => {
  const { copies } = createCopies();
  copies.put("program", Buffer.from("ORIGINAL"));
  expect(copies.verify(["/usr", "/nonexistent"])).toBe(true);
});

test("removes the folders of exited processes at the first use and its own folder on close", () => {
  const { copies, parent } = createCopies();
  // No process has this pid: it is above the kernel's maximum.
  mkdirSync(join(parent, "own-4194305-0123"), { recursive: true });
  mkdirSync(join(parent, `own-${process.ppid}-0123`));
  copies.put("program", Buffer.from("ORIGINAL"));
  expect(readdirSync(parent)).toHaveLength(2);
  copies.close();
  expect(readdirSync(parent)).toEqual([`own-${process.ppid}-0123`]);
  expect(existsSync(join(parent, "own-4194305-0123"))).toBe(false);
});

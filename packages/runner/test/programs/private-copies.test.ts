/** The gateway's own programs: what runs is what was read once, whoever writes to the file or to its private copy. */
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
import { OwnFiles } from "../../src/programs/private-copies.ts";
import { emptyFolder } from "../support/sandbox.ts";

function open(): { own: OwnFiles; parent: string } {
  const parent = join(emptyFolder(), "cache");
  const own = new OwnFiles(parent);
  onTestFinished(() => own.close());
  return { own, parent };
}

const overwrite = (path: string, text: string) => {
  chmodSync(path, 0o755);
  writeFileSync(path, text);
};

verifies(
  "integrity.exec",
  "a private copy that was written to or replaced is found and restored",
  async () => {
    const { own } = open();
    const path = own.put("program", Buffer.from("ORIGINAL"), 0o555);
    expect(own.confirm()).toBe(true);
    for (const wait_ms of [0, 50]) {
      // Right after it was written, and once its times can be trusted.
      await pause(wait_ms);
      expect(own.confirm()).toBe(true);
      overwrite(path, "CHANGED!");
      expect([own.confirm([path]), own.confirm()]).toEqual([false, true]);
      writeFileSync(`${path}.next`, "CHANGED!");
      renameSync(`${path}.next`, path);
      expect([own.confirm(), own.confirm([path])]).toEqual([false, true]);
      expect(readFileSync(path, "utf8")).toBe("ORIGINAL");
    }
    expect((statSync(path).mode & 0o777).toString(8)).toBe("555");
  },
);

verifies(
  "integrity.exec",
  "a change within the tick of the clock that stamps files is found by its bytes",
  () => {
    const { own } = open();
    const path = own.put("program", Buffer.from("ORIGINAL"));
    const { lstatSync } = fs;
    const before = lstatSync(path, { bigint: true });
    onTestFinished(() => {
      fs.lstatSync = lstatSync;
      syncBuiltinESMExports();
    });
    // As a kernel says whose clock has not ticked since.
    fs.lstatSync = ((file: string, options: object) =>
      file === path ? before : lstatSync(file, options)) as typeof lstatSync;
    syncBuiltinESMExports();
    overwrite(path, "CHANGED!");
    expect(own.confirm()).toBe(false);
  },
);

verifies(
  "integrity.exec",
  "a program is copied once; what is written to the original later does not count",
  () => {
    const { own, parent } = open();
    const original = join(parent, "../host.mjs");
    writeFileSync(original, "ORIGINAL");
    const copy = own.copyOf(original);
    writeFileSync(original, "CHANGED!");
    overwrite(copy, "CHANGED!");
    expect(own.copyOf(original)).toBe(copy);
    expect([readFileSync(copy, "utf8"), copy.endsWith("host.mjs")]).toEqual(["ORIGINAL", true]);
  },
);

test("paths of others do not count", () => {
  const { own } = open();
  own.put("program", Buffer.from("ORIGINAL"));
  expect(own.confirm(["/usr", "/nonexistent"])).toBe(true);
});

test("nothing is left at the end, and what a killed process left is removed", () => {
  const { own, parent } = open();
  // No process has this id: it is above the kernel's highest.
  mkdirSync(join(parent, "own-4194305-0123"), { recursive: true });
  mkdirSync(join(parent, `own-${process.ppid}-0123`));
  own.put("program", Buffer.from("ORIGINAL"));
  expect(readdirSync(parent)).toHaveLength(2);
  own.close();
  expect(readdirSync(parent)).toEqual([`own-${process.ppid}-0123`]);
  expect(existsSync(join(parent, "own-4194305-0123"))).toBe(false);
});

/** A disk that fails on request, for one process: the file system is real, but functions that write return errors. */
import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { onTestFinished } from "vitest";

const SOURCE = resolve("test/support/store/failing-disk.c");
const BYTES = 4096;
/** The fields of `struct control`. */
const OFFSETS = { error: 0, allowed: 4, seen: 8, folder: 12 };

export type DiskErrno = "ENOSPC" | "EDQUOT" | "EIO" | "EROFS";

export interface FailingDisk {
  /** The environment of the process whose writes fail. */
  env: Record<string, string>;
  /** Makes all writes below `folder` fail after the first `allowed` ones. */
  fail(error: DiskErrno, folder: string, allowed?: number): void;
  repair(): void;
  /** The number of writes below the folder between `fail` and `repair`, failed and successful ones. */
  countWrites(): number;
}

/** Null if there is no C compiler. */
export function createFailingDisk(): FailingDisk | null {
  const dir = mkdtempSync(join(tmpdir(), "backplane-failing-disk-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const library = join(dir, "failing-disk.so");
  try {
    execFileSync("gcc", ["-shared", "-fPIC", "-O1", "-o", library, SOURCE], { stdio: "pipe" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  const file = openSync(join(dir, "control"), "w+");
  onTestFinished(() => closeSync(file));
  writeSync(file, Buffer.alloc(BYTES));
  const setNumber = (value: number, at: number) => writeSync(file, Int32Array.of(value), 0, 4, at);
  return {
    env: { LD_PRELOAD: library, FAILING_DISK: join(dir, "control") },
    fail(error, folder, allowed = 0) {
      setNumber(0, OFFSETS.error);
      setNumber(allowed, OFFSETS.allowed);
      setNumber(0, OFFSETS.seen);
      writeSync(file, Buffer.from(`${folder}\0`), 0, undefined, OFFSETS.folder);
      setNumber(constants.errno[error as "EIO"], OFFSETS.error);
    },
    repair: () => void setNumber(0, OFFSETS.error),
    countWrites() {
      const value = new Int32Array(1);
      readSync(file, value, 0, 4, OFFSETS.seen);
      return value[0]!;
    },
  };
}

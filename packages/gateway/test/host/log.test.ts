import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createRotatingLog } from "../../src/host/log.ts";

function createTestLog(files: number) {
  const folder = mkdtempSync(join(tmpdir(), "bp-log-"));
  const path = join(folder, "gateway.log");
  const fd = openSync(path, "a", 0o600);
  onTestFinished(() => {
    closeSync(fd);
    rmSync(folder, { recursive: true, force: true });
  });
  const stream = createRotatingLog(fd, { path, max_bytes: 100, files });
  return { folder, path, write: (line: string) => stream.write(`${line}\n`) };
}

test("rotates the log by size and keeps the lines of the newest files", () => {
  const { folder, path, write } = createTestLog(2);
  for (let line = 0; line < 16; line += 1) write(`${line}`.padStart(29, "."));
  expect(readdirSync(folder).sort()).toEqual(["gateway.log", "gateway.log.1", "gateway.log.2"]);
  const text = ["gateway.log.2", "gateway.log.1", "gateway.log"]
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("");
  const lines = text
    .trim()
    .split("\n")
    .map((line) => Number(line.replaceAll(".", "")));
  // The first three files of three lines each were removed.
  expect(lines).toEqual(Array.from({ length: lines.length }, (_, index) => 16 - lines.length + index));
  expect(lines.length).toBeGreaterThanOrEqual(7);
  expect(statSync(path).size).toBeLessThanOrEqual(100);
  expect(statSync(`${path}.1`).mode & 0o777).toBe(0o600);
});

test("keeps only the current log if files is 0, and writes a line that is larger than the limit", () => {
  const { folder, path, write } = createTestLog(0);
  write("first");
  write("x".repeat(500));
  write("last");
  expect(readdirSync(folder)).toEqual(["gateway.log"]);
  expect(readFileSync(path, "utf8")).toBe("last\n");
});

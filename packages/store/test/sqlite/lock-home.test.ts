import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { lockHome } from "@backplane/store";
import { afterEach, beforeEach, expect, test } from "vitest";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "bp-lock-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

test("locks a home until it is released", () => {
  const lock = lockHome(dir);
  expect(() => lockHome(dir)).toThrow(expect.objectContaining({ code: "home.locked" }));
  lock.release();
  lock.release();
  lockHome(dir).release();
});

test("keeps a home locked until the process that locked it exits, even by kill -9", async () => {
  const holder = spawn(
    process.execPath,
    [
      "--conditions=backplane-source",
      fileURLToPath(new URL("../fixtures/lock-holder.ts", import.meta.url)),
      dir,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await once(holder.stdout, "data");
  expect(() => lockHome(dir)).toThrow(expect.objectContaining({ code: "home.locked" }));
  holder.kill("SIGKILL");
  await once(holder, "exit");
  lockHome(dir).release();
});

test("reports a home in which the lock file cannot be written", () => {
  expect(() => lockHome(join(dir, "none"))).toThrow(expect.objectContaining({ code: "store.unavailable" }));
});

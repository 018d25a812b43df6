import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findOrBuildInit } from "../../src/sandbox/init-program.ts";
import { emptyFolder } from "../support/sandbox.ts";

test("compiles once, caches by the digest of the source, and recompiles a changed binary", async () => {
  const cache = join(emptyFolder(), "cache");
  const first = await findOrBuildInit(cache);
  const compiledAt = statSync(first.file).mtimeMs;
  expect(readdirSync(cache).sort()).toHaveLength(2);
  expect(execFileSync("/usr/bin/sha256sum", [first.file], { encoding: "utf8" })).toContain(first.sha256);
  expect(statSync(cache).mode & 0o777).toBe(0o700);

  expect(await findOrBuildInit(cache, [])).toEqual(first);
  expect(statSync(first.file).mtimeMs).toBe(compiledAt);

  chmodSync(first.file, 0o755);
  writeFileSync(first.file, "#!/bin/sh\necho not ours\n");
  expect((await findOrBuildInit(cache)).sha256).toBe(first.sha256);
  expect(readFileSync(first.file).subarray(1, 4).toString()).toBe("ELF");
});

test("names the fix without a compiler", async () => {
  const refused = findOrBuildInit(emptyFolder(), ["/nonexistent/cc"]);
  await expect(refused).rejects.toMatchObject({
    code: "sandbox.unavailable",
    message: expect.stringContaining("no C compiler was found"),
    fix: expect.stringContaining("apt-get install -y gcc"),
  });
});

test("quotes the error of a failing compiler and leaves no partial files", async () => {
  const cache = emptyFolder();
  await expect(findOrBuildInit(cache, ["/bin/false"])).rejects.toMatchObject({
    code: "sandbox.unavailable",
    message: expect.stringContaining("cannot be compiled"),
  });
  expect(readdirSync(cache)).toEqual([]);
});

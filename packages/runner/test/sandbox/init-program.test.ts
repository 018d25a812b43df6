import { execFileSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { COMPILERS, findOrBuildInit } from "../../src/sandbox/init-program.ts";
import { emptyFolder } from "../support/sandbox.ts";

const NO_PREBUILT = "/nonexistent";

test("compiles once, caches by the digest of the sources, and recompiles a modified program", async () => {
  const cache = join(emptyFolder(), "cache");
  const first = await findOrBuildInit(cache, COMPILERS, NO_PREBUILT);
  const compiledAt = statSync(first.file).mtimeMs;
  expect(readdirSync(cache).sort()).toHaveLength(2);
  expect(execFileSync("/usr/bin/sha256sum", [first.file], { encoding: "utf8" })).toContain(first.sha256);
  expect(statSync(cache).mode & 0o777).toBe(0o700);

  expect(await findOrBuildInit(cache, [], NO_PREBUILT)).toEqual(first);
  expect(statSync(first.file).mtimeMs).toBe(compiledAt);

  chmodSync(first.file, 0o755);
  writeFileSync(first.file, "#!/bin/sh\necho not ours\n");
  expect((await findOrBuildInit(cache, COMPILERS, NO_PREBUILT)).sha256).toBe(first.sha256);
  expect(readFileSync(first.file).subarray(1, 4).toString()).toBe("ELF");
});

test("explains how to install a compiler if none is found", async () => {
  const program = findOrBuildInit(emptyFolder(), ["/nonexistent/cc"], NO_PREBUILT);
  await expect(program).rejects.toMatchObject({
    code: "sandbox.unavailable",
    message: expect.stringContaining("no C compiler was found"),
    fix: expect.stringContaining("apt-get install -y gcc"),
  });
});

test("reports a failing compiler and leaves no partial files", async () => {
  const cache = emptyFolder();
  await expect(findOrBuildInit(cache, ["/bin/false"], NO_PREBUILT)).rejects.toMatchObject({
    code: "sandbox.unavailable",
    message: expect.stringContaining("cannot be compiled"),
  });
  expect(readdirSync(cache)).toEqual([]);
});

test("uses the prebuilt program unless it was modified", async () => {
  const prebuilt = join(emptyFolder(), "prebuilt");
  const cache = join(emptyFolder(), "cache");
  const built = await findOrBuildInit(prebuilt, COMPILERS, NO_PREBUILT);
  expect(await findOrBuildInit(cache, [], prebuilt)).toEqual(built);

  chmodSync(built.file, 0o755);
  writeFileSync(built.file, "#!/bin/sh\necho not ours\n");
  const compiled = await findOrBuildInit(cache, COMPILERS, prebuilt);
  expect(compiled.file.startsWith(cache)).toBe(true);
  expect(compiled.sha256).toBe(built.sha256);
});

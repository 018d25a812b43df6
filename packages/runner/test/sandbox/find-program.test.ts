import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findProgram } from "../../src/sandbox/find-program.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

const entry = { found: true as const, args: ["x"], in_package: false };

test("reports an interpreter that links into a private home folder, and its target", async () => {
  const home = createEmptyFolder();
  const real = join(home, "python3.12");
  writeFileSync(real, "", { mode: 0o755 });
  const file = join(home, "python3");
  symlinkSync(real, file);
  await expect(findProgram({ ...entry, file, label: "python3" }, home)).rejects.toMatchObject({
    code: "launch_failed",
    message: `The program "python3" at ${file} is a link to ~/python3.12, which is not visible in the sandbox. Install it system-wide, below /usr.`,
  });
});

test("finds the gateway's own node, system programs and files of the package", async () => {
  const kind = async (change: object) =>
    (await findProgram({ ...entry, file: "/usr/bin/env", label: "env", ...change }, "/root")).kind;
  expect(await kind({})).toBe("system");
  expect(await kind({ label: "node", file: process.execPath })).toBe("node");
  expect(await kind({ in_package: true, file: "/store/x/run" })).toBe("package");
});

import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findProgram } from "../../src/sandbox/find-program.ts";
import { emptyFolder } from "../support/sandbox.ts";

const entry = { found: true as const, args: ["x"], in_package: false };

test("an interpreter that leads into a closed home is named, with where it leads", async () => {
  const home = emptyFolder();
  const real = join(home, "python3.12");
  writeFileSync(real, "", { mode: 0o755 });
  const file = join(home, "python3");
  symlinkSync(real, file);
  await expect(findProgram({ ...entry, file, label: "python3" }, home)).rejects.toMatchObject({
    code: "launch_failed",
    message: `The program "python3" at ${file} leads to ~/python3.12, which is closed to plugins in the sandbox. Install it system-wide, below /usr.`,
  });
});

test("node is the gateway's own, others are the system's or the package's", async () => {
  const kind = async (change: object) =>
    (await findProgram({ ...entry, file: "/usr/bin/env", label: "env", ...change }, "/root")).kind;
  expect(await kind({})).toBe("system");
  expect(await kind({ label: "node", file: process.execPath })).toBe("node");
  expect(await kind({ in_package: true, file: "/store/x/run" })).toBe("package");
});

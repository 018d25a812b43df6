import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Manifest, PREBUILT } from "../../../../scripts/sandbox-init/manifest.ts";
import { sourceDigests } from "../../../../scripts/sandbox-init/toolchain.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { readInit, SHIPPED } from "../../src/sandbox/init-program.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

verifies(
  "sandbox.embedded",
  "ships a static program for each architecture, built from these sources",
  async () => {
    expect(join(SHIPPED)).toBe(`${PREBUILT}/`);
    const manifest = JSON.parse(readFileSync(join(SHIPPED, "manifest.json"), "utf8")) as Manifest;
    expect(manifest.sources, "after a change: npm run build:sandbox-init").toEqual(sourceDigests());
    const EM = { x64: 62, arm64: 183 };
    for (const arch of ["x64", "arm64"] as const) {
      const { bytes, sha256 } = await readInit(SHIPPED, arch);
      expect(sha256).toBe(manifest.programs[`linux-${arch}`]?.sha256);
      expect([bytes.toString("latin1", 1, 4), bytes.readUInt16LE(18)]).toEqual(["ELF", EM[arch]]);
      // A dynamic program would contain the path of its loader.
      expect(bytes.includes("/lib/ld-")).toBe(false);
      expect(bytes.length).toBeLessThan(200_000);
    }
  },
);

test("sandbox-init without arguments explains that it is started by Backplane", () => {
  const { status, stderr } = spawnSync(join(SHIPPED, `linux-${process.arch}`), [], { encoding: "utf8" });
  expect([status, stderr]).toEqual([125, "sandbox-init is started by Backplane\n"]);
});

test("refuses a program that was changed, is missing, or is not for this architecture", async () => {
  const folder = join(createEmptyFolder(), "prebuilt");
  cpSync(SHIPPED, folder, { recursive: true });
  expect((await readInit(folder)).bytes.equals((await readInit()).bytes)).toBe(true);
  const file = join(folder, `linux-${process.arch}`);
  writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.of(0)]));
  for (const [where, arch] of [
    [folder, process.arch],
    ["/nonexistent", process.arch],
    [folder, "mips"],
  ] as const) {
    await expect(readInit(where, arch)).rejects.toMatchObject({
      code: "sandbox.unavailable",
      message: expect.stringMatching(/^sandbox-init cannot be used: /),
      fix: expect.stringContaining("Install Backplane again"),
    });
  }
});

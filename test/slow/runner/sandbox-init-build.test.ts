/** The shipped sandbox-init can be rebuilt from its sources byte for byte, and the programs start. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import {
  findDifferencesFromShipped,
  type Manifest,
  PREBUILT,
} from "../../../scripts/sandbox-init/manifest.ts";
import { verifies } from "../../support/verifies.ts";

verifies("sandbox.embedded", "produces the same bytes when the programs are built again", () => {
  expect(findDifferencesFromShipped()).toEqual([]);
});

verifies(
  "sandbox.embedded",
  "starts the program for this machine and the one for arm64, in an emulator if necessary",
  () => {
    const emulator = process.arch === "arm64" ? [] : ["qemu-aarch64"];
    for (const line of [
      [join(PREBUILT, `linux-${process.arch}`)],
      [...emulator, join(PREBUILT, "linux-arm64")],
    ]) {
      const { status, stderr } = spawnSync(line[0]!, line.slice(1), { encoding: "utf8" });
      expect([status, stderr]).toEqual([125, "sandbox-init is started by Backplane\n"]);
    }
  },
);

test("reports a changed program or manifest, and how to install the expected toolchain", () => {
  const folder = mkdtempSync(join(tmpdir(), "backplane-prebuilt-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync(PREBUILT, folder, { recursive: true });
  writeFileSync(join(folder, "linux-arm64"), "changed");
  expect(findDifferencesFromShipped(folder)).toEqual([
    "linux-arm64 has different bytes when it is built again",
  ]);
  const file = join(folder, "manifest.json");
  const manifest = JSON.parse(readFileSync(file, "utf8")) as Manifest;
  manifest.programs["linux-x64"]!.toolchain!.compiler = "gcc 99";
  manifest.sources["stage.c"] = "";
  writeFileSync(file, JSON.stringify(manifest));
  expect(findDifferencesFromShipped(folder).join("\n")).toMatch(
    /^stage\.c differs from the source that the programs were built from\nthe compiler for x64 is .* and the programs were built with gcc 99\. Install it on Debian 12.*\nAfter a change to the sources, run `npm run build:sandbox-init`\.$/,
  );
});

/**
 * The stage by itself: what it shows around bwrap, and that a plugin's files cannot redirect what it does as root.
 */
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { findOrBuildInit } from "../../src/sandbox/init-program.ts";
import { CACHE, emptyFolder, packageFolder } from "../support/sandbox.ts";

const UID = "59990";
const root = process.getuid!() === 0;

async function stage(args: readonly string[]): Promise<{ code: number | null; out: string; err: string }> {
  const { file } = await findOrBuildInit(CACHE);
  const child = spawn(file, ["stage", UID, UID], { env: {}, stdio: ["ignore", "pipe", "pipe", "pipe"] });
  const output = { out: "", err: "" };
  child.stdout!.on("data", (data) => (output.out += String(data)));
  child.stderr!.on("data", (data) => (output.err += String(data)));
  const body = Buffer.from(`${args.join("\0")}\0`);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(body.length);
  const control = child.stdio[3] as unknown as Duplex;
  control.on("error", () => {});
  control.write(Buffer.concat([length, body]));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, ...output };
}

const SYSTEM = ["system", "/usr", "/usr", "link", "usr/bin", "/bin", "link", "usr/lib", "/lib"];
const LIBRARIES = ["link", "usr/lib64", "/lib64"];

test.runIf(root)("leaves the plugin's root and /proc around bwrap and nothing else of the host", async () => {
  const script =
    "echo /*; echo /root/*; cut -d' ' -f5,6 /proc/self/mountinfo; grep -E '^(Uid|CapEff)' /proc/self/status";
  const ran = await stage([...SYSTEM, ...LIBRARIES, "--", "/bin/sh", "-c", script]);
  expect(ran).toMatchObject({ code: 0, err: "" });
  const [around, inside, ...rest] = ran.out.trim().split("\n");
  expect(around).toBe("/bin /bwrap /etc /lib /lib32 /lib64 /libx32 /proc /root /tmp /usr");
  expect(inside).toBe("/root/bin /root/dev /root/lib /root/lib64 /root/proc /root/usr");
  const mounts = new Map(
    rest.filter((line) => line.startsWith("/")).map((line) => line.split(" ") as [string, string]),
  );
  const known = ["/", "/bwrap", "/proc", "/root/dev", "/root/usr"];
  expect([...mounts.keys()].filter((path) => !path.startsWith("/root/usr/")).sort()).toEqual(known);
  for (const [path, flags] of mounts) {
    if (path !== "/proc")
      expect([path, flags.split(",")]).toEqual([path, expect.arrayContaining(["ro", "nosuid"])]);
    if (path !== "/proc" && path !== "/root/dev") expect(flags).toContain("nodev");
  }
  expect(rest.slice(-2)).toEqual([`Uid:\t${UID}\t${UID}\t${UID}\t${UID}`, "CapEff:\t0000000000000000"]);
});

test.runIf(root).each([
  ["a link instead of a folder", ["hide", "/plugin/out"]],
  ["a link in the path", ["show", "/usr/bin", "/plugin/out/bin"]],
  ["a new file in a folder on the host", ["show", "/etc/hostname", "/plugin/new"]],
  ["a new folder in a folder on the host", ["show", "/usr/bin", "/plugin/new/bin"]],
  ["a new link in a folder on the host", ["link", "/", "/plugin/new"]],
  ["a path with ..", ["show", "/usr/bin", "/plugin/../../bin"]],
  ["no path", ["hide", "/"]],
])("refuses %s and creates nothing", async (_, args) => {
  const folder = await packageFolder();
  const outside = emptyFolder();
  mkdirSync(join(folder, "inside"));
  symlinkSync(outside, join(folder, "out"));
  const shared = ["share", folder, "/plugin", ...args];
  const ran = await stage([...SYSTEM, ...LIBRARIES, ...shared, "--", "/bin/true"]);
  expect(ran).toMatchObject({ code: 125, err: expect.stringContaining(`sandbox-init: ${args.at(-1)}: `) });
  expect(readdirSync(folder).sort()).toEqual(["inside", "out"]);
  expect(readdirSync(outside)).toEqual([]);
});

test.runIf(root)("rejects unknown commands", async () => {
  for (const args of [["bind", "/usr", "/usr", "--", "/bin/true"], ["hide"], ["show", "/usr"], ["--"]]) {
    expect((await stage(args)).code).toBe(125);
  }
});

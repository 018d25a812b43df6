/** The stage alone: what it shows, and that a plugin's files cannot redirect what it does, possibly as root. */
import { once } from "node:events";
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { expect, test } from "vitest";
import { ControlChannel } from "../../src/sandbox/control-channel.ts";
import { createEmptyFolder, createPackageFolder } from "../support/sandbox.ts";
import { makePlan, STAGE_UID, SYSTEM, startStage } from "../support/stage.ts";

const root = process.getuid!() === 0;

async function runStage(
  args: readonly string[],
  script = "true",
): Promise<{ code: number | null; out: string; err: string }> {
  const { child, control } = startStage();
  const streams = child.stdio as unknown as Readable[];
  const output = { out: "", err: "" };
  streams[6]!.on("data", (data) => (output.out += String(data)));
  for (const fd of [2, 7]) streams[fd]!.on("data", (data) => (output.err += String(data)));
  const channel = new ControlChannel(control);
  channel.sendStageCommands(args);
  channel.sendPlan(makePlan(["/bin/sh", "-c", script]));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...output };
}

test("shows the requested files, /proc and /dev, and nothing else of the host", async () => {
  const script = "echo /*; cut -d' ' -f5,6 /proc/self/mountinfo; cat /proc/self/uid_map";
  const ran = await runStage(SYSTEM, script);
  expect(ran).toMatchObject({ code: 0, err: "" });
  const [inside, ...rest] = ran.out.trim().split("\n");
  expect(inside).toBe("/bin /dev /lib /lib64 /proc /usr");
  const mounts = new Map(
    rest.filter((line) => line.startsWith("/")).map((line) => line.split(" ") as [string, string]),
  );
  // Without root, devices cannot be created, so each is a separate mount.
  const separate_mounts = [...mounts.keys()].filter((path) => !/^\/(?:usr|dev)\//.test(path));
  expect(separate_mounts.sort()).toEqual(["/", "/dev", "/proc", "/usr"]);
  for (const [path, flags] of mounts) {
    expect([path, flags.split(",")]).toEqual([path, expect.arrayContaining(["ro", "nosuid"])]);
    if (!path.startsWith("/dev")) expect([path, flags]).toEqual([path, expect.stringContaining("nodev")]);
  }
  const outside = root ? STAGE_UID : 1000;
  expect(rest.at(-1)?.trim().split(/\s+/)).toEqual(["1000", String(outside), "1"]);
});

test.each([
  ["a link instead of a folder", ["hide", "/plugin/out"]],
  ["a link in the path", ["show", "/usr/bin", "/plugin/out/bin"]],
  ["a new file in a folder on the host", ["show", "/etc/hostname", "/plugin/new"]],
  ["a new folder in a folder on the host", ["show", "/usr/bin", "/plugin/new/bin"]],
  ["a new link in a folder on the host", ["link", "/", "/plugin/new"]],
  ["a path with ..", ["show", "/usr/bin", "/plugin/../../bin"]],
  ["the root as a path", ["hide", "/"]],
])("refuses %s and creates nothing", async (_, args) => {
  const folder = await createPackageFolder();
  const outside = createEmptyFolder();
  mkdirSync(join(folder, "inside"));
  symlinkSync(outside, join(folder, "out"));
  const shared = ["share", folder, "/plugin", ...args];
  const ran = await runStage([...SYSTEM, ...shared]);
  expect(ran).toMatchObject({ code: 125, err: expect.stringContaining(`sandbox-init: ${args.at(-1)}: `) });
  expect(readdirSync(folder).sort()).toEqual(["inside", "out"]);
  expect(readdirSync(outside)).toEqual([]);
});

test("rejects unknown commands", async () => {
  for (const args of [["bind", "/usr", "/usr"], ["hide"], ["show", "/usr"], ["--"]]) {
    expect((await runStage(args)).code).toBe(125);
  }
});

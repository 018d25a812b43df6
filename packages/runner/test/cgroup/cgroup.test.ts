import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openCgroups, parseCgroupMounts, parseOwnCgroups } from "../../src/cgroup/open-cgroups.ts";
import { openCgroupsV2 } from "../../src/cgroup/v2.ts";
import { createEmptyFolder } from "../support/sandbox.ts";

const LIMITS = { memory_bytes: 512 * 1024 * 1024, max_pids: 130, cpus: 2 };

test("reads the mounts of both cgroup versions and the cgroups of a process", () => {
  const text = [
    "30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755",
    "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory",
    "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
    "33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate",
  ].join("\n");
  expect(parseCgroupMounts(text)).toEqual([
    { version: 1, root: "/docker/abc", mount: "/sys/fs/cgroup/memory", controllers: ["rw", "memory"] },
    { version: 1, root: "/", mount: "/sys/fs/cgroup/cpu,cpuacct", controllers: ["rw", "cpu", "cpuacct"] },
    { version: 2, root: "/", mount: "/sys/fs/cgroup/unified", controllers: [] },
  ]);
  const own_cgroups = parseOwnCgroups("4:memory:/a/b\n1:cpu,cpuacct:/\n0::/system.slice/x:y.service\n");
  expect([own_cgroups.get("memory"), own_cgroups.get("cpuacct"), own_cgroups.get("")]).toEqual([
    "/a/b",
    "/",
    "/system.slice/x:y.service",
  ]);
});

/** Creates a folder with the files that the kernel would create for a cgroup. */
function createCgroupFolder(folder: string, offered: string, delegated: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "cgroup.controllers"), offered);
  writeFileSync(join(folder, "cgroup.subtree_control"), delegated);
}

test("does not open version 2 cgroups without a parent that delegates memory and pids", async () => {
  const mount = createEmptyFolder();
  createCgroupFolder(mount, "cpu io", "cpu");
  createCgroupFolder(join(mount, "a"), "memory", "");
  expect(await openCgroupsV2(mount, join(mount, "a"), "ours")).toBeNull();
  expect(existsSync(join(mount, "a/ours"))).toBe(false);
});

test("sets version 2 limits below the nearest delegating parent and reads counters from the events of the slot", async () => {
  const mount = createEmptyFolder();
  createCgroupFolder(mount, "cpu memory pids", "cpu memory pids");
  createCgroupFolder(join(mount, "system.slice"), "cpu memory pids", "cpu memory pids");
  // The gateway's own cgroup has processes, so the kernel does not let it delegate controllers.
  createCgroupFolder(join(mount, "system.slice/gateway"), "", "");
  const files = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"];
  const cgroups = await openCgroupsV2(mount, join(mount, "system.slice/gateway"), "ours", async (folder) => {
    createCgroupFolder(folder, "cpu memory pids", "cpu memory pids");
    for (const name of files) writeFileSync(join(folder, name), "");
    writeFileSync(join(folder, "memory.events"), "low 0\noom 2\noom_kill 1\n");
    writeFileSync(join(folder, "pids.events"), "max 7\n");
  });
  expect(cgroups).toMatchObject({ version: "v2", controllers: ["cpu", "memory", "pids"] });
  expect(cgroups!.folders).toEqual([join(mount, "system.slice/ours")]);
  const slot = await cgroups!.make("slot-0", { ...LIMITS, max_pids: 12, cpus: 0.5 });
  const folder = join(mount, "system.slice/ours/slot-0");
  expect(slot.join_files).toEqual([join(folder, "cgroup.procs")]);
  expect(files.map((name) => readFileSync(join(folder, name), "utf8"))).toEqual([
    String(LIMITS.memory_bytes),
    "0",
    "1",
    "12",
    "50000 100000",
  ]);
  expect(slot.counters()).toEqual({ oom: 1, pids: 7 });
});

test("sets the memory limit and reads counters with this machine's kernel", async () => {
  const { cgroups, summary } = await openCgroups(`backplane-test-${process.pid}`);
  // Without root or controllers the reason is reported, and resource limits apply instead.
  if (cgroups === null) {
    expect(summary).toMatch(/root|cgroup|controller/);
    return;
  }
  expect(cgroups.controllers).toEqual(expect.arrayContaining(["memory", "pids"]));
  const slot = await cgroups.make("slot-0", LIMITS);
  expect(slot.counters()).toEqual({ oom: 0, pids: 0 });
  const memory = slot.join_files
    .map((file) => join(file, ".."))
    .map((folder) =>
      ["memory.limit_in_bytes", "memory.max"]
        .map((name) => join(folder, name))
        .find((file) => existsSync(file)),
    );
  const file = memory.find((path) => path !== undefined)!;
  expect(Number(readFileSync(file, "utf8"))).toBe(LIMITS.memory_bytes);
  await slot.remove();
  await cgroups.close();
  for (const folder of cgroups.folders) expect(existsSync(folder)).toBe(false);
});

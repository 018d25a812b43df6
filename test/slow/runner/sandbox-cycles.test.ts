/** A thousand sandboxes, ended in different ways, release their resources. */
import { readdirSync, readFileSync } from "node:fs";
import { expect } from "vitest";
import type { Sandbox } from "../../../packages/runner/src/sandbox/open-sandbox.ts";
import {
  finish,
  openTestSandbox,
  createPackageFolder,
  request,
} from "../../../packages/runner/test/support/sandbox.ts";
import { eventually } from "../../support/gateway/processes.ts";
import { verifies } from "../../support/verifies.ts";

const CYCLES = 1_000;
const CONCURRENCY = 8;
const STUBBORN = "trap '' TERM HUP; setsid sleep 600 & echo up; read x; sleep 601";

const countOpenFiles = () => readdirSync("/proc/self/fd").length;
const countMounts = () => readFileSync("/proc/self/mountinfo", "utf8").split("\n").length;
const countTimers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

/**
 * Contains only processes of this test, because other tests use sandboxes at the same time: the outer process and PID 1
 * of its namespace. When PID 1 ends, the kernel ends all others. The start time is included, because pids are reused.
 */
const started_processes = new Set<string>();
const identify = (pid: string | number): string => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return `${pid} ${stat.slice(stat.lastIndexOf(")")).split(" ")[20]}`;
  } catch {
    return "";
  }
};
const recordProcesses = (outer: number) => {
  const inner = readFileSync(`/proc/${outer}/task/${outer}/children`, "utf8").split(" ").filter(Boolean);
  for (const pid of [outer, ...inner]) started_processes.add(identify(pid));
};
const confinedProcesses = () =>
  [...started_processes].filter((line) => line === identify(line.split(" ")[0]!));

verifies(
  "sandbox.kill",
  "1,000 start and kill cycles leave no process, descriptor, mount or timer",
  async () => {
    const folder = await createPackageFolder();
    const program = { kind: "system" as const, file: "/bin/sh", args: ["-c", STUBBORN] };
    const cycle = async (sandbox: Sandbox, number: number) => {
      const confined = await sandbox.launch(request(folder, { program, grant: { filesystem: "scratch" } }));
      recordProcesses(confined.pid);
      if (number % 4 !== 0) await new Promise((resolve) => confined.child.stdout.once("data", resolve));
      if (number % 3 === 0) process.kill(confined.pid, "SIGKILL");
      else if (number % 3 === 1) confined.kill();
      else confined.kill("timeout");
      const { exitCause } = await finish(confined);
      expect(exitCause.code === 0).toBe(false);
    };
    // A sandbox keeps a few stages prepared, depending on recent demand; resources are counted after it is closed.
    const cycles = async (count: number) => {
      const sandbox = await openTestSandbox();
      for (let number = 0; number < count; number += CONCURRENCY) {
        await Promise.all(Array.from({ length: CONCURRENCY }, (_, at) => cycle(sandbox, number + at)));
      }
      await sandbox.close();
    };
    await cycles(CONCURRENCY);
    const baseline = { files: countOpenFiles(), mounts: countMounts(), timers: countTimers() };
    await cycles(CYCLES);
    started_processes.delete("");
    expect(started_processes.size).toBeGreaterThan(CYCLES * 1.5);
    await eventually(() => confinedProcesses().length === 0, 5_000, "every process is gone");
    const counters = { files: countOpenFiles, mounts: countMounts, timers: countTimers };
    for (const counted of ["files", "mounts", "timers"] as const)
      await eventually(
        () => counters[counted]() <= baseline[counted],
        5_000,
        `${counted} are back at ${baseline[counted]}`,
      );
  },
);

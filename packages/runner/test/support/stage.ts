/** sandbox-init alone, without the runner: its outer process with all descriptors except the IPC channel. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { onTestFinished } from "vitest";
import { PrivateCopies } from "../../src/programs/private-copies.ts";
import { SHIPPED } from "../../src/sandbox/init-program.ts";
import type { SandboxPlan } from "../../src/sandbox/plan.ts";
import { filteredArch, systemCallFilter } from "../../src/sandbox/seccomp/filter.ts";
import { descendantsOf } from "./process-tree.ts";
import { CACHE } from "./sandbox.ts";

/** A user id that no slot uses. */
const OTHER_UID = 59_990;
export const STAGE_UID = process.getuid!() === 0 ? OTHER_UID : process.getuid!();
const STAGE_GID = process.getuid!() === 0 ? OTHER_UID : process.getgid!();

/** Commands for the system's programs and libraries. */
export const SYSTEM = [
  "system",
  "/usr",
  "/usr",
  "link",
  "usr/bin",
  "/bin",
  "link",
  "usr/lib",
  "/lib",
  "link",
  "usr/lib64",
  "/lib64",
];

export function startStage(): { child: ChildProcess; control: Duplex } {
  const copies = new PrivateCopies(CACHE);
  onTestFinished(() => copies.close());
  const filter = copies.openUnnamed(systemCallFilter(filteredArch(process.arch)!));
  const args = ["stage", String(STAGE_UID), String(STAGE_GID)];
  const child = spawn(join(SHIPPED, `linux-${process.arch}`), args, {
    env: {},
    cwd: "/",
    stdio: ["ignore", "ignore", "pipe", "pipe", filter, "pipe", "pipe", "pipe"],
  });
  for (const stream of child.stdio) stream?.on("error", () => {});
  onTestFinished(() => {
    for (const pid of descendantsOf(child.pid!)) killIfRunning(pid);
    child.kill("SIGKILL");
  });
  return { child, control: child.stdio[3] as unknown as Duplex };
}

function killIfRunning(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    // The process has exited since it was listed.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** A plan without files; the commands of the stage are sent separately. */
export function makePlan(command: string[], change: Partial<SandboxPlan> = {}): SandboxPlan {
  return {
    uid: null,
    mounts: [],
    links: [],
    hidden: [],
    scratch: null,
    kept: [],
    listeners: [],
    env: {},
    cwd: "/",
    command,
    limits: [],
    ...change,
  };
}

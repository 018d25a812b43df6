/**
 * Resource exhaustion through the runner: only the plugin dies, other calls succeed, and the record names the cause.
 */
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { createConfinedTestRunner } from "../../packages/runner/test/support/confined-runner.ts";
import { confinedProcesses } from "../../packages/runner/test/support/process-tree.ts";
import { vai } from "../../packages/runner/test/support/request.ts";
import { until } from "../../packages/runner/test/support/runner.ts";
import { createPackageFolder } from "../../packages/runner/test/support/sandbox.ts";
import { SkippingClock } from "../../packages/runner/test/support/skipping-clock.ts";

const BOMBS = fileURLToPath(new URL("./programs/bombs.py", import.meta.url));
const MIB = 1024 * 1024;
/** Longer than any of the calls takes, even on a busy machine. */
const LIMIT_MS = 600_000;

async function createRunner(clock: SkippingClock) {
  const folder = await createPackageFolder();
  copyFileSync(BOMBS, join(folder, "bombs.py"));
  return createConfinedTestRunner({
    folder,
    clock,
    timeouts: { cancel_grace_ms: 100 },
    sandbox: {
      limits: {
        memory_bytes: 96 * MIB,
        processes: 32,
        cpu_seconds: 1,
        scratch_bytes: 4 * MIB,
        scratch_files: 64,
      },
    },
  });
}

/** The name that a process gave itself, or nothing if it has exited. */
function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "";
  }
}

const bomb = (kind: string) => ({
  protocol: "rterm.plugin.v1" as const,
  entrypoint: ["python3", "./bombs.py", kind],
  grant: { filesystem: "scratch" as const },
  class: "isolated" as const,
});

/** Only root can create cgroups. Without them (RLIMIT_CAUSES) the plugin's allocations and forks fail. */
const CGROUP_CAUSES = [
  ["memory", "crashed", "oom", "memory limit of 96 MiB"],
  ["forks", "crashed", "pids", "32 processes"],
  ["forks-and-hangs", "timeout", "pids", "32 processes"],
];
/** The record names no limit as the cause. */
const NONE = "none";
const RLIMIT_CAUSES = [
  ["memory", "crashed", NONE, "exited"],
  ["forks", "crashed", NONE, "exited"],
  ["forks-and-hangs", "timeout", NONE, ""],
];

test.each([
  ["disk", "crashed", "disk", "filled its scratch folder"],
  ["files", "crashed", "disk", "filled its scratch folder"],
  ["cpu", "crashed", "cpu", "1 s of CPU time"],
  ...(process.getuid!() === 0 ? CGROUP_CAUSES : RLIMIT_CAUSES),
] as [string, string, string, string][])(
  "the bomb %s ends its call as %s with the cause %s",
  async (kind, code, cause, text) => {
    const clock = new SkippingClock();
    const runner = await createRunner(clock);
    const neighbor = bomb("none");
    expect(await runner.run(neighbor)).toMatchObject({ status: "succeeded" });
    const running = runner.run({ ...bomb(kind), timeout_ms: LIMIT_MS });
    expect(await runner.run(neighbor)).toMatchObject({ status: "succeeded" });
    if (code === "timeout") {
      await until(() => confinedProcesses().some((pid) => nameOf(pid) === "fork-refused"));
      clock.skip(LIMIT_MS);
    }
    const outcome = await running;
    const error = cause === NONE ? { code } : { code, details: { cause } };
    expect(outcome).toMatchObject({ status: "failed", error, dispatched: true });
    expect(outcome.error!.message).toContain(text);
    expect(await runner.run(neighbor)).toMatchObject({ status: "succeeded" });
    expect(runner.runner.health().processes).toBe(0);
  },
);

test("fails a call that floods stdout without affecting other calls", async () => {
  const runner = createConfinedTestRunner();
  const flood = await runner.run(vai("floods-stdout", { class: "isolated" }));
  expect(flood).toMatchObject({ status: "failed", dispatched: true });
  expect(await runner.run(vai("echo", { class: "isolated" }))).toMatchObject({ status: "succeeded" });
});

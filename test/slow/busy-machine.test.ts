/** Healthy plugins on a machine whose processors are taken: they start, however long that takes by the clock. */
import { type ChildProcess, spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { expect, onTestFinished } from "vitest";
import { side, vai } from "../../packages/runner/test/support/request.ts";
import { createTestRunner } from "../../packages/runner/test/support/runner.ts";
import { verifies } from "../support/verifies.ts";

/** Above the processor time that a start takes, and far below what it takes by the clock here. */
const LIMIT_MS = 300;

/** They end by themselves, whatever becomes of this test. */
function takeProcessors(count: number, seconds: number): void {
  const hogs: ChildProcess[] = [];
  for (let n = 0; n < count; n++) {
    // Each in a session of its own, since some kernels share processors out by session.
    const args = [String(seconds), "sh", "-c", "while :; do :; done"];
    hogs.push(spawn("timeout", args, { detached: true, stdio: "ignore" }));
  }
  onTestFinished(() => {
    // Passed on to the shell that it runs.
    for (const hog of hogs) hog.kill("SIGTERM");
  });
}

verifies(
  "launch.slow",
  "starts plugins beside sixteen busy threads per processor, with limits far below the elapsed time",
  async () => {
    takeProcessors(availableParallelism() * 16, 110);
    const rig = createTestRunner({ timeouts: { handshake_ms: LIMIT_MS, hello_ms: LIMIT_MS } });
    const slowly = (entrypoint: string[]) => ["nice", "-n", "15", ...entrypoint];
    const begun = performance.now();
    for (const request of [side("echo"), vai("echo")]) {
      const change = { ...request, entrypoint: slowly(request.entrypoint!), timeout_ms: 100_000 };
      expect(await rig.run(change)).toMatchObject({ status: "succeeded" });
    }
    // By the clock at least one of them took longer than its limit; else nothing was shown.
    expect(performance.now() - begun).toBeGreaterThan(LIMIT_MS * 2);
    expect(rig.runner.health().held_back).toEqual([]);
  },
  120_000,
);

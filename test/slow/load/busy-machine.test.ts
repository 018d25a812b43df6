/** Healthy plugins start on an overloaded machine, however long that takes in wall time. */
import { type ChildProcess, spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { expect, onTestFinished } from "vitest";
import { side, vai } from "../../../packages/runner/test/support/request.ts";
import { createTestRunner } from "../../../packages/runner/test/support/runner.ts";
import { verifies } from "../../support/verifies.ts";

/** More than the CPU time of a start, and much less than its wall time in this test. */
const LIMIT_MS = 300;

/** Starts busy processes, which end after `seconds` even if this test is killed. */
function occupyProcessors(count: number, seconds: number): void {
  const hogs: ChildProcess[] = [];
  for (let n = 0; n < count; n++) {
    // Each in its own session, because some kernels distribute CPU time by session.
    const args = [String(seconds), "sh", "-c", "while :; do :; done"];
    hogs.push(spawn("timeout", args, { detached: true, stdio: "ignore" }));
  }
  onTestFinished(() => {
    // `timeout` forwards the signal to its shell.
    for (const hog of hogs) hog.kill("SIGTERM");
  });
}

verifies(
  "launch.slow",
  "starts plugins while sixteen processes per processor are busy, with limits far below the elapsed time",
  async () => {
    occupyProcessors(availableParallelism() * 16, 110);
    const testRunner = createTestRunner({ timeouts: { handshake_ms: LIMIT_MS, hello_ms: LIMIT_MS } });
    const withLowPriority = (entrypoint: string[]) => ["nice", "-n", "15", ...entrypoint];
    const started_at = performance.now();
    for (const request of [side("echo"), vai("echo")]) {
      const change = { ...request, entrypoint: withLowPriority(request.entrypoint!), timeout_ms: 100_000 };
      expect(await testRunner.run(change)).toMatchObject({ status: "succeeded" });
    }
    // At least one start took longer than its limit in wall time; otherwise the test proves nothing.
    expect(performance.now() - started_at).toBeGreaterThan(LIMIT_MS * 2);
    expect(testRunner.runner.health().held_back).toEqual([]);
  },
  120_000,
);

/** Time limits charge a process for its own time, so that plugins also start on a busy machine. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { readProcess } from "../../src/procfs/process-table.ts";
import { loadPerProcessor, sampleTree } from "../../src/time/sample-tree.ts";
import { TimeBudget, type TimeBudgetVerdict, type TimeSample } from "../../src/time/time-budget.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { type RequestChange, side, vai } from "../support/request.ts";
import { createTestRunner, until } from "../support/runner.ts";

const LIMIT = 2_000;
const INTERVAL = 250;

/** Adds the samples of `sampleAt` until there is a verdict. Returns the time and the verdict. */
function judge(
  sampleAt: (n: number) => Partial<TimeSample> & { passed?: number },
): [number, TimeBudgetVerdict | null] {
  let at = 0;
  let cpu_ms = 0;
  const budget = new TimeBudget(LIMIT, INTERVAL, { at, cpu_ms });
  for (let n = 1; n <= 10_000; n++) {
    const { passed = INTERVAL, ...sample } = sampleAt(n);
    at += passed;
    cpu_ms = sample.cpu_ms ?? cpu_ms;
    const verdict = budget.add({ cpu_ms, held_up: false, load: 1, ...sample, at });
    if (verdict !== null) return [at, verdict];
  }
  return [at, null];
}

describe("the budget of a process", () => {
  test("charges waiting in full on an idle machine", () => {
    expect(judge(() => ({}))).toEqual([LIMIT, "idle"]);
  });

  test("charges computing in full", () => {
    expect(judge((n) => ({ cpu_ms: n * INTERVAL, held_up: true }))).toEqual([LIMIT, "busy"]);
    expect(judge((n) => ({ cpu_ms: n * INTERVAL * 4 }))).toEqual([LIMIT, "busy"]);
  });

  test("charges a runnable process only for the processor time that it received", () => {
    const starved = judge((n) => ({ cpu_ms: (n * INTERVAL) / 20, held_up: true, load: 20 }));
    expect(starved).toEqual([LIMIT * 20, "busy"]);
  });

  test("ends a process that is never scheduled, after a limit that grows with the load", () => {
    expect(judge(() => ({ held_up: true }))).toEqual([LIMIT * 10, "starved"]);
    expect(judge(() => ({ held_up: true, load: 3 }))).toEqual([LIMIT * 30, "starved"]);
    expect(judge(() => ({ held_up: true, load: 100 }))).toEqual([120_000, "starved"]);
  });

  test("charges a wait for one interval per sample even if the sample is late", () => {
    expect(judge(() => ({ passed: 1_000 }))).toEqual([8_000, "idle"]);
  });

  test("charges a wait less on a busy machine", () => {
    expect(judge(() => ({ load: 2 }))).toEqual([LIMIT * 2, "idle"]);
    expect(judge(() => ({ load: 40 }))).toEqual([LIMIT * 4, "idle"]);
  });

  test("charges time by the load alone if processor time is unknown", () => {
    expect(judge(() => ({ cpu_ms: null as never }))).toEqual([LIMIT, "idle"]);
    expect(judge(() => ({ cpu_ms: null as never, load: 5 }))).toEqual([LIMIT * 5, "idle"]);
  });
});

test.runIf(process.platform === "linux")("samples a process tree from /proc", () => {
  const sample = sampleTree(process.pid, 7);
  expect(sample).toMatchObject({ at: 7, held_up: true });
  expect(sample.cpu_ms).toBeGreaterThan(0);
  expect(sampleTree(null, 7)).toMatchObject({ cpu_ms: null, held_up: false });
  expect(sampleTree(2 ** 22 + 1, 7).cpu_ms).toBeNull();
  expect(loadPerProcessor()).toBeGreaterThanOrEqual(1);
});

const slow = (how: string, change: RequestChange = {}): RequestChange => ({
  entrypoint: ["node", "./slow.mjs", how],
  timeout_ms: 120_000,
  ...change,
});

verifies(
  "launch.slow",
  "accepts the start of a process that was stopped for longer than the time limit",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-slow-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const PID_FILE = join(folder, "pid");
    const test_runner = createTestRunner({ timeouts: { hello_ms: 1_000 } });
    const run = test_runner.run(slow("stopped", { env: { PID_FILE, MARK: test_runner.mark } }));
    const pid = () => (existsSync(PID_FILE) ? Number(readFileSync(PID_FILE, "utf8")) : 0);
    await until(() => pid() > 0 && readProcess(pid())?.state === "T", 60_000);
    await new Promise((wake) => setTimeout(wake, 3_000));
    process.kill(pid(), "SIGCONT");
    expect(await run).toMatchObject({ status: "succeeded" });
  },
  90_000,
);

verifies(
  "launch.slow",
  "treats starts that run out of time as slow starts and never as a crash loop",
  async () => {
    const test_runner = createTestRunner({ timeouts: { hello_ms: 50 } });
    for (let attempt = 1; attempt <= 5; attempt++) {
      expect(await test_runner.run(slow("sleeps")), `attempt ${attempt}`).toMatchObject({
        status: "failed",
        dispatched: false,
        error: { details: { slow_start: true } },
      });
      expect((await test_runner.run(slow("computes"))).error, `attempt ${attempt}`).toMatchObject({
        details: { slow_start: true },
      });
    }
    expect(test_runner.runner.health().held_back).toEqual([]);
  },
  90_000,
);

verifies("launch.slow", "reports slow_start for a plugin that computes until its deadline", async () => {
  const test_runner = createTestRunner({ timeouts: { hello_ms: 400 } });
  expect((await test_runner.run(slow("computes"))).error).toMatchObject({
    code: "slow_start",
    message: expect.stringContaining("did not send a hello within 400 ms"),
  });
  expect((await test_runner.run(slow("sleeps"))).error).toMatchObject({ code: "handshake_failed" });
});

verifies("launch.slow", "applies launch_ms to side processes only", async () => {
  // This test uses the sandbox, where a start takes a few milliseconds.
  const isolated = { class: "isolated" as const, timeout_ms: 60_000 };
  const test_runner = createConfinedTestRunner({ timeouts: { launch_ms: 0.001 } });
  expect(await test_runner.run(vai("echo", isolated))).toMatchObject({ status: "succeeded" });
  // When this thread is busy, the timer of the limit and the end of the start can be due together.
  const startSide = async () => (await test_runner.run(side("echo", isolated))).error?.code;
  await expect.poll(startSide).toBe("slow_start");
});

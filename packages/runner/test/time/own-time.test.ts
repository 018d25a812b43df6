/** Limits of time that a busy machine does not use up, and what a start that ran out of them comes to. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { readProcess } from "../../src/procfs/process-table.ts";
import { loadPerProcessor, sampleTree } from "../../src/time/sample-tree.ts";
import { TimeBudget, type TimeSample, type Verdict } from "../../src/time/time-budget.ts";
import { confinedRig } from "../support/confined-runner.ts";
import { type OrderChange, side, vai } from "../support/order.ts";
import { makeRig, until } from "../support/runner.ts";

const LIMIT = 2_000;
const INTERVAL = 250;

/** Samples until there is a verdict: `then` says what each is like, by its number. Gives the time and the verdict. */
function judge(then: (n: number) => Partial<TimeSample> & { passed?: number }): [number, Verdict | null] {
  let at = 0;
  let cpu_ms = 0;
  const budget = new TimeBudget(LIMIT, INTERVAL, { at, cpu_ms });
  for (let n = 1; n <= 10_000; n++) {
    const { passed = INTERVAL, ...sample } = then(n);
    at += passed;
    cpu_ms = sample.cpu_ms ?? cpu_ms;
    const verdict = budget.add({ cpu_ms, held_up: false, load: 1, ...sample, at });
    if (verdict !== null) return [at, verdict];
  }
  return [at, null];
}

describe("the budget of a process", () => {
  test("waiting on a quiet machine counts as it passes", () => {
    expect(judge(() => ({}))).toEqual([LIMIT, "idle"]);
  });

  test("computing counts as it passes", () => {
    expect(judge((n) => ({ cpu_ms: n * INTERVAL, held_up: true }))).toEqual([LIMIT, "busy"]);
    expect(judge((n) => ({ cpu_ms: n * INTERVAL * 4 }))).toEqual([LIMIT, "busy"]);
  });

  test("a process that could run and gets a twentieth of a processor is charged that", () => {
    const starved = judge((n) => ({ cpu_ms: (n * INTERVAL) / 20, held_up: true, load: 20 }));
    expect(starved).toEqual([LIMIT * 20, "busy"]);
  });

  test("a process that is never let to run ends at a bound that grows with the load", () => {
    expect(judge(() => ({ held_up: true }))).toEqual([LIMIT * 10, "starved"]);
    expect(judge(() => ({ held_up: true, load: 3 }))).toEqual([LIMIT * 30, "starved"]);
    expect(judge(() => ({ held_up: true, load: 100 }))).toEqual([120_000, "starved"]);
  });

  test("a look that comes late charges a wait no more than one that comes in time", () => {
    expect(judge(() => ({ passed: 1_000 }))).toEqual([8_000, "idle"]);
  });

  test("on a busy machine a wait counts less, since others are slow as well", () => {
    expect(judge(() => ({ load: 2 }))).toEqual([LIMIT * 2, "idle"]);
    expect(judge(() => ({ load: 40 }))).toEqual([LIMIT * 4, "idle"]);
  });

  test("where processor time is not known, time counts by the load alone", () => {
    expect(judge(() => ({ cpu_ms: null as never }))).toEqual([LIMIT, "idle"]);
    expect(judge(() => ({ cpu_ms: null as never, load: 5 }))).toEqual([LIMIT * 5, "idle"]);
  });
});

test.runIf(process.platform === "linux")("a process tree is sampled as /proc shows it", () => {
  const mine = sampleTree(process.pid, 7);
  expect(mine).toMatchObject({ at: 7, held_up: true });
  expect(mine.cpu_ms).toBeGreaterThan(0);
  expect(sampleTree(null, 7)).toMatchObject({ cpu_ms: null, held_up: false });
  expect(sampleTree(2 ** 22 + 1, 7).cpu_ms).toBeNull();
  expect(loadPerProcessor()).toBeGreaterThanOrEqual(1);
});

const slow = (how: string, change: OrderChange = {}): OrderChange => ({
  entrypoint: ["node", "./slow.mjs", how],
  timeout_ms: 120_000,
  ...change,
});

verifies(
  "launch.slow",
  "a plugin that is not let to run while it starts is in time once it is",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "backplane-slow-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const PID_FILE = join(folder, "pid");
    const rig = makeRig({ timeouts: { hello_ms: 1_000 } });
    const run = rig.run(slow("stopped", { env: { PID_FILE, MARK: rig.mark } }));
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
  "starts that run out of time may be tried again and are never a crash loop",
  async () => {
    const rig = makeRig({ timeouts: { hello_ms: 50 } });
    for (let attempt = 1; attempt <= 5; attempt++) {
      expect(await rig.run(slow("sleeps")), `attempt ${attempt}`).toMatchObject({
        status: "failed",
        dispatched: false,
        error: { details: { slow_start: true } },
      });
      expect((await rig.run(slow("computes"))).error, `attempt ${attempt}`).toMatchObject({
        details: { slow_start: true },
      });
    }
    expect(rig.runner.health().held_back).toEqual([]);
  },
  90_000,
);

verifies("launch.slow", "a plugin that computes until its time is over is slow, not mute", async () => {
  const rig = makeRig({ timeouts: { hello_ms: 400 } });
  expect((await rig.run(slow("computes"))).error).toMatchObject({
    code: "slow_start",
    message: expect.stringContaining("did not say hello within 400 ms"),
  });
  expect((await rig.run(slow("sleeps"))).error).toMatchObject({ code: "handshake_failed" });
});

verifies("launch.slow", "the launch limit of side processes holds for them alone", async () => {
  // In the sandbox, where a start always takes a few milliseconds.
  const isolated = { class: "isolated" as const, timeout_ms: 60_000 };
  const rig = confinedRig({ timeouts: { launch_ms: 0.001 } });
  expect(await rig.run(vai("echo", isolated))).toMatchObject({ status: "succeeded" });
  expect((await rig.run(side("echo", isolated))).error).toMatchObject({ code: "slow_start" });
});

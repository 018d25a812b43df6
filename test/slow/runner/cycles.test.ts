/**
 * Starts a thousand processes, which end by timeouts, cancellations and normal exits, some of them with children.
 * Afterwards the numbers of processes, file descriptors, timers and scratch folders are as before.
 */
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { side } from "../../../packages/runner/test/support/request.ts";
import {
  createTestRunner,
  processesWith,
  type TestRunner,
  until,
} from "../../../packages/runner/test/support/runner.ts";

const CYCLES = 1_000;
const CONCURRENCY = 4;

/** Counts the resources that a leak would increase, without pending file operations, whose number varies. */
function countResources(): Record<string, number> {
  const active = process.getActiveResourcesInfo();
  const count = (kind: string) => active.filter((name) => name === kind).length;
  return {
    fds: readdirSync("/proc/self/fd").length,
    timers: count("Timeout"),
    children: count("ProcessWrap"),
    pipes: count("PipeWrap"),
  };
}

/** The minimum of each kind over half a second, so that a timer about to fire is not part of the baseline. */
async function measureBaseline(): Promise<Record<string, number>> {
  const least = countResources();
  for (let sample = 0; sample < 20; sample++) {
    await new Promise((resolve) => setTimeout(resolve, 25));
    for (const [kind, count] of Object.entries(countResources())) least[kind] = Math.min(least[kind]!, count);
  }
  return least;
}

/** Rotates through a timeout, a cancellation, a normal exit, and a timeout that races the exit. */
async function cycle(testRunner: TestRunner, n: number): Promise<string> {
  const pool_key = `cycle-${n}`;
  const grant = { filesystem: "scratch" } as const;
  const hold = { entrypoint: ["./hold.sh"], pool_key, timeout_ms: 60, grant };
  if (n % 4 === 0) return (await testRunner.run(hold)).error?.code ?? "no error";
  if (n % 4 === 1) {
    const invocation_id = `inv_cycle_${n}`;
    const running = testRunner.run({ ...hold, invocation_id, timeout_ms: 60_000 });
    setTimeout(() => testRunner.runner.cancel(invocation_id, "user"), n % 50);
    return (await running).status;
  }
  const shell = side("", { entrypoint: ["./side.sh"], pool_key, grant });
  if (n % 4 === 2) return (await testRunner.run(shell)).status;
  return (await testRunner.run({ ...shell, timeout_ms: n % 20 })).error?.code ?? "succeeded";
}

async function settle(testRunner: TestRunner): Promise<void> {
  testRunner.runner.retire("bind_1");
  await until(
    () => processesWith(testRunner.mark).length === 0 && testRunner.runner.health().processes === 0,
    30_000,
  );
  await until(() => readdirSync(testRunner.scratch_root).length === 0, 30_000);
}

test("1,000 start and kill cycles leave no process, descriptor, timer or scratch folder", async () => {
  const testRunner = createTestRunner({ timeouts: { cancel_grace_ms: 20, shutdown_grace_ms: 50 } });
  for (let n = 0; n < 4; n++) await cycle(testRunner, n);
  await settle(testRunner);
  const baseline = await measureBaseline();
  const endings: Record<string, number> = {};
  let next = 4;
  const workers = Array.from({ length: CONCURRENCY }, async () => {
    while (next < CYCLES + 4) {
      const ending = await cycle(testRunner, next++);
      endings[ending] = (endings[ending] ?? 0) + 1;
    }
  });
  await Promise.all(workers);
  await settle(testRunner);
  const isAtBaseline = () =>
    Object.entries(countResources()).every(([kind, count]) => count <= baseline[kind]!);
  await until(isAtBaseline, 30_000).catch(() => {});
  expect(isAtBaseline(), `${JSON.stringify(countResources())} after ${JSON.stringify(baseline)}`).toBe(true);
  expect(endings.timeout).toBeGreaterThanOrEqual(CYCLES / 4);
  expect(endings.cancelled).toBe(CYCLES / 4);
  expect(endings.succeeded).toBeGreaterThanOrEqual(CYCLES / 4);
  expect(Object.keys(endings).sort()).toEqual(["cancelled", "succeeded", "timeout"]);
  expect(testRunner.runner.health()).toMatchObject({ processes: 0, running: 0, held_back: [] });
});

/**
 * A thousand processes started and ended in every way the runner knows, killed ones with children included:
 * afterwards processes, file descriptors, timers and scratch are where they were before.
 */
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { side } from "../../packages/runner/test/support/request.ts";
import {
  createTestRunner,
  processesWith,
  type TestRunner,
  until,
} from "../../packages/runner/test/support/runner.ts";

const CYCLES = 1_000;
const AT_ONCE = 4;

/** What a leak would show up in; file operations under way come and go. */
function resources(): Record<string, number> {
  const active = process.getActiveResourcesInfo();
  const count = (kind: string) => active.filter((name) => name === kind).length;
  return {
    fds: readdirSync("/proc/self/fd").length,
    timers: count("Timeout"),
    children: count("ProcessWrap"),
    pipes: count("PipeWrap"),
  };
}

/** The least of each kind over half a second: a timer that was just about to fire is not part of the baseline. */
async function quiet(): Promise<Record<string, number>> {
  const least = resources();
  for (let look = 0; look < 20; look++) {
    await new Promise((resolve) => setTimeout(resolve, 25));
    for (const [kind, count] of Object.entries(resources())) least[kind] = Math.min(least[kind]!, count);
  }
  return least;
}

/** Four ways to live and die, one after the other. */
async function cycle(rig: TestRunner, n: number): Promise<string> {
  const pool_key = `cycle-${n}`;
  const grant = { filesystem: "scratch" } as const;
  const hold = { entrypoint: ["./hold.sh"], pool_key, timeout_ms: 60, grant };
  if (n % 4 === 0) return (await rig.run(hold)).error?.code ?? "no error";
  if (n % 4 === 1) {
    const invocation_id = `inv_cycle_${n}`;
    const running = rig.run({ ...hold, invocation_id, timeout_ms: 60_000 });
    setTimeout(() => rig.runner.cancel(invocation_id, "user"), n % 50);
    return (await running).status;
  }
  const shell = side("", { entrypoint: ["./side.sh"], pool_key, grant });
  if (n % 4 === 2) return (await rig.run(shell)).status;
  return (await rig.run({ ...shell, timeout_ms: n % 20 })).error?.code ?? "succeeded";
}

async function settle(rig: TestRunner): Promise<void> {
  rig.runner.retire("bind_1");
  await until(() => processesWith(rig.mark).length === 0 && rig.runner.health().processes === 0, 30_000);
  await until(() => readdirSync(rig.scratch_root).length === 0, 30_000);
}

test("1,000 start and kill cycles leave nothing behind", async () => {
  const rig = createTestRunner({ timeouts: { cancel_grace_ms: 20, shutdown_grace_ms: 50 } });
  for (let n = 0; n < 4; n++) await cycle(rig, n);
  await settle(rig);
  const baseline = await quiet();
  const endings: Record<string, number> = {};
  let next = 4;
  const workers = Array.from({ length: AT_ONCE }, async () => {
    while (next < CYCLES + 4) {
      const ending = await cycle(rig, next++);
      endings[ending] = (endings[ending] ?? 0) + 1;
    }
  });
  await Promise.all(workers);
  await settle(rig);
  const isBack = () => Object.entries(resources()).every(([kind, count]) => count <= baseline[kind]!);
  await until(isBack, 30_000).catch(() => {});
  expect(isBack(), `${JSON.stringify(resources())} after ${JSON.stringify(baseline)}`).toBe(true);
  expect(endings.timeout).toBeGreaterThanOrEqual(CYCLES / 4);
  expect(endings.cancelled).toBe(CYCLES / 4);
  expect(endings.succeeded).toBeGreaterThanOrEqual(CYCLES / 4);
  expect(Object.keys(endings).sort()).toEqual(["cancelled", "succeeded", "timeout"]);
  expect(rig.runner.health()).toMatchObject({ processes: 0, running: 0, held_back: [] });
});

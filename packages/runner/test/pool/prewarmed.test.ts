/** Prewarmed processes: which calls get them, how many there are, and when they are stopped. */
import { BackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { privateBytes } from "../../src/procfs/private-memory.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { filesAt } from "../support/files-at.ts";
import { FIXTURES, type RequestChange, side, vai } from "../support/request.ts";
import { processesWith, type TestRunner, until } from "../support/runner.ts";

const isolated = { class: "isolated", pool_key: "a" } as const;
const createPrewarmingRunner = (limits: object = {}) =>
  createConfinedTestRunner({ limits: { prewarmed: 4, prewarmed_per_key: 1, ...limits } });

/** Which process served the call: its random mark, since all have the same pid inside. */
async function identifyServingProcess(testRunner: TestRunner, change: RequestChange = {}): Promise<string> {
  const { result } = await testRunner.run(vai("who", { ...isolated, ...change }));
  return (result as { who: string }).who;
}

const waitUntilReady = (testRunner: TestRunner, count: number) =>
  until(
    () => testRunner.runner.health().prewarmed === count && testRunner.runner.health().processes === count,
  );

test("serves a call with a ready process, uses it once and replaces it", async () => {
  const testRunner = createPrewarmingRunner();
  const seen = new Set([await identifyServingProcess(testRunner)]);
  for (let i = 0; i < 3; i++) {
    await waitUntilReady(testRunner, 1);
    const started = performance.now();
    seen.add(await identifyServingProcess(testRunner));
    // Generous, for a busy machine: a ready process answers in milliseconds.
    expect(performance.now() - started).toBeLessThan(1_000);
  }
  expect(seen.size).toBe(4);
});

test("creates scratch for the call and not before", async () => {
  const testRunner = createPrewarmingRunner();
  const grant = { filesystem: "scratch" as const };
  for (const invocation_id of ["inv_a", "inv_b"]) {
    const { result } = await testRunner.run(vai("uses-scratch", { ...isolated, invocation_id, grant }));
    expect(result).toMatchObject({ scratch_dir: `/sandbox/scratch/${invocation_id}` });
    await waitUntilReady(testRunner, 1);
  }
});

test("keeps a side process waiting between handshake and request", async () => {
  const testRunner = createPrewarmingRunner();
  for (let i = 0; i < 3; i++) {
    expect(await testRunner.run(side("ok", isolated))).toMatchObject({ status: "succeeded", violations: 0 });
    await waitUntilReady(testRunner, 1);
  }
});

test("raises the number of prewarmed processes of a key when calls come faster than processes start, up to a limit", async () => {
  const testRunner = createPrewarmingRunner({ prewarmed_per_key: 2 });
  await Promise.all(Array.from({ length: 6 }, () => identifyServingProcess(testRunner)));
  await waitUntilReady(testRunner, 2);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(testRunner.runner.health().prewarmed).toBe(2);
});

test("limits the number of prewarmed processes across all keys, and keeps those of the most recent calls", async () => {
  const testRunner = createPrewarmingRunner({ prewarmed: 2 });
  let peak = 0;
  const updatePeak = () => {
    peak = Math.max(peak, testRunner.runner.health().prewarmed);
  };
  const watch = setInterval(updatePeak, 1);
  for (const pool_key of ["a", "b", "c"]) {
    await identifyServingProcess(testRunner, { pool_key });
    await until(() => testRunner.runner.health().prewarmed > 0 && testRunner.runner.health().running === 0);
  }
  await waitUntilReady(testRunner, 2);
  clearInterval(watch);
  updatePeak();
  expect(peak).toBe(2);
});

test("limits the memory of prewarmed processes across all keys", async () => {
  const testRunner = createPrewarmingRunner({ prewarmed_bytes: 1024 });
  await identifyServingProcess(testRunner);
  // The process of the call itself may still be exiting.
  await until(() => testRunner.runner.health().processes === 0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(testRunner.runner.health()).toMatchObject({ prewarmed: 0, processes: 0 });
  // The first estimate allows one; its measured memory stops it.
  const guessed = createPrewarmingRunner({ prewarmed_bytes: 49 * 1024 * 1024, prewarmed_per_key: 4 });
  await Promise.all([
    identifyServingProcess(guessed),
    identifyServingProcess(guessed),
    identifyServingProcess(guessed),
  ]);
  await until(() => guessed.runner.health().prewarmed > 0);
  await until(() => guessed.runner.health().running === 0);
  await new Promise((resolve) => setTimeout(resolve, 300));
  const taken = await Promise.all(processesWith(guessed.mark).map((pid) => privateBytes(pid)));
  expect(taken.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(49 * 1024 * 1024);
});

test("stops a prewarmed process when a call needs its slot", async () => {
  const testRunner = createConfinedTestRunner({
    limits: { prewarmed: 4, prewarmed_per_key: 1, processes: 1 },
  });
  for (const pool_key of ["a", "b", "a"]) {
    expect(await testRunner.run(vai("echo", { class: "isolated", pool_key }))).toMatchObject({
      status: "succeeded",
    });
    await waitUntilReady(testRunner, 1);
  }
});

test("stops prewarmed processes after the idle time without a call", async () => {
  const testRunner = createPrewarmingRunner({ idle_ms: 3_000 });
  await identifyServingProcess(testRunner);
  await waitUntilReady(testRunner, 1);
  await until(() => testRunner.runner.health().processes === 0);
  expect(testRunner.runner.health().prewarmed).toBe(0);
});

test("stops prewarmed processes of an old binding generation", async () => {
  const testRunner = createPrewarmingRunner();
  await identifyServingProcess(testRunner);
  await waitUntilReady(testRunner, 1);
  const before = processesWith(testRunner.mark);
  testRunner.runner.retire("bind_1", "another key");
  await until(() => testRunner.runner.health().processes === 0);
  expect(before.length).toBeGreaterThan(0);
  expect(processesWith(testRunner.mark)).toEqual([]);
});

test("verifies the package again when a prewarmed process is used", async () => {
  let intact = true;
  const files = {
    open: async (digest: string) => {
      if (intact) return await filesAt(FIXTURES).open(digest);
      throw new BackplaneError("package.corrupt");
    },
  };
  const testRunner = createConfinedTestRunner({ files, limits: { prewarmed: 1 } });
  await identifyServingProcess(testRunner);
  await waitUntilReady(testRunner, 1);
  intact = false;
  expect(await testRunner.run(vai("who", isolated))).toMatchObject({ error: { code: "package.corrupt" } });
});

test("keeps no secret of an earlier call in a prewarmed process", async () => {
  const testRunner = createPrewarmingRunner();
  const context = { secrets: { token: "canary-of-the-first-call" } };
  await identifyServingProcess(testRunner, { context });
  await waitUntilReady(testRunner, 1);
  const { result } = await testRunner.run(vai("context", isolated));
  expect(JSON.stringify(result)).not.toContain("canary-of-the-first-call");
});

verifies("sandbox.kill", "stops all prewarmed processes with the runner", async () => {
  const testRunner = createPrewarmingRunner();
  await Promise.all([identifyServingProcess(testRunner), identifyServingProcess(testRunner)]);
  await until(() => testRunner.runner.health().prewarmed > 0);
  await testRunner.runner.close(200);
  expect(processesWith(testRunner.mark)).toEqual([]);
});

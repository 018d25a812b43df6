/** Prewarmed processes: which calls get them, how many there are, and when they are stopped. */
import { BackplaneError } from "@backplane/contract";
import type { ProcessRequest } from "@backplane/ports";
import { realTimeClock } from "@backplane/test-kit/real-time-clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { vaiRpc } from "../../src/dialects/vai-rpc.ts";
import { PrewarmedProcesses } from "../../src/pool/prewarmed.ts";
import { DEFAULT_LIMITS } from "../../src/ports/settings.ts";
import { readPrivateBytes } from "../../src/procfs/private-memory.ts";
import { Deadlines } from "../../src/time/deadlines.ts";
import { createConfinedTestRunner } from "../support/confined-runner.ts";
import { filesAt } from "../support/files-at.ts";
import { createIdleWorker } from "../support/idle-worker.ts";
import { FIXTURES, type RequestChange, requestOf, side, vai } from "../support/request.ts";
import { processesWith, type TestRunner, until } from "../support/runner.ts";

const isolated = { class: "isolated", pool_key: "a" } as const;
const createPrewarmingRunner = (limits: object = {}) =>
  createConfinedTestRunner({ limits: { prewarmed: 4, prewarmed_per_key: 1, ...limits } });

/** Returns the random mark of the process that served the call, because all have the same pid in the sandbox. */
async function identifyServingProcess(test_runner: TestRunner, change: RequestChange = {}): Promise<string> {
  const { result } = await test_runner.run(vai("who", { ...isolated, ...change }));
  return (result as { who: string }).who;
}

const waitUntilReady = (test_runner: TestRunner, count: number) =>
  until(
    () => test_runner.runner.health().prewarmed === count && test_runner.runner.health().processes === count,
  );

test("serves a call with a ready process, uses it once and replaces it", async () => {
  const test_runner = createPrewarmingRunner();
  const serving_processes = new Set([await identifyServingProcess(test_runner)]);
  for (let i = 0; i < 3; i++) {
    await waitUntilReady(test_runner, 1);
    const started = performance.now();
    serving_processes.add(await identifyServingProcess(test_runner));
    // Generous, for a busy machine: a ready process answers in milliseconds.
    expect(performance.now() - started).toBeLessThan(1_000);
  }
  expect(serving_processes.size).toBe(4);
});

test("gives a prewarmed process a scratch folder for its call", async () => {
  const test_runner = createPrewarmingRunner();
  const grant = { filesystem: "scratch" as const };
  for (const invocation_id of ["inv_a", "inv_b"]) {
    const { result } = await test_runner.run(vai("uses-scratch", { ...isolated, invocation_id, grant }));
    expect(result).toMatchObject({ scratch_dir: `/sandbox/scratch/${invocation_id}` });
    await waitUntilReady(test_runner, 1);
  }
});

test("keeps a side process waiting between handshake and request", async () => {
  const test_runner = createPrewarmingRunner();
  for (let i = 0; i < 3; i++) {
    expect(await test_runner.run(side("ok", isolated))).toMatchObject({ status: "succeeded", violations: 0 });
    await waitUntilReady(test_runner, 1);
  }
});

test("raises the number of prewarmed processes of a key when calls come faster than processes start, up to a limit", async () => {
  const test_runner = createPrewarmingRunner({ prewarmed_per_key: 2 });
  await Promise.all(Array.from({ length: 6 }, () => identifyServingProcess(test_runner)));
  await waitUntilReady(test_runner, 2);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(test_runner.runner.health().prewarmed).toBe(2);
});

test("limits the number of prewarmed processes across all keys", async () => {
  const test_runner = createPrewarmingRunner({ prewarmed: 2 });
  let peak = 0;
  const updatePeak = () => {
    peak = Math.max(peak, test_runner.runner.health().prewarmed);
  };
  const watch = setInterval(updatePeak, 1);
  for (const pool_key of ["a", "b", "c"]) {
    await identifyServingProcess(test_runner, { pool_key });
    await until(() => test_runner.runner.health().prewarmed > 0 && test_runner.runner.health().running === 0);
  }
  await waitUntilReady(test_runner, 2);
  clearInterval(watch);
  updatePeak();
  expect(peak).toBe(2);
});

test("limits the total memory of prewarmed processes", async () => {
  const test_runner = createPrewarmingRunner({ prewarmed_bytes: 1024 });
  await identifyServingProcess(test_runner);
  // The process of the call itself may still be exiting.
  await until(() => test_runner.runner.health().processes === 0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(test_runner.runner.health()).toMatchObject({ prewarmed: 0, processes: 0 });
  // The first estimate allows one; its measured memory stops it.
  const estimated = createPrewarmingRunner({ prewarmed_bytes: 49 * 1024 * 1024, prewarmed_per_key: 4 });
  await Promise.all([
    identifyServingProcess(estimated),
    identifyServingProcess(estimated),
    identifyServingProcess(estimated),
  ]);
  await until(() => estimated.runner.health().prewarmed > 0);
  await until(() => estimated.runner.health().running === 0);
  await new Promise((resolve) => setTimeout(resolve, 300));
  const private_bytes = await Promise.all(processesWith(estimated.mark).map((pid) => readPrivateBytes(pid)));
  expect(private_bytes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(49 * 1024 * 1024);
});

test("stops a prewarmed process when a call needs its slot", async () => {
  const test_runner = createConfinedTestRunner({
    limits: { prewarmed: 4, prewarmed_per_key: 1, processes: 1 },
  });
  for (const pool_key of ["a", "b", "a"]) {
    expect(await test_runner.run(vai("echo", { class: "isolated", pool_key }))).toMatchObject({
      status: "succeeded",
    });
    await waitUntilReady(test_runner, 1);
  }
});

test("stops prewarmed processes after the idle time without a call", async () => {
  const test_runner = createPrewarmingRunner({ idle_ms: 3_000 });
  await identifyServingProcess(test_runner);
  await waitUntilReady(test_runner, 1);
  await until(() => test_runner.runner.health().processes === 0);
  expect(test_runner.runner.health().prewarmed).toBe(0);
});

test("stops prewarmed processes of an old binding generation", async () => {
  const test_runner = createPrewarmingRunner();
  await identifyServingProcess(test_runner);
  await waitUntilReady(test_runner, 1);
  const old_processes = processesWith(test_runner.mark);
  test_runner.runner.retire("bind_1", "another key");
  await until(() => test_runner.runner.health().processes === 0);
  expect(old_processes.length).toBeGreaterThan(0);
  expect(processesWith(test_runner.mark)).toEqual([]);
});

test("verifies the package again when a prewarmed process is used", async () => {
  let intact = true;
  const files = {
    open: async (digest: string) => {
      if (intact) return await filesAt(FIXTURES).open(digest);
      throw new BackplaneError("package.corrupt");
    },
  };
  const test_runner = createConfinedTestRunner({ files, limits: { prewarmed: 1 } });
  await identifyServingProcess(test_runner);
  await waitUntilReady(test_runner, 1);
  intact = false;
  expect(await test_runner.run(vai("who", isolated))).toMatchObject({ error: { code: "package.corrupt" } });
});

test("keeps no secret of an earlier call in a prewarmed process", async () => {
  const test_runner = createPrewarmingRunner();
  const grant = { secret_env: { token: "API_TOKEN" } };
  const context = { secrets: { token: "canary-of-an-earlier-call" } };
  const receive = async (change: RequestChange) => {
    const { result } = await test_runner.run(vai("received", { ...isolated, ...change }));
    return result as { contexts: { secrets: object }[]; env: Record<string, string> };
  };
  // The first call gets its secret in a request, the second one also in a variable.
  expect((await receive({ context })).contexts).toMatchObject([{ secrets: { token: "[redacted]" } }]);
  expect((await receive({ grant, context })).env.API_TOKEN).toBe("[redacted]");
  for (let i = 0; i < 2; i++) {
    await waitUntilReady(test_runner, 1);
    const received = await receive({ grant });
    expect(received.contexts).toMatchObject([{ secrets: {} }]);
    expect(JSON.stringify(received)).not.toContain("canary-of-an-earlier-call");
  }
});

test("starts prewarmed processes without the input and the secrets of the call that caused them", async () => {
  const started: ProcessRequest[] = [];
  const { promise: filled, resolve } = Promise.withResolvers<void>();
  const prewarmed = new PrewarmedProcesses({
    clock: realTimeClock,
    deadlines: new Deadlines(realTimeClock),
    limits: DEFAULT_LIMITS,
    log: createTestLogger(),
    hasFreeSlot: () => true,
    create(request) {
      started.push(request);
      resolve();
      const worker = createIdleWorker({ pooled: false });
      const { promise: gone, resolve: kill } = Promise.withResolvers<void>();
      Object.assign(worker.process, { ready: Promise.resolve(), gone, kill });
      return worker;
    },
  });
  const request = requestOf({
    ...isolated,
    input: { text: "canary input" },
    context: { config: { level: 3 }, secrets: { token: "canary secret" } },
  });
  prewarmed.take(request, vaiRpc);
  await filled;
  prewarmed.close();
  expect(started).toMatchObject([{ pool_key: "a", context: { config: { level: 3 }, secrets: {} } }]);
  expect(JSON.stringify(started)).not.toContain("canary");
});

verifies("sandbox.kill", "stops all prewarmed processes with the runner", async () => {
  const test_runner = createPrewarmingRunner();
  await Promise.all([identifyServingProcess(test_runner), identifyServingProcess(test_runner)]);
  await until(() => test_runner.runner.health().prewarmed > 0);
  await test_runner.runner.close(200);
  expect(processesWith(test_runner.mark)).toEqual([]);
});

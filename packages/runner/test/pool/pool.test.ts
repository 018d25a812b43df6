/** Sharing and lifetime of processes, and what happens when there are too many or they keep failing. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { side, vai } from "../support/request.ts";
import { createTestRunner, isAlive, processesWith, type TestRunner, until } from "../support/runner.ts";

const callForPid = async (testRunner: TestRunner, change = {}) =>
  ((await testRunner.run(vai("pid", change))).result as { pid: number }).pid;

test("shares one process between calls of one key, launched once, and separates keys", async () => {
  const testRunner = createTestRunner();
  const pids = await Promise.all(Array.from({ length: 20 }, () => callForPid(testRunner, { pool_key: "a" })));
  expect(new Set(pids).size).toBe(1);
  expect(await callForPid(testRunner, { pool_key: "a" })).toBe(pids[0]);
  expect(await callForPid(testRunner, { pool_key: "b" })).not.toBe(pids[0]);
  expect(testRunner.runner.health()).toMatchObject({ processes: 2, running: 0, held_back: [] });
});

test("stops an idle process but not a busy one", async () => {
  const testRunner = createTestRunner({ limits: { idle_ms: 150 }, timeouts: { cancel_grace_ms: 100 } });
  const first = await callForPid(testRunner);
  await until(() => testRunner.runner.health().processes === 0);
  expect(await callForPid(testRunner)).not.toBe(first);
  const busy = testRunner.run(vai("hangs-on-request", { input: { hang: true }, invocation_id: "inv_b" }));
  await until(() => testRunner.runner.health().processes === 1 && testRunner.runner.health().running === 1);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(testRunner.runner.health().running).toBe(1);
  testRunner.runner.cancel("inv_b", "user");
  expect((await busy).error?.code).toBe("cancelled");
});

test("limits processes by evicting the one that has been idle the longest, and queues calls otherwise", async () => {
  const testRunner = createTestRunner({ limits: { processes: 2 } });
  const oldest = await callForPid(testRunner, { pool_key: "a" });
  const newer = await callForPid(testRunner, { pool_key: "b" });
  await callForPid(testRunner, { pool_key: "c" });
  expect(processesWith(testRunner.mark)).toContain(newer);
  expect(processesWith(testRunner.mark)).not.toContain(oldest);
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, processesWith(testRunner.mark).length);
  }, 5);
  const many = await Promise.all(
    Array.from({ length: 8 }, (_, i) => testRunner.run(side("ok", { pool_key: `s${i}` }))),
  );
  clearInterval(watch);
  expect(many.map((outcome) => outcome.status)).toEqual(Array(8).fill("succeeded"));
  expect(peak).toBeLessThanOrEqual(2);
});

test("ends a queued call at its timeout and removes it from the queue", async () => {
  const testRunner = createTestRunner({ limits: { processes: 1 }, timeouts: { cancel_grace_ms: 100 } });
  const busy = testRunner.run(vai("hangs", { timeout_ms: 700 }));
  const waits = await testRunner.run(vai("echo", { pool_key: "other", timeout_ms: 100 }));
  expect(waits).toMatchObject({ error: { code: "timeout" }, dispatched: false });
  expect((await busy).error?.code).toBe("timeout");
  expect(await testRunner.run(vai("echo", { pool_key: "third" }))).toMatchObject({ status: "succeeded" });
});

test("lets calls finish on retire, stops the old generation and keeps the new one", async () => {
  const testRunner = createTestRunner({ timeouts: { cancel_grace_ms: 100 } });
  const pid = await callForPid(testRunner, { pool_key: "new" });
  const slow = testRunner.run(
    vai("hangs-on-request", { pool_key: "old", input: { hang: true }, invocation_id: "inv_s" }),
  );
  await until(() => testRunner.runner.health().processes === 2);
  testRunner.runner.retire("bind_1", "new");
  expect(testRunner.runner.health()).toMatchObject({ processes: 2, running: 1 });
  testRunner.runner.cancel("inv_s", "user");
  expect((await slow).error?.code).toBe("cancelled");
  await until(() => testRunner.runner.health().processes === 1);
  expect(await callForPid(testRunner, { pool_key: "new" })).toBe(pid);
  testRunner.runner.retire("bind_1");
  await until(() => testRunner.runner.health().processes === 0);
});

test("fails only the calls of a crashed process and starts a new one for the next call", async () => {
  const testRunner = createTestRunner();
  const other = await callForPid(testRunner, { pool_key: "other" });
  const crashed = await testRunner.run(vai("dies-on-request"));
  expect(crashed).toMatchObject({ error: { code: "crashed", details: { exit_code: 7 } }, dispatched: true });
  expect((await testRunner.run(vai("dies-on-request"))).error?.code).toBe("crashed");
  expect(await callForPid(testRunner, { pool_key: "other" })).toBe(other);
});

test("kills the children that a process leaves behind when it exits", async () => {
  const testRunner = createTestRunner();
  const outcome = await testRunner.run(vai("forks-and-dies"));
  expect(outcome.error).toMatchObject({ code: "crashed", details: { exit_code: 7 } });
  const grandchild = Number(outcome.stderr_tail);
  expect(grandchild).toBeGreaterThan(1);
  await until(() => !isAlive(grandchild));
});

verifies(
  "fault.crash-loop",
  "launches a failing plugin three times, then reports crash_loop, and recovers after a fix",
  async () => {
    const testRunner = createTestRunner();
    const fixed = join(testRunner.scratch_root, "fixed");
    const broken = (change = {}) =>
      testRunner.run(vai("broken-until-fixed", { env: { FIXED: fixed }, ...change }));
    for (let i = 0; i < 3; i++) expect((await broken({ pool_key: "g1" })).error?.code).toBe("crashed");
    const held = await broken({ pool_key: "g1" });
    expect(held).toMatchObject({
      error: { code: "crash_loop", details: { failures: 3 } },
      dispatched: false,
    });
    const retry_at = Date.parse(held.error?.details?.retry_at as string);
    expect(retry_at - Date.now()).toBeGreaterThan(4 * 60_000);
    expect(retry_at - Date.now()).toBeLessThan(5 * 60_000);
    expect(testRunner.runner.health().held_back).toMatchObject([
      { pool_key: "g1", binding_id: "bind_1", package_id: "acme/fixture", failures: 3, retry_at },
    ]);
    const many = await Promise.all(Array.from({ length: 20 }, () => broken({ pool_key: "g1" })));
    expect(many.every((outcome) => outcome.error?.code === "crash_loop")).toBe(true);
    writeFileSync(fixed, "");
    expect((await broken({ pool_key: "g2" })).status).toBe("succeeded");
    testRunner.runner.retire("bind_1", "g2");
    expect(testRunner.runner.health().held_back).toEqual([]);
  },
);

verifies(
  "fault.crash-loop",
  "launches a failing plugin three times even for many concurrent calls",
  async () => {
    const testRunner = createTestRunner();
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, () => testRunner.run(side("dies-at-once"))),
    );
    const codes = outcomes.map((outcome) => outcome.error?.code);
    expect(codes.filter((code) => code === "crashed")).toHaveLength(3);
    expect(codes.filter((code) => code === "crash_loop")).toHaveLength(9);
  },
);

test("does not run an invocation twice at the same time", async () => {
  const testRunner = createTestRunner();
  const first = testRunner.run(vai("echo", { invocation_id: "inv_same" }));
  expect((await testRunner.run(vai("echo", { invocation_id: "inv_same" }))).error?.code).toBe("internal");
  expect((await first).status).toBe("succeeded");
});

test("does not run changed package files and does not count them against the plugin", async () => {
  const { BackplaneError } = await import("@backplane/contract");
  const testRunner = createTestRunner({
    files: { open: () => Promise.reject(new BackplaneError("package.corrupt")) },
  });
  for (let i = 0; i < 5; i++) {
    expect(await testRunner.run(vai("echo"))).toMatchObject({
      error: { code: "package.corrupt" },
      dispatched: false,
    });
  }
  expect(testRunner.runner.health()).toMatchObject({ processes: 0, held_back: [] });
});

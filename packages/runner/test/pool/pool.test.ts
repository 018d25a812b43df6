/** Sharing and lifetime of processes, and what happens when there are too many or they keep failing. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { side, vai } from "../support/request.ts";
import { createTestRunner, isAlive, processesWith, type TestRunner, until } from "../support/runner.ts";

const callForPid = async (test_runner: TestRunner, change = {}) =>
  ((await test_runner.run(vai("pid", change))).result as { pid: number }).pid;

test("shares one process between calls of one key, launched once, and separates keys", async () => {
  const test_runner = createTestRunner();
  const pids = await Promise.all(
    Array.from({ length: 20 }, () => callForPid(test_runner, { pool_key: "a" })),
  );
  expect(new Set(pids).size).toBe(1);
  expect(await callForPid(test_runner, { pool_key: "a" })).toBe(pids[0]);
  expect(await callForPid(test_runner, { pool_key: "b" })).not.toBe(pids[0]);
  expect(test_runner.runner.health()).toMatchObject({ processes: 2, running: 0, held_back: [] });
});

test("stops an idle process but not a busy one", async () => {
  const test_runner = createTestRunner({ limits: { idle_ms: 150 }, timeouts: { cancel_grace_ms: 100 } });
  const first = await callForPid(test_runner);
  await until(() => test_runner.runner.health().processes === 0);
  expect(await callForPid(test_runner)).not.toBe(first);
  const busy = test_runner.run(vai("hangs-on-request", { input: { hang: true }, invocation_id: "inv_b" }));
  await until(() => test_runner.runner.health().processes === 1 && test_runner.runner.health().running === 1);
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(test_runner.runner.health().running).toBe(1);
  test_runner.runner.cancel("inv_b", "user");
  expect((await busy).error?.code).toBe("cancelled");
});

test("limits processes by evicting the one that has been idle the longest, and queues calls otherwise", async () => {
  const test_runner = createTestRunner({ limits: { processes: 2 } });
  const oldest = await callForPid(test_runner, { pool_key: "a" });
  const newer = await callForPid(test_runner, { pool_key: "b" });
  await callForPid(test_runner, { pool_key: "c" });
  expect(processesWith(test_runner.mark)).toContain(newer);
  expect(processesWith(test_runner.mark)).not.toContain(oldest);
  let peak = 0;
  const watch = setInterval(() => {
    peak = Math.max(peak, processesWith(test_runner.mark).length);
  }, 5);
  const many = await Promise.all(
    Array.from({ length: 8 }, (_, i) => test_runner.run(side("ok", { pool_key: `s${i}` }))),
  );
  clearInterval(watch);
  expect(many.map((outcome) => outcome.status)).toEqual(Array(8).fill("succeeded"));
  expect(peak).toBeLessThanOrEqual(2);
});

test("ends a queued call at its timeout and removes it from the queue", async () => {
  const test_runner = createTestRunner({ limits: { processes: 1 }, timeouts: { cancel_grace_ms: 100 } });
  const busy = test_runner.run(vai("hangs", { timeout_ms: 700 }));
  const queued = await test_runner.run(vai("echo", { pool_key: "other", timeout_ms: 100 }));
  expect(queued).toMatchObject({ error: { code: "timeout" }, dispatched: false });
  expect((await busy).error?.code).toBe("timeout");
  expect(await test_runner.run(vai("echo", { pool_key: "third" }))).toMatchObject({ status: "succeeded" });
});

test("lets calls finish on retire, stops the old generation and keeps the new one", async () => {
  const test_runner = createTestRunner({ timeouts: { cancel_grace_ms: 100 } });
  const pid = await callForPid(test_runner, { pool_key: "new" });
  const slow = test_runner.run(
    vai("hangs-on-request", { pool_key: "old", input: { hang: true }, invocation_id: "inv_s" }),
  );
  await until(() => test_runner.runner.health().processes === 2);
  test_runner.runner.retire("bind_1", "new");
  expect(test_runner.runner.health()).toMatchObject({ processes: 2, running: 1 });
  test_runner.runner.cancel("inv_s", "user");
  expect((await slow).error?.code).toBe("cancelled");
  await until(() => test_runner.runner.health().processes === 1);
  expect(await callForPid(test_runner, { pool_key: "new" })).toBe(pid);
  test_runner.runner.retire("bind_1");
  await until(() => test_runner.runner.health().processes === 0);
});

test("fails only the calls of a crashed process and starts a new one for the next call", async () => {
  const test_runner = createTestRunner();
  const other_pid = await callForPid(test_runner, { pool_key: "other" });
  const crashed = await test_runner.run(vai("dies-on-request"));
  expect(crashed).toMatchObject({ error: { code: "crashed", details: { exit_code: 7 } }, dispatched: true });
  expect((await test_runner.run(vai("dies-on-request"))).error?.code).toBe("crashed");
  expect(await callForPid(test_runner, { pool_key: "other" })).toBe(other_pid);
});

test("kills the children that a process leaves behind when it exits", async () => {
  const test_runner = createTestRunner();
  const outcome = await test_runner.run(vai("forks-and-dies"));
  expect(outcome.error).toMatchObject({ code: "crashed", details: { exit_code: 7 } });
  const grandchild = Number(outcome.stderr_tail);
  expect(grandchild).toBeGreaterThan(1);
  await until(() => !isAlive(grandchild));
});

verifies(
  "fault.crash-loop",
  "launches a failing plugin three times, then reports crash_loop, and recovers after a fix",
  async () => {
    const test_runner = createTestRunner();
    const fixed = join(test_runner.scratch_root, "fixed");
    const broken = (change = {}) =>
      test_runner.run(vai("broken-until-fixed", { env: { FIXED: fixed }, ...change }));
    for (let i = 0; i < 3; i++) expect((await broken({ pool_key: "g1" })).error?.code).toBe("crashed");
    const held = await broken({ pool_key: "g1" });
    expect(held).toMatchObject({
      error: { code: "crash_loop", details: { failures: 3 } },
      dispatched: false,
    });
    const retry_at = Date.parse(held.error?.details?.retry_at as string);
    expect(retry_at - Date.now()).toBeGreaterThan(4 * 60_000);
    expect(retry_at - Date.now()).toBeLessThan(5 * 60_000);
    expect(test_runner.runner.health().held_back).toMatchObject([
      { pool_key: "g1", binding_id: "bind_1", package_id: "acme/fixture", failures: 3, retry_at },
    ]);
    const many = await Promise.all(Array.from({ length: 20 }, () => broken({ pool_key: "g1" })));
    expect(many.every((outcome) => outcome.error?.code === "crash_loop")).toBe(true);
    writeFileSync(fixed, "");
    expect((await broken({ pool_key: "g2" })).status).toBe("succeeded");
    test_runner.runner.retire("bind_1", "g2");
    expect(test_runner.runner.health().held_back).toEqual([]);
  },
);

verifies(
  "fault.crash-loop",
  "launches a failing plugin three times even for many concurrent calls",
  async () => {
    const test_runner = createTestRunner();
    const outcomes = await Promise.all(
      Array.from({ length: 12 }, () => test_runner.run(side("dies-at-once"))),
    );
    const codes = outcomes.map((outcome) => outcome.error?.code);
    expect(codes.filter((code) => code === "crashed")).toHaveLength(3);
    expect(codes.filter((code) => code === "crash_loop")).toHaveLength(9);
  },
);

test("does not run an invocation twice at the same time", async () => {
  const test_runner = createTestRunner();
  const first = test_runner.run(vai("echo", { invocation_id: "inv_same" }));
  expect((await test_runner.run(vai("echo", { invocation_id: "inv_same" }))).error?.code).toBe("internal");
  expect((await first).status).toBe("succeeded");
});

test("does not run changed package files and does not count them against the plugin", async () => {
  const test_runner = createTestRunner({
    files: { open: () => Promise.reject(new BackplaneError("package.corrupt")) },
  });
  for (let i = 0; i < 5; i++) {
    expect(await test_runner.run(vai("echo"))).toMatchObject({
      error: { code: "package.corrupt" },
      dispatched: false,
    });
  }
  expect(test_runner.runner.health()).toMatchObject({ processes: 0, held_back: [] });
});

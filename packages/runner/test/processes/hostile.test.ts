/**
 * One plugin per misbehavior: the exact error code, exactly one outcome, a responsive event loop (< 50 ms),
 * bounded memory, and (checked by `createTestRunner`) nothing left behind.
 */
import type { RunOutcome } from "@backplane/ports";
import { measureLag } from "@backplane/test-kit/event-loop-lag";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type RequestChange, requestOf, side, vai } from "../support/request.ts";
import { createTestRunner, type TestRunner } from "../support/runner.ts";

const MAX_LAG_MS = 50;
const MAX_ATTACKS = 3;

/**
 * Repeats an attack during which the event loop was blocked: other work in this process occasionally occupies the
 * thread, whereas a plugin that can block it does so every time. Each attack has its own process pool, so none is
 * refused as a crash loop.
 */
async function attack(test_runner: TestRunner, change: RequestChange): Promise<RunOutcome> {
  const { pool_key } = requestOf(change);
  for (let attempt = 1; ; attempt++) {
    const lag = measureLag();
    const outcome = await test_runner.run({ ...change, pool_key: `${pool_key} ${attempt}` });
    const blocked_ms = await lag();
    if (blocked_ms < MAX_LAG_MS) return outcome;
    if (attempt === MAX_ATTACKS) expect(blocked_ms).toBeLessThan(MAX_LAG_MS);
  }
}

describe("one misbehavior of a plugin", () => {
  test.each<[string, string, RequestChange]>([
    ["dies-at-once", "crashed", {}],
    ["dies-with-words", "crashed", {}],
    ["kills-itself", "crashed", {}],
    ["prints-first", "handshake_failed", {}],
    ["never-says-hello", "handshake_failed", {}],
    ["wrong-identity", "handshake_failed", {}],
    ["wrong-protocol", "protocol_version_mismatch", {}],
    ["says-hello-twice", "handshake_failed", {}],
    ["dies-after-hello", "crashed", {}],
    ["no-status", "malformed_response", {}],
    ["lies-about-length", "frame_invalid", {}],
    ["promises-too-much", "frame_too_large", {}],
    ["writes-garbage", "frame_invalid", {}],
    ["prints-later", "frame_invalid", {}],
    ["floods-stdout", "frame_invalid", {}],
    ["dies-mid-frame", "crashed", {}],
    ["dies-on-request", "crashed", {}],
    ["closes-stdout", "crashed", {}],
    ["hangs", "timeout", { timeout_ms: 300 }],
    ["ignores-everything", "timeout", { timeout_ms: 300 }],
    ["never-reads", "timeout", { timeout_ms: 300 }],
    ["misses-a-module", "crashed", {}],
  ])("vai %s: fails with %s", async (behavior, code, change) => {
    const test_runner = createTestRunner({ timeouts: { hello_ms: 2_000, cancel_grace_ms: 100 } });
    const outcome = await attack(test_runner, vai(behavior, change));
    expect(outcome).toMatchObject({ status: "failed", result: null, error: { code } });
    expect(test_runner.runner.health().running).toBe(0);
  });

  test.each([
    ["answers-twice", 1],
    ["answers-strangers", 2],
  ])("vai %s: keeps the valid reply and counts the other as a violation", async (behavior, result) => {
    const outcome = await attack(createTestRunner(), vai(behavior));
    expect(outcome).toMatchObject({ status: "succeeded", result, violations: 1 });
  });

  test("vai floods-strangers: counts violations and kills the process at the limit", async () => {
    const outcome = await attack(createTestRunner(), vai("floods-strangers"));
    expect(outcome).toMatchObject({ status: "failed", error: { code: "crashed" } });
    expect(outcome.violations).toBeGreaterThanOrEqual(10_000);
    expect(outcome.error?.message).toContain("violated its protocol too often");
  });

  test("side floods-stdout: fails with malformed_response", async () => {
    expect((await attack(createTestRunner(), side("floods-stdout"))).error?.code).toBe("malformed_response");
  });
});

verifies("wire.backpressure", "passes on 100,000 events without blocking the event loop", async () => {
  const test_runner = createTestRunner();
  const initial_rss = process.memoryUsage().rss;
  let event_count = 0;
  const lag = measureLag();
  const outcome = await test_runner.runner.run(requestOf(vai("floods-events")), {
    event: () => event_count++,
  });
  expect(await lag()).toBeLessThan(MAX_LAG_MS);
  expect(outcome).toMatchObject({ status: "succeeded", result: "flooded" });
  expect(event_count).toBe(100_000);
  expect(process.memoryUsage().rss - initial_rss).toBeLessThan(300 * 1024 * 1024);
});

verifies(
  "wire.backpressure",
  "refuses calls over the queue limit of a plugin that never reads, without blocking the event loop",
  async () => {
    const test_runner = createTestRunner({
      timeouts: { cancel_grace_ms: 100 },
      limits: { queued_bytes: 2 * 1024 * 1024 },
    });
    const input = { text: "x".repeat(500_000) };
    const lag = measureLag();
    const initial_bytes = process.memoryUsage().arrayBuffers;
    const first = test_runner.run(vai("never-reads", { input: { text: "warm" } }));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const rest = Array.from({ length: 40 }, () =>
      test_runner.run(vai("never-reads", { input, timeout_ms: 700 })),
    );
    const outcomes = await Promise.all(rest);
    // The process that ignored their cancels was killed, and with it the call with the long deadline.
    expect((await first).error?.code).toBe("crashed");
    expect(await lag()).toBeLessThan(MAX_LAG_MS);
    const refused = outcomes.filter((outcome) => outcome.error?.code === "backpressure");
    expect(refused.length).toBeGreaterThan(30);
    expect(refused.every((outcome) => !outcome.dispatched)).toBe(true);
    const timed_out = outcomes.filter((outcome) => outcome.error?.code !== "backpressure");
    expect(timed_out.length).toBeGreaterThan(0);
    expect(new Set(timed_out.map((outcome) => outcome.error?.code))).toEqual(new Set(["timeout"]));
    expect(process.memoryUsage().arrayBuffers - initial_bytes).toBeLessThan(32 * 1024 * 1024);
  },
);

/** test/slow/runner/stderr.test.ts does the same with 1 GB. */
test("drains a flood of stderr during the call and keeps the last 1 MiB", async () => {
  const outcome = await attack(createTestRunner(), vai("floods-stderr", { input: { megabytes: 32 } }));
  expect(outcome).toMatchObject({ status: "succeeded", result: "done", violations: 0 });
  expect(outcome.stderr_tail).toHaveLength(1024 * 1024);
  expect(outcome.stderr_tail?.endsWith(`${"e".repeat(63)}\nthe end\n`)).toBe(true);
});

test("keeps the stderr since its own start for each call of a shared process", async () => {
  const test_runner = createTestRunner();
  const first = await test_runner.run(vai("writes-stderr", { input: { text: "one\n" } }));
  const second = await test_runner.run(vai("writes-stderr", { input: { text: "two\n" } }));
  const third = await test_runner.run(vai("writes-stderr", { input: { text: "" } }));
  expect([first.stderr_tail, second.stderr_tail, third.stderr_tail]).toEqual(["one\n", "two\n", null]);
});

test("redacts secrets of other calls from shared stderr", async () => {
  const test_runner = createTestRunner();
  const writeWithSecret = (token: string, text: string) =>
    test_runner.run(
      vai("writes-stderr", {
        input: { text },
        context: {
          secrets: { token },
          gateway: { base_url: "", delegation_token: "vai_dlg_own", scopes: [] },
        },
      }),
    );
  await writeWithSecret("first-secret-value", "");
  const second = await writeWithSecret(
    "second-secret-value",
    "first-secret-value vai_dlg_someone_elses second-secret-value\n",
  );
  expect(second.stderr_tail).toBe("[redacted] [redacted] [redacted]\n");
});

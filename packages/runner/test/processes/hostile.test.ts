/**
 * One plugin per misbehaviour: the exact code, exactly one outcome, the event loop free (< 50 ms), memory
 * bounded, and (in the rig) nothing left behind.
 */
import type { RunOutcome } from "@backplane/ports";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { measureLag } from "../support/event-loop-lag.ts";
import { type OrderChange, orderOf, side, vai } from "../support/order.ts";
import { makeRig, type Rig } from "../support/runner.ts";

const MAX_LAG_MS = 50;

async function attack(rig: Rig, change: OrderChange): Promise<RunOutcome> {
  const lag = measureLag();
  const outcome = await rig.run(change);
  expect(lag()).toBeLessThan(MAX_LAG_MS);
  return outcome;
}

describe("the exact code for each", () => {
  test.each<[string, string, OrderChange]>([
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
  ])("vai %s: %s", async (behaviour, code, change) => {
    const rig = makeRig({ timeouts: { hello_ms: 2_000, cancel_grace_ms: 100 } });
    const outcome = await attack(rig, vai(behaviour, change));
    expect(outcome).toMatchObject({ status: "failed", result: null, error: { code } });
    expect(rig.runner.health().running).toBe(0);
  });

  test.each([
    ["answers-twice", 1],
    ["answers-strangers", 2],
  ])("vai %s: the first reply stands, the rest is counted", async (behaviour, result) => {
    const outcome = await attack(makeRig(), vai(behaviour));
    expect(outcome).toMatchObject({ status: "succeeded", result, violations: 1 });
  });

  test("vai floods-strangers: counted until it is too much, then the process goes", async () => {
    const outcome = await attack(makeRig(), vai("floods-strangers"));
    expect(outcome).toMatchObject({ status: "failed", error: { code: "crashed" } });
    expect(outcome.violations).toBeGreaterThanOrEqual(10_000);
    expect(outcome.error?.message).toContain("broke the protocol too often");
  });

  test("side floods-stdout: malformed_response", async () => {
    expect((await attack(makeRig(), side("floods-stdout"))).error?.code).toBe("malformed_response");
  });
});

verifies("wire.backpressure", "100,000 events are passed on without holding up the loop", async () => {
  const rig = makeRig();
  const before = process.memoryUsage().rss;
  let seen = 0;
  const lag = measureLag();
  const outcome = await rig.runner.run(orderOf(vai("floods-events")), { event: () => seen++ });
  expect(lag()).toBeLessThan(MAX_LAG_MS);
  expect(outcome).toMatchObject({ status: "succeeded", result: "flooded" });
  expect(seen).toBe(100_000);
  expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024);
});

verifies(
  "wire.backpressure",
  "a plugin that never reads: calls beyond the bound are refused, undispatched, and the loop is free",
  async () => {
    const rig = makeRig({ timeouts: { cancel_grace_ms: 100 }, limits: { queued_bytes: 2 * 1024 * 1024 } });
    const input = { text: "x".repeat(500_000) };
    const lag = measureLag();
    const before = process.memoryUsage().arrayBuffers;
    const first = rig.run(vai("never-reads", { input: { text: "warm" } }));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const rest = Array.from({ length: 40 }, () => rig.run(vai("never-reads", { input, timeout_ms: 700 })));
    const outcomes = await Promise.all(rest);
    // The process that ignored their cancels took the call with the long deadline along.
    expect((await first).error?.code).toBe("crashed");
    expect(lag()).toBeLessThan(MAX_LAG_MS);
    const refused = outcomes.filter((outcome) => outcome.error?.code === "backpressure");
    expect(refused.length).toBeGreaterThan(30);
    expect(refused.every((outcome) => !outcome.dispatched)).toBe(true);
    const late = outcomes.filter((outcome) => outcome.error?.code !== "backpressure");
    expect(late.length).toBeGreaterThan(0);
    expect(new Set(late.map((outcome) => outcome.error?.code))).toEqual(new Set(["timeout"]));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 * 1024 * 1024);
  },
);

/** 1 GB of it is in test/slow/runner-stderr.test.ts. */
test("a flood of stderr is drained while the call runs, and its last 1 MiB is kept", async () => {
  const outcome = await attack(makeRig(), vai("floods-stderr", { input: { megabytes: 32 } }));
  expect(outcome).toMatchObject({ status: "succeeded", result: "done", violations: 0 });
  expect(outcome.stderr_tail).toHaveLength(1024 * 1024);
  expect(outcome.stderr_tail?.endsWith(`${"e".repeat(63)}\nthe end\n`)).toBe(true);
});

test("stderr of a shared process: each call keeps what came since its own start", async () => {
  const rig = makeRig();
  const first = await rig.run(vai("writes-stderr", { input: { text: "one\n" } }));
  const second = await rig.run(vai("writes-stderr", { input: { text: "two\n" } }));
  const third = await rig.run(vai("writes-stderr", { input: { text: "" } }));
  expect([first.stderr_tail, second.stderr_tail, third.stderr_tail]).toEqual(["one\n", "two\n", null]);
});

test("on a shared stderr the secrets of the other calls are taken out too", async () => {
  const rig = makeRig();
  const call = (token: string, text: string) =>
    rig.run(
      vai("writes-stderr", {
        input: { text },
        context: {
          secrets: { token },
          gateway: { base_url: "", delegation_token: "vai_dlg_own", scopes: [] },
        },
      }),
    );
  await call("first-secret-value", "");
  const second = await call(
    "second-secret-value",
    "first-secret-value vai_dlg_someone_elses second-secret-value\n",
  );
  expect(second.stderr_tail).toBe("[redacted] [redacted] [redacted]\n");
});

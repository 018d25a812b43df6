import { BackplaneError } from "@backplane/contract";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished, test } from "vitest";
import { NodeLease } from "../../src/node/node-lease.ts";

const TTL = 10_000;

/** A lease in a store that can become unavailable or slow, with a clock that the test advances. */
function createLease(shared = true) {
  const clock = new TestClock();
  const state = { unavailable: false, latency_ms: 0 };
  const acquire = async () => {
    clock.monotonic_offset += state.latency_ms;
    if (state.unavailable) throw new BackplaneError("store.unavailable");
    return 1;
  };
  const store = { shared, leases: { acquire, release: async () => true } };
  const host = { recovery: { interval_ms: 1, node_ttl_ms: TTL } };
  const lease = new NodeLease({ clock, log: createTestLogger(), node_id: "n", store, host } as never);
  onTestFinished(() => lease.stop());
  const advance = (ms: number) => {
    clock.monotonic_offset += ms;
  };
  return { lease, state, advance };
}

test("treats a lease as held for less than its duration, measured from when the request was sent", async () => {
  const { lease, state, advance } = createLease();
  expect(lease.isHeld()).toBe(false);
  state.latency_ms = 4_000;
  await lease.renew();
  expect(lease.isHeld()).toBe(true);
  advance(4_900);
  expect(lease.isHeld()).toBe(true);
  // 9,100 ms have passed since the request was sent, which is more than nine tenths of the lease.
  advance(200);
  expect(lease.isHeld()).toBe(false);
  await lease.renew();
  expect([lease.isHeld(), lease.lapses]).toEqual([true, 2]);
});

test("allows a takeover only after the store was reachable for the whole duration of a lease", async () => {
  const { lease, state, advance } = createLease();
  await lease.renew();
  expect(lease.mayTakeOver()).toBe(false);
  const renewFor = async (ms: number) => {
    for (let remaining = ms; remaining > 0; remaining -= 2_500) {
      advance(2_500);
      await lease.renew();
    }
  };
  await renewFor(TTL);
  expect(lease.mayTakeOver()).toBe(true);
  // One failed renewal counts as an outage, however short.
  state.unavailable = true;
  await expect(lease.renew()).rejects.toMatchObject({ code: "store.unavailable" });
  state.unavailable = false;
  await lease.renew();
  expect([lease.isHeld(), lease.mayTakeOver()]).toEqual([true, false]);
  await renewFor(7_500);
  expect(lease.mayTakeOver()).toBe(false);
  await renewFor(2_500);
  expect(lease.mayTakeOver()).toBe(true);
  // A gateway that was frozen does not notice an outage.
  advance(TTL);
  expect(lease.mayTakeOver()).toBe(false);
  await lease.renew();
  expect(lease.mayTakeOver()).toBe(false);
});

test("confirm resolves when the lease is renewed and rejects when it is not", async () => {
  const { lease, state, advance } = createLease();
  await lease.renew();
  advance(TTL);
  state.unavailable = true;
  await expect(lease.confirm(20)).rejects.toMatchObject({ code: "store.unavailable" });
  const lapsed: number[] = [];
  lease.onLapsed(() => lapsed.push(lease.lapses));
  const confirmation = lease.confirm(60_000);
  state.unavailable = false;
  await lease.renew();
  await confirmation;
  expect(lapsed).toEqual([2]);
});

test("always holds the lease of a store that is not shared", async () => {
  const { lease, advance } = createLease(false);
  await lease.start();
  advance(10 * TTL);
  expect([lease.isHeld(), lease.mayTakeOver()]).toEqual([true, true]);
});

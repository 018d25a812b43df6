import { BackplaneError } from "@backplane/contract";
import { TestClock } from "@backplane/test-kit/kernel/clock";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { expect, onTestFinished, test } from "vitest";
import { NodeLease } from "../../src/node/node-lease.ts";

const TTL = 10_000;

/** A store with its own clock that can become unavailable. */
function setUp(shared = true) {
  const clock = new TestClock();
  const state = { away: false, asked: 0, during: 0 };
  const acquire = async () => {
    state.asked++;
    clock.monotonic_offset += state.during;
    if (state.away) throw new BackplaneError("store.unavailable");
    return 1;
  };
  const store = { shared, leases: { acquire, release: async () => true } };
  const host = { recovery: { interval_ms: 1, node_ttl_ms: TTL } };
  const lease = new NodeLease({ clock, log: createTestLogger(), node_id: "n", store, host } as never);
  onTestFinished(() => lease.stop());
  const later = (ms: number) => {
    clock.monotonic_offset += ms;
  };
  return { lease, state, later };
}

test("treats a lease as held for less than its duration, measured from when the request was sent", async () => {
  const { lease, state, later } = setUp();
  expect(lease.held()).toBe(false);
  state.during = 4_000;
  await lease.renew();
  expect(lease.held()).toBe(true);
  later(4_900);
  expect(lease.held()).toBe(true);
  // 9,100 ms have passed since the request was sent, which is more than nine tenths of the lease.
  later(200);
  expect(lease.held()).toBe(false);
  await lease.renew();
  expect([lease.held(), lease.lapses]).toEqual([true, 2]);
});

test("takes over the work of other nodes only after it reached the store for a whole lease", async () => {
  const { lease, state, later } = setUp();
  await lease.renew();
  expect(lease.mayTakeOver()).toBe(false);
  const keep = async (ms: number) => {
    for (let left = ms; left > 0; left -= 2_500) {
      later(2_500);
      await lease.renew();
    }
  };
  await keep(TTL);
  expect(lease.mayTakeOver()).toBe(true);
  // One failed renewal counts as an outage, however short.
  state.away = true;
  await expect(lease.renew()).rejects.toMatchObject({ code: "store.unavailable" });
  state.away = false;
  await lease.renew();
  expect([lease.held(), lease.mayTakeOver()]).toEqual([true, false]);
  await keep(7_500);
  expect(lease.mayTakeOver()).toBe(false);
  await keep(2_500);
  expect(lease.mayTakeOver()).toBe(true);
  // A gateway that was frozen does not notice an outage.
  later(TTL);
  expect(lease.mayTakeOver()).toBe(false);
  await lease.renew();
  expect(lease.mayTakeOver()).toBe(false);
});

test("confirm resolves when the lease is renewed and rejects when it is not", async () => {
  const { lease, state, later } = setUp();
  await lease.renew();
  later(TTL);
  state.away = true;
  await expect(lease.confirm(20)).rejects.toMatchObject({ code: "store.unavailable" });
  const lapsed: number[] = [];
  lease.onLapsed(() => lapsed.push(lease.lapses));
  const waiting = lease.confirm(60_000);
  state.away = false;
  await lease.renew();
  await waiting;
  expect(lapsed).toEqual([2]);
});

test("always holds the lease of a store that is not shared", async () => {
  const { lease, later } = setUp(false);
  await lease.start();
  later(10 * TTL);
  expect([lease.held(), lease.mayTakeOver()]).toEqual([true, true]);
});

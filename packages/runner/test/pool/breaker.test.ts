import { expect, test } from "vitest";
import { Breaker } from "../../src/pool/breaker.ts";
import { ManualClock } from "../support/manual-clock.ts";

const subject = { pool_key: "k", binding_id: "bind_1", package_id: "acme/a", digest: "sha256:1" };

function createFailedBreaker(times: number) {
  const clock = new ManualClock();
  const breaker = new Breaker(clock);
  for (let i = 0; i < times; i++) {
    expect(breaker.checkLaunch(subject).kind).toBe("launch");
    breaker.recordFailure(subject, `death ${i + 1}`);
    clock.advance(1_000);
  }
  return { clock, breaker };
}

test("refuses to start a plugin after three failures until the first is five minutes old", () => {
  const { clock, breaker } = createFailedBreaker(3);
  const held = breaker.checkLaunch(subject);
  expect(held).toEqual({
    kind: "held_back",
    failures: 3,
    retry_at: clock.now() - 3_000 + 300_000,
    last_error: "death 3",
  });
  expect(breaker.listHeldBack()).toMatchObject([{ binding_id: "bind_1", package_id: "acme/a", failures: 3 }]);
  clock.advance(300_000 - 3_001);
  expect(breaker.checkLaunch(subject).kind).toBe("held_back");
  clock.advance(1);
  expect(breaker.listHeldBack()).toEqual([]);
  expect(breaker.checkLaunch(subject).kind).toBe("launch");
});

test("starts counting anew for another generation or digest, and after a success", () => {
  const { breaker } = createFailedBreaker(3);
  expect(breaker.checkLaunch({ ...subject, pool_key: "k2" }).kind).toBe("launch");
  expect(breaker.checkLaunch({ ...subject, digest: "sha256:2" }).kind).toBe("launch");
  const second = createFailedBreaker(2).breaker;
  second.checkLaunch(subject);
  second.recordSuccess(subject);
  for (let i = 0; i < 3; i++) {
    expect(second.checkLaunch(subject).kind).toBe("launch");
    second.recordFailure(subject, "again");
  }
  expect(second.checkLaunch(subject).kind).toBe("held_back");
});

test("counts pending launches, so that at most three run concurrently", async () => {
  const breaker = new Breaker(new ManualClock());
  for (let i = 0; i < 3; i++) expect(breaker.checkLaunch(subject).kind).toBe("launch");
  const fourth = breaker.checkLaunch(subject);
  expect(fourth.kind).toBe("wait");
  breaker.recordAbandoned(subject);
  if (fourth.kind === "wait") await fourth.settled;
  expect(breaker.checkLaunch(subject).kind).toBe("launch");
  breaker.recordSuccess(subject);
  for (let i = 0; i < 50; i++) expect(breaker.checkLaunch(subject).kind).toBe("launch");
});

test("drops the history of old generations of a binding", () => {
  const { breaker } = createFailedBreaker(3);
  breaker.forget("bind_other");
  breaker.forget("bind_1", "k");
  expect(breaker.listHeldBack()).toHaveLength(1);
  breaker.forget("bind_1");
  expect(breaker.listHeldBack()).toHaveLength(0);
});

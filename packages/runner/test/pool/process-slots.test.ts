import { expect, test } from "vitest";
import { ProcessSlots } from "../../src/pool/process-slots.ts";

test("never hands out more slots than exist, and serves the queue in order", async () => {
  const slots = new ProcessSlots(2, 10);
  expect([slots.tryTake(), slots.tryTake(), slots.tryTake()]).toEqual([true, true, false]);
  const served: string[] = [];
  const take = (name: string) => slots.take(() => {}).then((has_slot) => served.push(`${name} ${has_slot}`));
  const queued = [take("first"), take("second")];
  expect([slots.waiting, slots.hasFree]).toEqual([2, false]);
  slots.release();
  await queued[0];
  slots.release();
  await queued[1];
  expect(served).toEqual(["first true", "second true"]);
  // Both slots were passed on; none is free before both are released.
  expect(slots.tryTake()).toBe(false);
  slots.release();
  slots.release();
  expect([slots.tryTake(), slots.tryTake(), slots.tryTake()]).toEqual([true, true, false]);
});

test("does not let callers overtake the queue, and removes only the caller that cancels", async () => {
  const slots = new ProcessSlots(1, 10);
  slots.tryTake();
  let cancel = () => {};
  const cancelled = slots.take((leave) => {
    cancel = leave;
  });
  const second = slots.take(() => {});
  cancel();
  expect(await cancelled).toBe(false);
  cancel();
  expect(slots.waiting).toBe(1);
  slots.release();
  expect([await second, slots.waiting]).toEqual([true, 0]);
});

test("limits the length of the queue", () => {
  const slots = new ProcessSlots(1, 1);
  slots.tryTake();
  void slots.take(() => {});
  expect(() => slots.take(() => {})).toThrow(expect.objectContaining({ code: "request.overloaded" }));
});

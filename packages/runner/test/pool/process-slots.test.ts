import { expect, test } from "vitest";
import { Slots } from "../../src/pool/process-slots.ts";

test("no more are taken than there are, and who waits is served in the order of coming", async () => {
  const slots = new Slots(2, 10);
  expect([slots.tryTake(), slots.tryTake(), slots.tryTake()]).toEqual([true, true, false]);
  const served: string[] = [];
  const waits = (name: string) => slots.take(() => {}).then((taken) => served.push(`${name} ${taken}`));
  const line = [waits("first"), waits("second")];
  expect([slots.waiting, slots.free]).toEqual([2, false]);
  slots.release();
  await line[0];
  slots.release();
  await line[1];
  expect(served).toEqual(["first true", "second true"]);
  // Both slots went from hand to hand; none is free before both are given back.
  expect(slots.tryTake()).toBe(false);
  slots.release();
  slots.release();
  expect([slots.tryTake(), slots.tryTake(), slots.tryTake()]).toEqual([true, true, false]);
});

test("nobody passes those who wait, and who leaves the line loses only its own place", async () => {
  const slots = new Slots(1, 10);
  slots.tryTake();
  let leave = () => {};
  const gone = slots.take((way) => {
    leave = way;
  });
  const stays = slots.take(() => {});
  leave();
  expect(await gone).toBe(false);
  leave();
  expect(slots.waiting).toBe(1);
  slots.release();
  expect([await stays, slots.waiting]).toEqual([true, 0]);
});

test("the line has an end", () => {
  const slots = new Slots(1, 1);
  slots.tryTake();
  void slots.take(() => {});
  expect(() => slots.take(() => {})).toThrow(expect.objectContaining({ code: "request.overloaded" }));
});

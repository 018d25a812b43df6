import { expect, test } from "vitest";
import { Strangers, type VaiViolation } from "../src/peers/strangers.ts";

test("a frame that fits no request is counted for what it is", () => {
  const counted: VaiViolation[] = [];
  const strangers = new Strangers((violation) => counted.push(violation));
  strangers.settled("replied", "replied");
  strangers.settled("given-up", "abandoned");
  for (const as of ["second_reply", "event_after_reply"] as const)
    for (const id of ["replied", "given-up", "never", "", 7, undefined]) strangers.came(id, as);
  const unexpected = { kind: "unexpected_frame" };
  expect(counted).toEqual([
    { kind: "second_reply", request_id: "replied" },
    { kind: "late_reply", request_id: "given-up" },
    { kind: "unknown_id" },
    unexpected,
    unexpected,
    unexpected,
    { kind: "event_after_reply", request_id: "replied" },
    { kind: "event_after_reply", request_id: "given-up" },
    { kind: "unknown_id" },
    unexpected,
    unexpected,
    unexpected,
  ]);
});

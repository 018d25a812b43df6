import { expect, test } from "vitest";
import { UnmatchedFrames, type VaiViolation } from "../src/peers/unmatched-frames.ts";

test("classifies frames that match no pending request", () => {
  const counted: VaiViolation[] = [];
  const unmatched = new UnmatchedFrames((violation) => counted.push(violation));
  unmatched.requestEnded("replied", "replied");
  unmatched.requestEnded("given-up", "abandoned");
  for (const as of ["second_reply", "event_after_reply"] as const)
    for (const id of ["replied", "given-up", "never", "", 7, undefined]) unmatched.count(id, as);
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

import { expect, test } from "vitest";
import { UnmatchedFrames, type VaiViolation } from "../../src/peers/unmatched-frames.ts";

test("classifies frames that match no pending request", () => {
  const violations: VaiViolation[] = [];
  const unmatched = new UnmatchedFrames((violation) => violations.push(violation));
  unmatched.recordEnd("replied", "replied");
  unmatched.recordEnd("abandoned", "abandoned");
  for (const kind of ["second_reply", "event_after_reply"] as const)
    for (const id of ["replied", "abandoned", "never", "", 7, undefined]) unmatched.report(id, kind);
  const unexpected = { kind: "unexpected_frame" };
  expect(violations).toEqual([
    { kind: "second_reply", request_id: "replied" },
    { kind: "late_reply", request_id: "abandoned" },
    { kind: "unknown_id" },
    unexpected,
    unexpected,
    unexpected,
    { kind: "event_after_reply", request_id: "replied" },
    { kind: "event_after_reply", request_id: "abandoned" },
    { kind: "unknown_id" },
    unexpected,
    unexpected,
    unexpected,
  ]);
});

import { expect, test } from "vitest";
import { attachCalls } from "../../../src/pages/sessions/attach-calls.ts";
import { buildTranscript } from "../../../src/pages/sessions/build-transcript.ts";
import { groupOpenApprovals, rowKey } from "../../../src/pages/sessions/transcript-rows.ts";
import { approval, toolCall } from "../../support/sample-tape.ts";

test("groups identical open approvals under the first of them", () => {
  const items = buildTranscript([toolCall(1, "pay", {}), toolCall(5, "pay", {}), toolCall(6, "read", {})]);
  attachCalls(
    items,
    [
      approval("a", "pay", {}, 1),
      approval("b", "pay", {}, 5),
      approval("c", "read", {}, 6, { status: "approved" }),
    ],
    [],
  );
  const groups = [...groupOpenApprovals(items)].map(([id, all]) => [id, all.map((each) => each.id)]);
  expect(groups).toEqual([["a", ["a", "b"]]]);
  expect(items.map(rowKey)).toEqual(["tool c1", "tool c5", "tool c6"]);
});

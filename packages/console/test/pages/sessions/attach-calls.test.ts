import type { Invocation } from "@backplane/contract";
import { expect, test } from "vitest";
import { attachCalls } from "../../../src/pages/sessions/attach-calls.ts";
import { buildTranscript, type ToolItem } from "../../../src/pages/sessions/build-transcript.ts";
import { approval, date, entry, toolCall } from "../../support/sample-tape.ts";

test("attaches approvals and invocations to their calls, and returns the approvals without a call", () => {
  const items = buildTranscript([
    toolCall(1, "pay", { to: "a", sum: 1 }),
    entry(2, "tool_result", { tool_call_id: "c1", ok: true }),
    toolCall(5, "pay", { sum: 1, to: "a" }),
    toolCall(6, "read", {}),
  ]);
  const [first, second, third] = items as ToolItem[];
  const others = attachCalls(
    items,
    [
      approval("late", "pay", { to: "a", sum: 1 }, 5),
      approval("early", "pay", { to: "a", sum: 1 }, 1, { status: "approved" }),
      approval("other", "write", {}, 6),
    ],
    [
      { id: "inv_early", export_id: "pay", input: { to: "a", sum: 1 }, created_at: date(1) },
      { id: "inv_read", export_id: "read", input: {}, created_at: date(6) },
    ] as unknown as Invocation[],
  );
  expect(first!.approval?.id).toBe("early");
  expect(first!.invocation?.id).toBe("inv_early");
  expect(second!.approval?.id).toBe("late");
  expect(third!.invocation?.id).toBe("inv_read");
  expect(others.map(({ id }) => id)).toEqual(["other"]);
  attachCalls(items, [approval("changed", "pay", { to: "b" }, 7, { replaces: "late" })], []);
  expect(second!.approval?.id).toBe("changed");
});

test("gives identical calls within one second their own approvals and records", () => {
  const items = buildTranscript([1, 2, 3].map((id) => toolCall(id, "pay", {}, 1)));
  attachCalls(
    items,
    [
      approval("a", "pay", {}, 1, { status: "approved" }),
      approval("b", "pay", {}, 1, { status: "approved", requested_at: "2026-01-01T00:00:01.100Z" }),
      approval("c", "pay", {}, 1, { requested_at: "2026-01-01T00:00:01.200Z" }),
      approval("d", "pay", { to: "d" }, 2, { replaces: "c" }),
      approval("e", "pay", { to: "e" }, 3, { replaces: "d" }),
    ],
    [],
  );
  expect(items.map((item) => (item as ToolItem).approval?.id)).toEqual(["a", "b", "e"]);
  const reads = buildTranscript([toolCall(1, "read", {}, 1), toolCall(2, "read", {}, 1)]);
  const read = (id: string, at: string) => ({ id, export_id: "read", input: {}, created_at: at });
  const records = [read("first", date(1)), read("second", "2026-01-01T00:00:01.100Z")];
  attachCalls(reads, [], records as unknown as Invocation[]);
  expect(reads.map((item) => (item as ToolItem).invocation?.id)).toEqual(["first", "second"]);
});

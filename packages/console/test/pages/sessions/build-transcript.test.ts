import type { Approval, Entry, Session } from "@backplane/contract";
import { expect, test } from "vitest";
import { buildTranscript } from "../../../src/pages/sessions/build-transcript.ts";
import { date, entry } from "../../support/sample-tape.ts";

/** An entry with an event id. An entry that a compaction repeats has the same event id. */
const eventEntry = (
  id: number,
  kind: Entry["kind"],
  payload: Entry["payload"],
  event_id = `e${id}`,
): Entry => ({
  ...entry(id, kind, payload),
  meta: { event_id },
});
const describeItems = (items: ReturnType<typeof buildTranscript>) =>
  items.map((item) =>
    item.type === "tool"
      ? `${item.name} ${item.status}`
      : item.type === "approval"
        ? item.approval.tool
        : item.type === "sub-agent"
          ? item.session.id
          : `${item.type}: ${"text" in item ? item.text : item.message}`,
  );

test("shows text that was sent with tool calls, thoughts, approvals and sub-agents in order", () => {
  const approval = { tool: "approve pay", requested_at: date(5) } as Approval;
  const items = buildTranscript(
    [
      eventEntry(1, "anchor", { name: "session/start" }),
      eventEntry(2, "message", { role: "user", content: "pay" }),
      eventEntry(3, "tool_call", { id: "c1", name: "pay", args: {} }),
      eventEntry(4, "event", {
        name: "llm.call.response",
        data: { text: "Paying.", tool_calls: [{ id: "c1" }] },
      }),
      eventEntry(6, "tool_result", { tool_call_id: "c1", ok: false, error: "no money" }),
      eventEntry(7, "message", { role: "assistant", content: "It failed." }),
    ],
    [approval],
    [{ text: "Hm.", after: 2 }],
    [{ id: "s::agent::1", created_at: date(6) } as Session],
  );
  expect(describeItems(items)).toEqual([
    "user: pay",
    "thinking: Hm.",
    "assistant: Paying.",
    "pay failed",
    "approve pay",
    "s::agent::1",
    "assistant: It failed.",
  ]);
});

test("shows an entry that a compaction repeats only once, and marks a reset", () => {
  const items = buildTranscript([
    eventEntry(1, "message", { role: "user", content: "hello" }),
    eventEntry(2, "anchor", { name: "compaction", state: { kind: "compaction", summary: "They met." } }),
    eventEntry(3, "message", { role: "user", content: "hello" }, "e1"),
    eventEntry(4, "anchor", { name: "session/start" }),
  ]);
  expect(describeItems(items)).toEqual([
    "user: hello",
    "marker: Earlier messages were summarized",
    "marker: The session was reset; the model does not see the messages above",
  ]);
});

test("leaves out a result whose call is not loaded, and the entries that a compaction repeats", () => {
  const entries = [
    entry(8, "tool_result", { tool_call_id: "c1", ok: true }),
    entry(9, "anchor", { name: "compaction", state: { kind: "compaction", summary: "s" } }),
    entry(10, "message", { role: "user", content: "repeated" }, 4),
    entry(11, "message", { role: "user", content: "new" }),
  ];
  const shown = (partial: boolean) =>
    buildTranscript(entries, [], [], [], partial).map((item) => ("text" in item ? item.text : item.type));
  expect(shown(true)).toEqual(["Earlier messages were summarized", "new"]);
  expect(shown(false)).toEqual(["tool", "Earlier messages were summarized", "new"]);
});

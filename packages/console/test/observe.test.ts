import type { Approval, Entry, SemanticEvent, Session } from "@backplane/contract";
import { expect, test } from "vitest";
import { addUpdate, type LiveTurn } from "../src/api/session-stream.ts";
import { filterEvents, toJsonLines } from "../src/pages/events/event-text.ts";
import { buildTranscript } from "../src/pages/sessions/build-transcript.ts";
import { checkInstrument, checkPluginHealth, worstStatus } from "../src/parts/health/health-checks.ts";

const date = (id: number) => `2026-01-01T00:00:${String(id).padStart(2, "0")}.000Z`;
const entry = (id: number, kind: Entry["kind"], payload: Entry["payload"], event_id = `e${id}`): Entry => ({
  id,
  kind,
  payload,
  meta: { event_id },
  date: date(id),
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
      entry(1, "anchor", { name: "session/start" }),
      entry(2, "message", { role: "user", content: "pay" }),
      entry(3, "tool_call", { id: "c1", name: "pay", args: {} }),
      entry(4, "event", {
        name: "llm.call.response",
        data: { text: "Paying.", tool_calls: [{ id: "c1" }] },
      }),
      entry(6, "tool_result", { tool_call_id: "c1", ok: false, error: "no money" }),
      entry(7, "message", { role: "assistant", content: "It failed." }),
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
    entry(1, "message", { role: "user", content: "hello" }),
    entry(2, "anchor", { name: "compaction", state: { kind: "compaction", summary: "They met." } }),
    entry(3, "message", { role: "user", content: "hello" }, "e1"),
    entry(4, "anchor", { name: "session/start" }),
  ]);
  expect(describeItems(items)).toEqual([
    "user: hello",
    "marker: Earlier messages were summarized",
    "marker: The session was reset; the messages above are archived",
  ]);
});

test("joins the pieces of an answer, and replaces them with the whole text after a reconnect", () => {
  const delta = (content: string, more: object = {}) => ({
    event: { kind: "assistant.message.delta", payload: { content, iteration: 1, ...more } } as never,
    entry_id: null,
  });
  const start: LiveTurn = { answer: null, thoughts: [], progress: {} };
  const joined = [delta("one"), delta(" two")].reduce((turn, update) => addUpdate(turn, update, 4), start);
  expect(joined.answer?.text).toBe("one two");
  const whole = addUpdate(joined, delta("one two three", { catch_up: true }), 4);
  expect(whole.answer?.text).toBe("one two three");
  const done = { event: { kind: "assistant.message.done", payload: {} } as never, entry_id: 5 };
  const stored = addUpdate(whole, done, 5);
  expect(stored.answer?.stored_as).toBe(5);
  expect(addUpdate(stored, delta("next"), 5).answer?.text).toBe("next");
});

test("joins the pieces of the thinking, and replaces them with the whole text after a reconnect", () => {
  const delta = (request_id: string, thinking: string, more: object = {}) => ({
    event: { kind: "llm.call.delta", payload: { request_id, thinking, ...more } } as never,
    entry_id: null,
  });
  const start: LiveTurn = { answer: null, thoughts: [], progress: {} };
  const turn = [
    delta("a", "one"),
    delta("a", " two"),
    delta("a", "one two three", { catch_up: true }),
    delta("b", "four", { catch_up: true }),
    delta("b", " five"),
  ].reduce((current, update) => addUpdate(current, update, 4), start);
  expect(turn.thoughts.map(({ text }) => text)).toEqual(["one two three", "four five"]);
});

test("filters events and exports them oldest first", () => {
  const event = (seq: number, type: string, session_id: string) =>
    ({ seq, type, session_id, summary: {} }) as unknown as SemanticEvent;
  const events = [event(3, "run.failed", "b"), event(2, "run.started", "a"), event(1, "run.started", "b")];
  expect(filterEvents(events, { session: "b", q: "STARTED" }).map(({ seq }) => seq)).toEqual([1]);
  expect(filterEvents(events, {})).toEqual(events);
  const lines = toJsonLines(events).trimEnd().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as SemanticEvent).seq)).toEqual([1, 2, 3]);
});

test("names the command that fixes a plugin, and does not count a stopped instrument as a problem", () => {
  const plugin = checkPluginHealth({
    name: "llm-openai",
    status: "failed",
    summary: "no key",
    details: [{ name: "key", status: "failed", config_key: "providers.llm-openai.model" }],
  });
  expect(plugin.fix).toBe("backplane config set providers.llm-openai.model VALUE");
  const stopped = checkInstrument({
    plugin_id: "p",
    binding_id: "b",
    instrument: "scope",
    status: "Unknown",
    seen_at: null,
    message: null,
  });
  expect(stopped.status).toBe("ok");
  expect(worstStatus([stopped, plugin])).toBe("failed");
});

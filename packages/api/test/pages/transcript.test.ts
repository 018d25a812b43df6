import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

interface Item {
  type: string;
  text?: string;
  status?: string;
  streaming?: boolean;
  note?: string;
  of?: string;
  code?: string;
  brief?: string;
  progress?: { status?: string; output?: string };
}
interface Transcript {
  items: Item[];
  last: number;
  running: boolean;
  run_id: string | null;
  receive(op: unknown): void;
  reattached(): void;
  endRun(error: { code: string; message: string }): void;
}
const path = new URL("../../static/chat/transcript.js", import.meta.url).href;
const { Transcript } = (await import(path)) as { Transcript: new (view: object) => Transcript };

/** A transcript, and a page that only records the order of its updates. */
function createTranscript() {
  const page: Item[] = [];
  const transcript = new Transcript({
    added(item: Item, next: Item | null) {
      page.splice(next === null ? page.length : page.indexOf(next), 0, item);
    },
    changed() {},
    removed: (item: Item) => void page.splice(page.indexOf(item), 1),
    state() {},
  });
  const event = (kind: string, payload: object, ts = 100) => ({ kind, payload, ts });
  return {
    transcript,
    live: (entry_id: number, kind: string, payload: object) =>
      transcript.receive({ op: "event", event: event(kind, payload), entry_id }),
    replay: (entry_id: number, kind: string, payload: object, ts = 100) =>
      transcript.receive({
        op: "event",
        event: event("session.replay.entry", { entry_id, kind, payload }, ts),
        entry_id,
      }),
    delta: (content: string, more: object = {}) =>
      transcript.receive({ op: "event", event: event("assistant.message.delta", { content, ...more }) }),
    texts: () => page.map(({ type, text, of, status }) => `${type}: ${text ?? of ?? status ?? ""}`),
    page,
  };
}

const call = { id: "c1", name: "look", args: {} };

test("shows a replayed turn in the same way as a live one", () => {
  const live = createTranscript();
  live.live(1, "user.message.received", { text: "go" });
  live.delta("Loo", { iteration: 1 });
  live.delta("king", { iteration: 1 });
  live.live(2, "llm.call.response", { text: "Looking.", tool_calls: [call], usage: {} });
  live.live(3, "tool.call.request", call);
  live.live(4, "tool.call.result", {
    id: "c1",
    ok: true,
    envelope: { brief: "seen", display: { kind: "text", text: "x" } },
  });
  live.delta("Do", { iteration: 2 });
  live.live(5, "assistant.message.done", { content: "Done.", tool_calls: [], status: "completed" });

  const replayed = createTranscript();
  replayed.replay(1, "message", { role: "user", content: "go" });
  // The entry of the model's response is written on a best-effort basis, so it may follow the call that it contains.
  replayed.replay(2, "tool_call", call);
  replayed.replay(3, "event", { name: "llm.call.response", data: { text: "Looking.", tool_calls: [call] } });
  replayed.replay(4, "tool_result", {
    tool_call_id: "c1",
    ok: true,
    envelope: { brief: "seen", display: { kind: "text", text: "x" } },
  });
  replayed.replay(5, "message", { role: "assistant", content: "Done." });
  const expected = ["user: go", "assistant: Looking.", "tool: ok", "assistant: Done."];
  expect(live.texts()).toEqual(expected);
  expect(replayed.texts()).toEqual(expected);
  expect([live.transcript.running, replayed.transcript.running]).toEqual([false, false]);
});

test("ignores repeated entries and resumes after the last one", () => {
  const { replay, live, texts, transcript } = createTranscript();
  replay(1, "message", { role: "user", content: "go" });
  live(1, "user.message.received", { text: "go" });
  replay(2, "message", { role: "assistant", content: "done" });
  replay(1, "message", { role: "user", content: "go" });
  expect(texts()).toEqual(["user: go", "assistant: done"]);
  expect(transcript.last).toBe(2);
});

test("replaces streamed text on catch-up, and with the final answer if it ended in the meantime", () => {
  const { live, delta, texts, transcript } = createTranscript();
  live(1, "user.message.received", { text: "go" });
  delta("half an ans");
  transcript.reattached();
  delta("half an answ", { catch_up: true });
  // The server may also send a catch-up to a connected client, for example after a compaction.
  delta("half an answer", { catch_up: true });
  delta(", whole");
  expect(texts()).toEqual(["user: go", "assistant: half an answer, whole"]);
  transcript.reattached();
  live(2, "assistant.message.done", { content: "The end.", tool_calls: [] });
  expect(texts()).toEqual(["user: go", "assistant: The end."]);
});

test("marks an interrupted answer, and adds a marker when it has no text", () => {
  for (const text of ["some", ""]) {
    const { live, replay, page } = createTranscript();
    live(1, "user.message.received", { text: "go" });
    live(2, "user.interrupt", {});
    live(3, "assistant.message.done", { content: text, tool_calls: [], status: "cancelled" });
    replay(4, "message", { role: "user", content: "go" });
    replay(5, "event", { name: "user.interrupt", data: {} });
    replay(6, "message", { role: "assistant", content: text });
    const marks = page.filter(({ type }) => type !== "user").map(({ note, of }) => note ?? of);
    expect(marks).toEqual(text === "" ? ["interrupted", "interrupted"] : ["Interrupted", "Interrupted"]);
  }
});

test("ends a turn that a crash interrupted with an error, and marks its open calls as failed", () => {
  const { replay, delta, page, transcript } = createTranscript();
  replay(1, "message", { role: "user", content: "go" });
  replay(2, "event", { name: "strategy.decide.request", data: { state: { run_id: "run_1" } } });
  replay(3, "tool_call", call);
  delta("half");
  expect(transcript.run_id).toBe("run_1");
  transcript.endRun({ code: "loop.failed", message: "the gateway stopped" });
  expect(page.map(({ type, status, code }) => [type, status ?? code])).toEqual([
    ["user", undefined],
    ["tool", "error"],
    ["error", "loop.failed"],
  ]);
  expect(transcript.running).toBe(false);
});

test("shows entries that a compaction repeats after its anchor only once", () => {
  const { replay, texts } = createTranscript();
  replay(1, "anchor", { name: "session/start", state: {} }, 1);
  replay(2, "message", { role: "user", content: "old" }, 10);
  replay(3, "message", { role: "assistant", content: "older" }, 11);
  replay(4, "anchor", { name: "session/compaction", state: { kind: "compaction", summary: "s" } }, 50);
  replay(5, "message", { role: "user", content: "old" }, 10);
  replay(6, "message", { role: "assistant", content: "older" }, 11);
  replay(7, "message", { role: "user", content: "new" }, 60);
  expect(texts()).toEqual(["user: old", "assistant: older", "marker: compaction", "user: new"]);
});

test("places a message sent during an answer before that answer", () => {
  const { live, delta, texts } = createTranscript();
  live(1, "user.message.received", { text: "go" });
  delta("Wor");
  live(2, "user.message.received", { text: "and this" });
  delta("king");
  live(3, "assistant.message.done", { content: "Working", tool_calls: [], status: "completed" });
  expect(texts()).toEqual(["user: go", "user: and this", "assistant: Working"]);
});

test("collects the thinking of each model call in one item before its answer", () => {
  const { transcript, live, delta, texts } = createTranscript();
  const think = (thinking: string, request_id: string) =>
    transcript.receive({
      op: "event",
      event: { kind: "llm.call.delta", payload: { thinking, request_id }, ts: 1 },
    });
  live(1, "user.message.received", { text: "go" });
  think("First ", "evt_1");
  think("this.", "evt_1");
  delta("Loo", { iteration: 1 });
  think(" And that.", "evt_1");
  live(2, "llm.call.response", { text: "Looking.", tool_calls: [call], usage: {} });
  live(3, "tool.call.request", call);
  think("Now that.", "evt_2");
  live(4, "assistant.message.done", { content: "Done.", tool_calls: [], status: "completed" });
  expect(texts()).toEqual([
    "user: go",
    "thinking: First this. And that.",
    "assistant: Looking.",
    "tool: running",
    "thinking: Now that.",
    "assistant: Done.",
  ]);
});

verifies(
  ["content.blocks", "content.errors"],
  "keeps the blocks, the status and the failure of a result",
  () => {
    const content = [{ type: "image", data: "AAAA", mimeType: "image/png" }];
    const failure = { kind: "failed", code: "plugin_failed", retryable: false, stderr: "x" };
    const result = {
      ok: false,
      error: "no",
      content,
      failure,
      status: "timed out",
      envelope: { kind: "failed" },
    };
    const live = createTranscript();
    live.live(1, "tool.call.request", call);
    live.live(2, "tool.call.result", { id: "c1", ...result });
    const replayed = createTranscript();
    replayed.replay(1, "tool_call", call);
    replayed.replay(2, "tool_result", { tool_call_id: "c1", ...result });
    for (const { page } of [live, replayed])
      expect(page[0]).toMatchObject({ status: "error", kind: "failed", content, failure, note: "timed out" });
  },
);

verifies("content.progress", "shows the status and the collected output of a running tool", () => {
  const { transcript, live, replay, page } = createTranscript();
  const progress = (payload: object) =>
    transcript.receive({
      op: "event",
      event: { kind: "x.loop.tool.progress", payload: { id: "c1", ...payload } },
    });
  live(1, "tool.call.request", call);
  progress({ status: "halfway", output: "a" });
  progress({ output: "b" });
  progress({ id: "unknown", output: "c" });
  expect(page).toHaveLength(1);
  expect(page[0]).toMatchObject({ status: "running", progress: { status: "halfway", output: "ab" } });
  progress({ output: "x".repeat(20_000) });
  expect(page[0]!.progress!.output).toHaveLength(8_000);
  replay(2, "tool_result", { tool_call_id: "c1", ok: true, progress: { output: "end" } });
  progress({ output: "late" });
  expect(page[0]!.progress).toEqual({ output: "end" });
});

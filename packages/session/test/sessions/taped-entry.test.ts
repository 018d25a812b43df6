import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type TapedEvent, toTapedEntry } from "../../src/sessions/taped-entry.ts";
import { share } from "../../src/snapshot/snapshot.ts";

const event = (kind: string, payload: TapedEvent["payload"], session_id = "sess_1"): TapedEvent => ({
  id: "evt_1",
  kind,
  session_id,
  ts: 1_793_527_200.25,
  source: "acme",
  payload,
});
const tapedContent = (kind: string, payload: TapedEvent["payload"]) => {
  const taped = toTapedEntry(event(kind, payload));
  return taped === null ? null : { kind: taped.entry.kind, payload: taped.entry.payload };
};

verifies(
  "tape.append-only",
  "maps bus events to the entries that the published persistence table specifies",
  () => {
    expect(tapedContent("user.message.received", { text: "hi" })).toEqual({
      kind: "message",
      payload: { role: "user", content: "hi" },
    });
    expect(tapedContent("user.message.received", { text: "see", attachments: [{ name: "a" }] })).toEqual({
      kind: "message",
      payload: { role: "user", content: "see", attachments: [{ name: "a" }] },
    });
    expect(tapedContent("assistant.message.done", { content: "hello", tool_calls: [] })).toEqual({
      kind: "message",
      payload: { role: "assistant", content: "hello" },
    });
    const calls = [{ id: "c1", name: "search", args: {} }];
    expect(tapedContent("assistant.message.done", { content: "", tool_calls: calls })).toEqual({
      kind: "message",
      payload: { role: "assistant", content: "", tool_calls: calls },
    });
    expect(
      tapedContent("tool.call.request", { id: "c1", name: "search", args: { q: 1 }, schema_version: "v1" }),
    ).toEqual({ kind: "tool_call", payload: { id: "c1", name: "search", args: { q: 1 } } });
    expect(tapedContent("tool.call.result", { id: "c1", ok: true, value: 3, request_id: "r" })).toEqual({
      kind: "tool_result",
      payload: { tool_call_id: "c1", ok: true, value: 3 },
    });
    const envelope = { brief: "done", display: { kind: "text", text: "done" } };
    expect(tapedContent("tool.call.result", { id: "c1", ok: false, error: "no", envelope })).toEqual({
      kind: "tool_result",
      payload: { tool_call_id: "c1", ok: false, error: "no", envelope },
    });
    for (const kind of [
      "assistant.message.delta",
      "llm.call.delta",
      "session.started",
      "session.handoff",
      "session.reset",
      "session.archived",
      "session.forked",
      "session.compaction.started",
    ]) {
      expect(tapedContent(kind, { content: "x" })).toBeNull();
    }
    for (const kind of [
      "user.interrupt",
      "llm.call.response",
      "llm.call.error",
      "tool.call.start",
      "tool.error",
      "memory.query",
      "memory.write",
      "memory.result",
      "strategy.decide.request",
      "strategy.decide.response",
      "plugin.error",
      "x.acme.thing",
    ]) {
      const data = { any: ["thing"] };
      expect(tapedContent(kind, data)).toEqual({ kind: "event", payload: { name: kind, data } });
    }
    expect(toTapedEntry(event("user.message.received", { text: "hi" }, "kernel"))).toBeNull();
  },
);

test("records date, id, source and request id of the event", () => {
  const taped = toTapedEntry(
    event("tool.call.result", { id: "c1", ok: false, error: "no", request_id: "evt_0" }),
  );
  expect(taped?.entry).toMatchObject({
    date: "2026-11-01T10:00:00.250Z",
    meta: { event_id: "evt_1", source: "acme", request_id: "evt_0" },
  });
  const call = { id: "c1", name: "search", args: {}, step: "evt_0", yield_to_user: true };
  expect(toTapedEntry(event("tool.call.request", call))?.entry.meta).toMatchObject({
    step: "evt_0",
    yield_to_user: true,
  });
});

verifies(
  "tape.durable",
  "keeps messages, calls and results on the tape, and lets other events opt out",
  () => {
    const essential = (kind: string, payload = {}) => toTapedEntry(event(kind, payload))?.essential;
    for (const kind of [
      "user.message.received",
      "assistant.message.done",
      "tool.call.request",
      "tool.call.result",
      "tool.error",
    ]) {
      for (const payload of [{}, { persist: false }, { __persist__: false }]) {
        expect(essential(kind, payload)).toBe(true);
      }
    }
    for (const kind of ["llm.call.response", "memory.query", "x.acme.thing"]) {
      expect(essential(kind)).toBe(false);
      expect(toTapedEntry(event(kind, { persist: false }))).toBeNull();
      expect(toTapedEntry(event(kind, { __persist__: false }))).toBeNull();
      expect(essential(kind, { persist: true })).toBe(false);
    }
  },
);

verifies(
  "tape.durable",
  "records a reference instead of the messages of a model call, so its entry does not grow with the session",
  () => {
    const messages = Array.from({ length: 500 }, (_, n) => ({ role: "user", content: `${n}`.repeat(100) }));
    const payload = { provider: "p", model: "m", messages, tools: [{ name: "t" }], params: { top_p: 1 } };
    const taped = toTapedEntry(event("llm.call.request", payload));
    expect(taped?.entry.payload).toEqual({
      name: "llm.call.request",
      data: {
        provider: "p",
        model: "m",
        tool_names: ["t"],
        params: { top_p: 1 },
        messages_ref: {
          entries: "before",
          count: 500,
          digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
        },
      },
    });
    expect(JSON.stringify(taped).length).toBeLessThan(500);
    const other = toTapedEntry(event("llm.call.request", { ...payload, messages: messages.slice(1) }));
    expect(other?.entry.payload.data).not.toEqual(taped?.entry.payload.data);
  },
);

test("the digest of shared messages equals the digest of their JSON on repeated calls", () => {
  const question = share({ role: "user", content: "hi" });
  const tool_request = share({
    role: "assistant",
    content: "",
    tool_calls: [{ id: "1", name: "n", args: {} }],
  });
  for (const messages of [
    [],
    [question],
    [{ role: "system", content: "be brief" }, question, tool_request],
    [question, tool_request],
  ]) {
    const digest = `sha256:${hash("sha256", JSON.stringify(messages))}`;
    const payload = { provider: "p", model: "m", messages, params: {} };
    const messages_ref = { entries: "before", count: messages.length, digest };
    for (let n = 0; n < 2; n++) {
      expect(tapedContent("llm.call.request", payload)?.payload).toMatchObject({ data: { messages_ref } });
    }
  }
});

verifies(
  "content.blocks",
  "computes the digest of a model call from its references, whether their data was loaded or not",
  () => {
    const stored = {
      type: "image",
      transport: "artifact",
      path: "a.png",
      bytes: 3,
      sha256: "ab",
      invocation_id: "inv_1",
    };
    const resource = { uri: "file:///a", mimeType: "image/png" };
    const digestOf = (content: object[]) => {
      const messages = [{ role: "tool", tool_call_id: "c", content }];
      const entry = tapedContent("llm.call.request", { provider: "p", model: "m", messages, params: {} })!;
      return (entry.payload.data as { messages_ref: { digest: string } }).messages_ref.digest;
    };
    const loaded = [
      { ...stored, data: "AAAA" },
      { ...stored, type: "resource", resource: { ...resource, blob: "AAAA" } },
    ];
    expect(digestOf(loaded)).toBe(digestOf([stored, { ...stored, type: "resource", resource }]));
    // The data of a block without a reference is part of the message.
    const image = { type: "image", mimeType: "image/png" };
    expect(digestOf([{ ...image, data: "AAAA" }])).not.toBe(digestOf([{ ...image, data: "BBBB" }]));
  },
);

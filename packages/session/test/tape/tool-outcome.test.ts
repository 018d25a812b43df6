import type { Invocation } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { toToolOutcome } from "../../src/tape/tool-outcome.ts";

type Row = Parameters<typeof toToolOutcome>[1];

const ids = { id: "call_1", request_id: "evt_1" };
const failed = (code: string, message = "why"): Row => ({
  binding_id: "bind_1",
  status: "failed",
  error: { code, message },
  tool_result: null,
});
const returned = (more: Partial<NonNullable<Invocation["tool_result"]>>): Row => ({
  binding_id: "bind_1",
  status: "succeeded",
  error: null,
  tool_result: {
    kind: "tool_result",
    tool_execution_id: "x",
    tool: "t",
    is_error: false,
    content: [],
    ...more,
  },
});

test.for([
  ["input.invalid", "validation"],
  ["export.not_found", "not_found"],
  ["binding.not_found", "not_found"],
  ["policy.denied", "rejected"],
  ["approval.expired", "rejected"],
  ["binding.not_active", "rejected"],
  ["invocation.queue_full", "rejected"],
])("reports a call that was refused with %s as tool.error of the kind %s", ([code, kind]) => {
  expect(toToolOutcome(ids, failed(code!))).toEqual({
    kind: "tool.error",
    payload: { ...ids, kind, brief: "why" },
  });
});

test.for([
  ["timeout", "timeout"],
  ["cancelled", "rejected"],
  ["crashed", "crashed"],
  ["plugin_failed", "failed"],
  ["plugin_retryable", "failed"],
  ["malformed_response", "internal"],
])("reports a call that ended with %s as a failed result of the kind %s", ([code, kind]) => {
  const outcome = toToolOutcome(ids, failed(code!, "first line\nsecond line"));
  expect(outcome).toMatchObject({
    kind: "tool.call.result",
    payload: { ...ids, ok: false, error: "first line\nsecond line", envelope: { kind, brief: "first line" } },
  });
});

test("keeps a tool's own error, its status and its request to return control to the user", () => {
  const text = [{ type: "text" as const, text: "no such file" }];
  const outcome = toToolOutcome(
    ids,
    returned({ content: text, is_error: true, status: "odd", yield_to_user: true }),
  );
  expect(outcome.payload).toMatchObject({
    ok: false,
    error: "no such file",
    status: "odd",
    yield_to_user: true,
  });
  expect(toToolOutcome(ids, returned({ content: text })).payload).toMatchObject({ ok: true });
});

test("shows structured output without text as JSON", () => {
  const outcome = toToolOutcome(ids, returned({ structured_output: { n: 1 } }));
  expect(outcome.payload).toMatchObject({
    value: { n: 1 },
    envelope: { display: { kind: "json", data: { n: 1 } }, brief: '{"n":1}' },
  });
});

verifies(
  "content.blocks",
  "keeps all blocks of a result beside its display, but stores a single plain text only once",
  () => {
    const image = { type: "image", data: "AAAA", mimeType: "image/png" };
    const text = { type: "text", text: "a chart" };
    const { payload } = toToolOutcome(ids, returned({ content: [text, image], structured_output: { n: 1 } }));
    expect(payload).toMatchObject({
      ok: true,
      content: [text, image],
      value: { n: 1 },
      envelope: { brief: "a chart", display: { kind: "text", text: "a chart\n[image: image/png, 3 bytes]" } },
    });
    expect(toToolOutcome(ids, returned({ content: [text] })).payload).not.toHaveProperty("content");
    const marked = { ...text, annotations: { audience: ["user"] } };
    expect(toToolOutcome(ids, returned({ content: [marked] })).payload).toMatchObject({ content: [marked] });
  },
);

verifies("content.errors", "includes the recorded failure and the author's blocks in the result", () => {
  const failure = {
    kind: "failed" as const,
    code: "plugin_failed",
    plugin_code: "E1",
    retryable: false,
    stderr: "x",
  };
  const image = { type: "image", data: "AAAA", mimeType: "image/png" };
  const { tool_result } = returned({ content: [image], is_error: true, failure });
  const row: Row = { ...failed("plugin_failed", "no such page"), tool_result };
  expect(toToolOutcome(ids, row).payload).toMatchObject({
    ok: false,
    error: "no such page",
    content: [image],
    failure,
    envelope: { kind: "failed" },
  });
});

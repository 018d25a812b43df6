import { afterEach, beforeEach, expect, test } from "vitest";
import { createInstance, LlmBus } from "../../../packages/sdk/test/kernel/llm-bus.ts";
import { json, sse, Vendor } from "../../../packages/sdk/test/kernel/llm-vendor.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin } from "../src/plugin.ts";
import { event } from "./wire.ts";

let vendor: Vendor;
let base_url: string;
let bus: LlmBus;

beforeEach(async () => {
  vendor = new Vendor();
  base_url = `${await vendor.start()}/v1`;
  bus = new LlmBus(plugin, [
    createInstance("llm-openai", { api_key: "sk-test-key", base_url, api: "responses" }),
  ]);
});
afterEach(() => vendor.stop());

const usage = {
  input_tokens: 50,
  input_tokens_details: { cached_tokens: 20 },
  output_tokens: 8,
  output_tokens_details: { reasoning_tokens: 2 },
  total_tokens: 58,
};
const completed = event("response.completed", {
  response: { id: "resp_1", status: "completed", model: "gpt-test-2026", usage, incomplete_details: null },
});
const call = (output_index: number, call_id: string, name: string) =>
  event("response.output_item.added", {
    output_index,
    item: {
      type: "function_call",
      id: `fc_${output_index}`,
      call_id,
      name,
      arguments: "",
      status: "in_progress",
    },
  });

verifies("llm.provider", "assembles the text, thoughts, calls and usage of a response", async () => {
  const stream =
    event("response.created", { response: { id: "resp_1" } }) +
    event("response.reasoning_summary_text.delta", { output_index: 0, delta: "hm" }) +
    event("response.output_text.delta", { output_index: 1, delta: "Zwölf " }) +
    call(2, "call_a", "add") +
    event("response.function_call_arguments.delta", { output_index: 2, delta: '{"a"' }) +
    call(3, "call_b", "now") +
    event("response.function_call_arguments.delta", { output_index: 2, delta: ":12}" }) +
    event("response.function_call_arguments.done", { output_index: 2, arguments: '{"a":12}' }) +
    event("response.function_call_arguments.done", { output_index: 3, arguments: '{"zone":"utc"}' }) +
    completed;
  for (const bytes of [3, 1024]) {
    vendor.answer = sse(stream, { bytes });
    const { payload } = await bus.call();
    expect(payload).toMatchObject({
      text: "Zwölf ",
      tool_calls: [
        { id: "call_a", name: "add", args: { a: 12 } },
        { id: "call_b", name: "now", args: { zone: "utc" } },
      ],
      usage: { input_other: 30, input_cache_read: 20, output: 8, total: 58 },
      stop_reason: "completed",
      model: "gpt-test-2026",
    });
  }
  expect(bus.deltas().slice(0, 2)).toEqual([{ thinking: "hm" }, { content: "Zwölf " }]);
});

test("sends the conversation as items and stores nothing at the vendor", async () => {
  vendor.answer = sse(event("response.output_text.delta", { delta: "ok" }) + completed);
  const tools = [{ name: "add", description: "Adds", parameters: { type: "object" } }];
  await bus.call({
    messages: [
      { role: "system", content: "Be short." },
      { role: "user", content: "look", attachments: [{ url: "https://example.com/cat.jpg" }] },
      { role: "assistant", content: "so", tool_calls: [{ id: "c1", name: "add", args: { a: 1 } }] },
      { role: "tool", tool_call_id: "c1", content: { sum: 2 } },
    ],
    tools,
    params: { max_tokens: 99 },
  });
  expect(vendor.requests[0]?.path).toBe("/v1/responses");
  expect(vendor.body).toEqual({
    model: "m1",
    instructions: "Be short.",
    max_output_tokens: 99,
    store: false,
    stream: true,
    tools: [{ type: "function", strict: false, ...tools[0] }],
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "look" },
          { type: "input_image", image_url: "https://example.com/cat.jpg", detail: "auto" },
        ],
      },
      { role: "assistant", content: "so" },
      { type: "function_call", call_id: "c1", name: "add", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c1", output: '{"sum":2}' },
    ],
  });
});

verifies("llm.provider", "classifies the failures of a response at every stage", async () => {
  const half = event("response.output_text.delta", { delta: "half" });
  const failed = { status: "failed", error: { code: "server_error", message: "engine died" } };
  const cases: [ReturnType<typeof sse>, object][] = [
    [json(429, { error: { message: "slow" } }, { "retry-after": "2" }), { kind: "status", retry_after_s: 2 }],
    [sse(half + event("response.failed", { response: failed })), { kind: "status", status_code: 500 }],
    [
      sse(half + event("error", { code: "rate_limit_exceeded", message: "slow" })),
      { kind: "status", status_code: 429 },
    ],
    [sse(half, { after: "cut" }), { kind: "connection" }],
    [sse(half), { kind: "connection" }],
    [sse(completed), { kind: "empty" }],
  ];
  for (const [answer, expected] of cases) {
    vendor.answer = answer;
    expect((await bus.call()).payload).toMatchObject({ retryable: true, ...expected });
  }
});

test("requests the configured effort and a summary of the thoughts", async () => {
  vendor.answer = sse(event("response.output_text.delta", { delta: "ok" }) + completed);
  const [instance] = bus.instances.org_a!;
  await bus.call();
  expect(vendor.body.reasoning).toBeUndefined();
  bus.instances.org_a = [{ ...instance!, config: { ...instance!.config, thinking_effort: "high" } }];
  await bus.send("config.updated", { key: "providers.main.x", prefix_match_hint: "providers.main." }).handled;
  await bus.call();
  expect(vendor.body.reasoning).toEqual({ effort: "high", summary: "auto" });
});

test("reports an answer that the token limit cut short", async () => {
  const response = {
    status: "incomplete",
    incomplete_details: { reason: "max_output_tokens" },
    usage,
    model: "m",
  };
  vendor.answer = sse(
    event("response.output_text.delta", { delta: "half" }) + event("response.incomplete", { response }),
  );
  expect((await bus.call()).payload).toMatchObject({ text: "half", stop_reason: "max_output_tokens" });
});

const PNG = "iVBORw0KGgo=";
/** A step with two results: text and an image in one, audio and a resource in the other. */
const media_history = [
  { role: "user", content: "draw" },
  {
    role: "assistant",
    content: "",
    tool_calls: [
      { id: "c1", name: "draw", args: {} },
      { id: "c2", name: "sing", args: {} },
    ],
  },
  {
    role: "tool",
    tool_call_id: "c1",
    content: [
      { type: "text", text: "a chart" },
      { type: "image", data: PNG, mimeType: "image/png" },
    ],
  },
  {
    role: "tool",
    tool_call_id: "c2",
    content: [
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
      { type: "resource", resource: { uri: "file:///a.md", text: "# A" } },
    ],
  },
];
const DESCRIBED_BLOCKS = "[audio: audio/wav, 3 bytes]\n[resource: file:///a.md]\n# A";

verifies("content.blocks", "sends the images of results as parts of the output", async () => {
  vendor.answer = sse(completed);
  await bus.call({ messages: media_history });
  expect(vendor.body.input.slice(-2)).toEqual([
    {
      type: "function_call_output",
      call_id: "c1",
      output: [
        { type: "input_text", text: "a chart" },
        { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" },
      ],
    },
    { type: "function_call_output", call_id: "c2", output: DESCRIBED_BLOCKS },
  ]);
});

verifies("content.blocks", "sends PDFs as input files and describes audio", async () => {
  const PDF = Buffer.from("%PDF-1.7 pages").toString("base64");
  vendor.answer = sse(completed);
  const config = {
    api_key: "sk-test-key",
    base_url,
    model: "gpt-test",
    api: "responses",
    documents: true,
    audio: true,
  };
  const content = [
    { type: "resource", resource: { uri: "file:///report.pdf", mimeType: "application/pdf", blob: PDF } },
    { type: "audio", data: "UklGRiQAAABXQVZF", mimeType: "audio/wav" },
  ];
  await new LlmBus(plugin, [createInstance("llm-openai", config)]).call({
    messages: [{ role: "user", content }],
  });
  expect(vendor.body.input.at(-1)).toEqual({
    role: "user",
    content: [
      { type: "input_file", filename: "report.pdf", file_data: `data:application/pdf;base64,${PDF}` },
      { type: "input_text", text: "[audio: audio/wav, 12 bytes]" },
    ],
  });
});

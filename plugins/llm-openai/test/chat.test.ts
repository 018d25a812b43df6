import { afterEach, beforeEach, expect, test } from "vitest";
import { createInstance, LlmBus } from "../../../packages/sdk/test/kernel/llm-bus.ts";
import {
  expectInterrupted,
  expectNoKeyFromEnvironment,
  expectStatuses,
  expectTimeouts,
} from "../../../packages/sdk/test/kernel/llm-checks.ts";
import { json, sse, Vendor } from "../../../packages/sdk/test/kernel/llm-vendor.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin } from "../src/plugin.ts";
import { chunk, data, done, text, usage } from "./wire.ts";

let vendor: Vendor;
let bus: LlmBus;
let url: string;

beforeEach(async () => {
  vendor = new Vendor();
  url = `${await vendor.start()}/v1`;
  bus = new LlmBus(plugin, [
    createInstance("llm-openai", { api_key: "sk-test-key", base_url: url, model: "gpt-test" }),
  ]);
});
afterEach(() => vendor.stop());

const tools = [
  { name: "add", description: "Adds", parameters: { type: "object", properties: { a: { type: "number" } } } },
];

verifies(
  "llm.provider",
  "assembles text, split tool calls and usage with cached tokens at any byte boundaries",
  async () => {
    const stream =
      chunk({ role: "assistant", content: "" }) +
      chunk({ content: "Zwölf 🙂 " }) +
      chunk({
        tool_calls: [{ index: 0, id: "call_a", type: "function", function: { name: "add", arguments: "" } }],
      }) +
      chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] }) +
      chunk({
        tool_calls: [{ index: 1, id: "call_b", type: "function", function: { name: "say", arguments: "" } }],
      }) +
      chunk({ tool_calls: [{ index: 1, function: { arguments: '{"text":"ü🙂"}' } }] }) +
      chunk({ tool_calls: [{ index: 0, function: { arguments: "12}" } }] }) +
      chunk({}, "tool_calls") +
      usage(100, 60, 9) +
      done;
    for (const bytes of [1, 7, 64]) {
      vendor.answer = sse(stream, { bytes });
      const end = await bus.call({ model: "", tools });
      expect(end.payload).toMatchObject({
        text: "Zwölf 🙂 ",
        tool_calls: [
          { id: "call_a", name: "add", args: { a: 12 } },
          { id: "call_b", name: "say", args: { text: "ü🙂" } },
        ],
        usage: { input_other: 40, input_cache_read: 60, output: 9, input: 100, total: 109 },
        stop_reason: "tool_calls",
        model: "gpt-test-2026",
      });
    }
    expect(vendor.requests).toHaveLength(3);
    expect(vendor.requests[0]).toMatchObject({
      path: "/v1/chat/completions",
      headers: { authorization: "Bearer sk-test-key" },
      body: {
        model: "gpt-test",
        stream: true,
        stream_options: { include_usage: true },
        messages: [{ role: "user", content: "hi" }],
        tools: [{ type: "function", function: tools[0] }],
      },
    });
    expect(bus.deltas()[0]).toEqual({ content: "Zwölf 🙂 " });
  },
);

test("sends the conversation as chat messages and images as image_url", async () => {
  vendor.answer = sse(text("ok") + done);
  const call = { id: "c1", name: "add", args: { a: 1 } };
  await bus.call({
    messages: [
      { role: "system", content: "Be short." },
      {
        role: "user",
        content: "look",
        attachments: [
          { type: "image", media_type: "image/png", data: "iVBORw0KGgo=" },
          { url: "https://example.com/cat.jpg" },
          { name: "notes.txt", media_type: "text/plain", text: "remember" },
        ],
      },
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_call_id: "c1", content: [{ type: "text", text: "2" }] },
      { role: "assistant", content: "two" },
      { role: "user", content: "again" },
      // The empty answer of a failed turn.
      { role: "assistant", content: "" },
      { role: "user", content: [{ type: "text", text: "thanks" }] },
    ],
    params: { temperature: 0.5, max_tokens: 9, model: "sneaky", stream: false, n: 4, tools: [{}] },
  });
  expect(vendor.body).not.toHaveProperty("n");
  expect(vendor.body).not.toHaveProperty("tools");
  expect(vendor.body).toMatchObject({ model: "m1", stream: true, temperature: 0.5, max_tokens: 9 });
  expect(vendor.body.messages).toEqual([
    { role: "system", content: "Be short." },
    {
      role: "user",
      content: [
        { type: "text", text: "look" },
        { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
        { type: "image_url", image_url: { url: "https://example.com/cat.jpg" } },
        { type: "text", text: "Attachment notes.txt:\nremember" },
      ],
    },
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"a":1}' } }],
    },
    { role: "tool", tool_call_id: "c1", content: "2" },
    { role: "assistant", content: "two" },
    { role: "user", content: "again" },
    { role: "user", content: "thanks" },
  ]);
});

test("accepts compatible servers that omit usage, indexes, ids and [DONE]", async () => {
  const toolCall = (name: string, args: unknown) => ({ function: { name, arguments: args } });
  const cases: [string, object[]][] = [
    [
      // Neither index nor id, each call in one chunk.
      chunk({ tool_calls: [toolCall("add", '{"a":1}')] }) +
        chunk({ tool_calls: [toolCall("add", '{"a":2}')] }),
      [
        { name: "add", args: { a: 1 } },
        { name: "add", args: { a: 2 } },
      ],
    ],
    [
      // Every call has index 0; only the ids differ.
      chunk({ tool_calls: [{ index: 0, id: "x", ...toolCall("add", '{"a":1}') }] }) +
        chunk({ tool_calls: [{ index: 0, id: "y", ...toolCall("sub", '{"a":2}') }] }),
      [
        { id: "x", name: "add", args: { a: 1 } },
        { id: "y", name: "sub", args: { a: 2 } },
      ],
    ],
    [
      // Every call has index 0, the same name and no arguments; only the ids differ.
      chunk({ tool_calls: [{ index: 0, id: "x", ...toolCall("now", "") }] }) +
        chunk({ tool_calls: [{ index: 0, id: "y", ...toolCall("now", "") }] }),
      [
        { id: "x", name: "now", args: {} },
        { id: "y", name: "now", args: {} },
      ],
    ],
    [
      // The name is repeated in every fragment, without an index.
      chunk({ tool_calls: [{ id: "x", ...toolCall("add", '{"a"') }] }) +
        chunk({ tool_calls: [toolCall("add", ":3")] }) +
        chunk({ tool_calls: [toolCall("add", "}")] }),
      [{ id: "x", name: "add", args: { a: 3 } }],
    ],
    [
      // Arguments as an object, and calls without arguments.
      chunk({ tool_calls: [toolCall("add", { a: 4 }), toolCall("now", null)] }),
      [
        { name: "add", args: { a: 4 } },
        { name: "now", args: {} },
      ],
    ],
  ];
  for (const [stream, calls] of cases) {
    vendor.answer = sse(stream + chunk({}, "tool_calls"));
    const { payload } = await bus.call();
    expect(payload.tool_calls).toMatchObject(calls);
    expect(payload.tool_calls).toHaveLength(calls.length);
    expect(new Set((payload.tool_calls as { id: string }[]).map(({ id }) => id)).size).toBe(calls.length);
    expect(payload.usage).toMatchObject({ total: 0 });
  }
});

test("repeats the request without stream_options for a server that does not support it", async () => {
  vendor.answer = (response, request) => {
    const accepted = request.body.stream_options === undefined;
    const refusal = json(400, { error: { message: "Unrecognized request argument: stream_options" } });
    return accepted ? sse(text("ok") + done)(response, request) : refusal(response, request);
  };
  expect((await bus.call()).payload.text).toBe("ok");
  expect(vendor.requests).toHaveLength(2);
});

test("sends the configured thinking effort, and none for off", async () => {
  vendor.answer = sse(text("ok") + done);
  const [instance] = bus.instances.org_a!;
  const efforts: unknown[] = [];
  for (const thinking_effort of ["off", "low"]) {
    bus.instances.org_a = [{ ...instance!, config: { ...instance!.config, thinking_effort } }];
    await bus.send("config.updated", { key: "providers.main.x", prefix_match_hint: "providers.main." })
      .handled;
    await bus.call();
    efforts.push(vendor.body.reasoning_effort);
  }
  expect(efforts).toEqual([undefined, "low"]);
});

test("reports a reasoning server's thoughts as thinking, not as text", async () => {
  vendor.answer = sse(chunk({ reasoning_content: "let me see" }) + text("42") + done);
  const { payload } = await bus.call();
  expect(payload.text).toBe("42");
  expect(bus.deltas()[0]).toEqual({ thinking: "let me see" });
});

verifies(
  "llm.provider",
  "classifies error statuses, reads Retry-After and never reports the key",
  async () => {
    const error = (message: string, code: string | null = null) => ({ error: { message, type: "x", code } });
    await expectStatuses(vendor, bus, "sk-test-key", [
      [400, error("bad tools"), {}, { retryable: false }],
      [401, error("Incorrect API key provided: sk-test-key."), {}, { retryable: false }],
      [
        429,
        error("slow down", "rate_limit_exceeded"),
        { "retry-after": "3" },
        { retryable: true, retry_after_s: 3 },
      ],
      [429, error("too many"), { "retry-after-ms": "1500" }, { retryable: true, retry_after_s: 1.5 }],
      [429, error("You exceeded your quota", "insufficient_quota"), {}, { retryable: false }],
      [500, error("oops"), {}, { retryable: true }],
      [503, {}, {}, { retryable: true }],
    ]);
  },
);

verifies(
  "llm.provider",
  "reports the error kind of refused and interrupted connections, before and after a delta",
  async () => {
    const head = chunk({ content: "half" });
    const broken = [
      sse("", { after: "cut" }),
      sse(head, { after: "cut" }),
      sse(head, { after: "end" }),
      sse(`${head}data: {"id":"chatc`, { after: "end" }),
      sse(head + data({ error: { message: "engine died", type: "server_error" } })),
      sse(""),
    ];
    const kinds: unknown[] = [];
    for (const answer of broken) {
      vendor.answer = answer;
      const { payload } = await bus.call();
      kinds.push(payload.kind);
      expect(payload.retryable).toBe(true);
    }
    expect(kinds).toEqual(["connection", "connection", "connection", "connection", "status", "connection"]);
    await vendor.stop();
    const { payload } = await bus.call();
    expect(payload).toMatchObject({ kind: "connection", retryable: true });
    vendor = new Vendor();
    await vendor.start();
  },
);

verifies("llm.provider", "times out when a server sends nothing or stops sending", async () => {
  bus.instances.org_a = [createInstance("llm-openai", { base_url: url, timeout_s: 0.1 })];
  const half = sse(chunk({ content: "and" }), { after: "hang" });
  await expectTimeouts(vendor, bus, [() => undefined, half]);
});

test("closes the connection on an interrupt", async () => {
  await expectInterrupted(vendor, bus, sse(chunk({ content: "slowly" }), { after: "hang" }));
});

test("uses a changed key in the next call", async () => {
  vendor.answer = sse(text("ok") + done);
  await bus.call();
  bus.instances.org_a = [createInstance("llm-openai", { api_key: "sk-new", base_url: url })];
  await bus.send("config.updated", { key: "providers.main.api_key", prefix_match_hint: "providers.main." })
    .handled;
  await bus.call();
  expect(vendor.requests.map(({ headers }) => headers.authorization)).toEqual([
    "Bearer sk-test-key",
    "Bearer sk-new",
  ]);
});

test("sends no key from the environment to any instance", async () => {
  vendor.answer = sse(text("ok") + done);
  const keyless = createInstance("llm-openai", { base_url: url });
  await expectNoKeyFromEnvironment(vendor, bus, keyless, ["OPENAI_API_KEY", "OPENAI_ORG_ID"]);
});

test("sends no request without a key and reports the missing key in health", async () => {
  bus.instances.org_a = [createInstance("llm-openai", { model: "gpt-test" })];
  const { payload } = await bus.call();
  expect(payload).toMatchObject({ kind: "other", retryable: false });
  expect(payload.error).toContain("providers.main.api_key");
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "degraded" });
  bus.instances.org_a = [createInstance("llm-openai", { base_url: "http://localhost:11434/v1" })];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "ok" });
  bus.instances.org_a = [createInstance("llm-openai", { api_key: "k", base_url: "not an address" })];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "degraded" });
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

verifies(
  "content.blocks",
  "mentions the images of results in the text and sends them after the step",
  async () => {
    vendor.answer = sse(text("ok") + done);
    await bus.call({ messages: [...media_history, { role: "user", content: "thanks" }] });
    expect(vendor.body.messages.slice(2)).toEqual([
      { role: "tool", tool_call_id: "c1", content: "a chart\n[image: image/png] (shown below)" },
      { role: "tool", tool_call_id: "c2", content: DESCRIBED_BLOCKS },
      {
        role: "user",
        content: [
          { type: "text", text: "[The images of the tool results above, in their order.]" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
        ],
      },
      { role: "user", content: "thanks" },
    ]);
  },
);

verifies("content.blocks", "describes images in the text for a model without vision", async () => {
  vendor.answer = sse(text("ok") + done);
  const config = { api_key: "sk-test-key", base_url: url, model: "gpt-test", images: false };
  const text_only = new LlmBus(plugin, [createInstance("llm-openai", config)]);
  const attachments = [{ media_type: "image/png", data: PNG }];
  await text_only.call({ messages: [...media_history, { role: "user", content: "thanks", attachments }] });
  expect(vendor.body.messages.slice(2)).toEqual([
    { role: "tool", tool_call_id: "c1", content: "a chart\n[image: image/png]" },
    { role: "tool", tool_call_id: "c2", content: DESCRIBED_BLOCKS },
    { role: "user", content: "thanks\n[image: image/png]" },
  ]);
});

const PDF = Buffer.from("%PDF-1.7 pages").toString("base64");
const WAV = Buffer.from("RIFF\x24\x00\x00\x00WAVEfmt ", "latin1").toString("base64");

verifies("content.blocks", "sends PDFs and audio to a model that reads them, after the results", async () => {
  vendor.answer = sse(text("ok") + done);
  const config = { api_key: "sk-test-key", base_url: url, model: "gpt-test", documents: true, audio: true };
  const resource = { uri: "file:///report.pdf", mimeType: "application/pdf", blob: PDF };
  const [user, assistant] = media_history.slice(0, 2);
  const result = {
    role: "tool",
    tool_call_id: "c1",
    content: [
      { type: "resource", resource },
      { type: "audio", data: WAV, mimeType: "audio/wav" },
    ],
  };
  const messages = [user!, assistant!, result] as typeof media_history;
  await new LlmBus(plugin, [createInstance("llm-openai", config)]).call({ messages });
  const parts = vendor.body.messages.slice(2);
  expect(parts[0]).toEqual({
    role: "tool",
    tool_call_id: "c1",
    content: "[document: report.pdf, application/pdf] (shown below)\n[audio: audio/wav] (shown below)",
  });
  expect(parts.at(-1)).toEqual({
    role: "user",
    content: [
      { type: "text", text: "[The images, documents and audio of the tool results above, in their order.]" },
      { type: "file", file: { filename: "report.pdf", file_data: `data:application/pdf;base64,${PDF}` } },
      { type: "input_audio", input_audio: { data: WAV, format: "wav" } },
    ],
  });
});

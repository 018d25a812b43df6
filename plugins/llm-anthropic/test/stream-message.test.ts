import { afterEach, beforeEach, expect, test } from "vitest";
import { createInstance, LlmBus } from "../../../packages/sdk/test/kernel/llm-bus.ts";
import {
  expectInterrupted,
  expectNoKeyFromEnvironment,
  expectStatuses,
  expectTimeouts,
} from "../../../packages/sdk/test/kernel/llm-checks.ts";
import { sse, Vendor } from "../../../packages/sdk/test/kernel/llm-vendor.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin } from "../src/plugin.ts";
import { block, event, ping, start, stop, text, toolUse } from "./wire.ts";

let vendor: Vendor;
let bus: LlmBus;
let url: string;

beforeEach(async () => {
  vendor = new Vendor();
  url = await vendor.start();
  bus = new LlmBus(plugin, [withConfig({})]);
});
afterEach(() => vendor.stop());

function withConfig(config: Record<string, string | number | boolean>) {
  return createInstance("llm-anthropic", {
    api_key: "sk-ant-key",
    base_url: url,
    model: "claude-test",
    ...config,
  });
}

const EPHEMERAL = { cache_control: { type: "ephemeral" } };
const tools = [
  { name: "now", description: "Time", parameters: { type: "object", properties: {} } },
  { name: "add", description: "Adds", parameters: { type: "object", properties: { a: { type: "number" } } } },
];

verifies(
  "llm.provider",
  "assembles text, thoughts, split tool input and cached usage at any byte boundaries",
  async () => {
    const stream =
      start({
        input_tokens: 12,
        cache_creation_input_tokens: 30,
        cache_read_input_tokens: 400,
        output_tokens: 1,
      }) +
      ping +
      block(
        0,
        { type: "thinking", thinking: "", signature: "" },
        { type: "thinking_delta", thinking: "let me " },
        { type: "thinking_delta", thinking: "see" },
        { type: "signature_delta", signature: "abc" },
      ) +
      text(1, "Zwölf ", "🙂") +
      toolUse(2, "toolu_a", "add", "", '{"a"', ": 1", "2}") +
      toolUse(3, "toolu_b", "now") +
      stop("tool_use", 42);
    for (const bytes of [1, 7, 512]) {
      vendor.answer = sse(stream, { bytes });
      const { payload } = await bus.call({ model: "", tools });
      expect(payload).toMatchObject({
        text: "Zwölf 🙂",
        tool_calls: [
          { id: "toolu_a", name: "add", args: { a: 12 } },
          { id: "toolu_b", name: "now", args: {} },
        ],
        usage: {
          input_other: 12,
          input_cache_read: 400,
          input_cache_creation: 30,
          output: 42,
          input: 442,
          total: 484,
        },
        stop_reason: "tool_use",
        model: "claude-test-2026",
      });
    }
    expect(vendor.requests).toHaveLength(3);
    expect(vendor.requests[0]).toMatchObject({
      path: "/v1/messages",
      headers: { authorization: "Bearer sk-ant-key" },
      body: { model: "claude-test", stream: true, max_tokens: 8192 },
    });
    const thoughts = bus.deltas().filter((delta) => "thinking" in delta);
    expect(thoughts.map(({ thinking }) => thinking).join("")).toBe("let me see".repeat(3));
  },
);

const messages = [
  { role: "system", content: "Be short." },
  { role: "user", content: "look", attachments: [{ media_type: "image/jpeg", data: "/9j/AAAA" }] },
  {
    role: "assistant",
    content: "Two at once. ",
    tool_calls: [
      { id: "c.1", name: "add", args: { a: 1 } },
      { id: "c2", name: "now", args: {} },
    ],
  },
  { role: "tool", tool_call_id: "c.1", content: "2" },
  { role: "tool", tool_call_id: "c2", content: [{ type: "text", text: "no clock" }], is_error: true },
  { role: "user", content: "and?" },
];

test("sends the results of a step in one user turn and caches system, tools and the last turn", async () => {
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  await bus.call({ messages, tools, params: { temperature: 0.2, max_tokens: 77, stream: false } });
  expect(vendor.body).toEqual({
    model: "m1",
    stream: true,
    max_tokens: 77,
    temperature: 0.2,
    system: [{ type: "text", text: "Be short.", ...EPHEMERAL }],
    tools: [
      { name: "now", description: "Time", input_schema: tools[0]!.parameters },
      { name: "add", description: "Adds", input_schema: tools[1]!.parameters, ...EPHEMERAL },
    ],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "look" },
          { type: "image", source: { type: "base64", media_type: "image/jpeg", data: "/9j/AAAA" } },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Two at once." },
          { type: "tool_use", id: "c_1", name: "add", input: { a: 1 } },
          { type: "tool_use", id: "c2", name: "now", input: {} },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "c_1", content: [{ type: "text", text: "2" }] },
          {
            type: "tool_result",
            tool_use_id: "c2",
            content: [{ type: "text", text: "no clock" }],
            is_error: true,
          },
          { type: "text", text: "and?", ...EPHEMERAL },
        ],
      },
    ],
  });
});

test("sets no cache markers with cache: false", async () => {
  bus.instances.org_a = [withConfig({ cache: false })];
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  await bus.call({ messages, tools });
  expect(JSON.stringify(vendor.body)).not.toContain("cache_control");
});

test("sends a thinking budget after a user message and omits it after tool results", async () => {
  bus.instances.org_a = [withConfig({ thinking_budget: 9_000, temperature: 0.3 })];
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  await bus.call({ messages });
  expect(vendor.body).toMatchObject({
    thinking: { type: "enabled", budget_tokens: 9_000 },
    max_tokens: 10_024,
  });
  expect(vendor.body.temperature).toBeUndefined();
  await bus.call({ messages: messages.slice(0, -1) });
  expect(vendor.body).toMatchObject({ max_tokens: 8_192, temperature: 0.3 });
  expect(vendor.body.thinking).toBeUndefined();
});

test("derives the thinking budget from the effort unless a budget is set", async () => {
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  const budgets: unknown[] = [];
  const configs: Record<string, string | number>[] = [
    { thinking_effort: "high" },
    { thinking_effort: "high", thinking_budget: 1_024 },
    { thinking_effort: "off" },
  ];
  for (const config of configs) {
    bus.instances.org_a = [withConfig(config)];
    await bus.send("config.updated", { key: "providers.main.x", prefix_match_hint: "providers.main." })
      .handled;
    await bus.call({ messages });
    budgets.push((vendor.body.thinking as { budget_tokens: number } | undefined)?.budget_tokens);
  }
  expect(budgets).toEqual([24_576, 1_024, undefined]);
});

test("starts with a user turn when the conversation begins with the assistant", async () => {
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  await bus.call({
    messages: [
      { role: "assistant", content: "Hello." },
      { role: "user", content: "hi" },
    ],
  });
  const roles = (vendor.body.messages as { role: string }[]).map(({ role }) => role);
  expect(roles).toEqual(["user", "assistant", "user"]);
});

verifies(
  "llm.provider",
  "classifies error statuses, reads Retry-After and never reports the key",
  async () => {
    const error = (type: string, message = "no") => ({ type: "error", error: { type, message } });
    await expectStatuses(vendor, bus, "sk-ant-key", [
      [400, error("invalid_request_error"), {}, { retryable: false }],
      [401, error("authentication_error", "invalid x-api-key sk-ant-key"), {}, { retryable: false }],
      [429, error("rate_limit_error"), { "retry-after": "11" }, { retryable: true, retry_after_s: 11 }],
      [500, error("api_error"), {}, { retryable: true }],
      [529, error("overloaded_error"), {}, { retryable: true }],
    ]);
  },
);

verifies(
  "llm.provider",
  "reports the error kind of refused and interrupted connections, before and after a delta",
  async () => {
    const half = start() + text(0, "half");
    const overloaded = event("error", { error: { type: "overloaded_error", message: "Overloaded" } });
    const cases: [ReturnType<typeof sse>, object][] = [
      [sse("", { after: "cut" }), { kind: "connection" }],
      [sse(half, { after: "cut" }), { kind: "connection" }],
      [sse(half), { kind: "connection" }],
      [sse(`${half}event: message_delta\ndata: {"ty\n\n`), { kind: "connection" }],
      [sse(start() + overloaded), { kind: "status", status_code: 529 }],
      [sse(half + overloaded), { kind: "status", status_code: 529 }],
      [sse(start() + stop("end_turn", 0)), { kind: "empty" }],
    ];
    for (const [answer, expected] of cases) {
      vendor.answer = answer;
      const end = await bus.call();
      expect(end.kind).toBe("llm.call.error");
      expect(end.payload).toMatchObject({ retryable: true, ...expected });
    }
    await vendor.stop();
    expect((await bus.call()).payload).toMatchObject({ kind: "connection", retryable: true });
    vendor = new Vendor();
    await vendor.start();
  },
);

verifies("llm.provider", "times out when a server sends nothing or stops sending", async () => {
  bus.instances.org_a = [withConfig({ timeout_s: 0.1 })];
  const half = sse(start() + text(0, "and"), { after: "hang" });
  await expectTimeouts(vendor, bus, [() => undefined, half]);
});

test("closes the connection on an interrupt", async () => {
  await expectInterrupted(vendor, bus, sse(start() + text(0, "slowly"), { after: "hang" }));
});

test("sends no key from the environment to any instance", async () => {
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  const keyless = createInstance("llm-anthropic", { base_url: url });
  await expectNoKeyFromEnvironment(vendor, bus, keyless, ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]);
});

test("sends no request without a key and reports the missing key in health", async () => {
  bus.instances.org_a = [createInstance("llm-anthropic", { model: "claude-test" })];
  const { payload } = await bus.call();
  expect(payload).toMatchObject({ kind: "other", retryable: false });
  expect(payload.error).toContain("providers.main.api_key");
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "degraded" });
  bus.instances.org_a = [withConfig({})];
  expect(await plugin.healthCheck?.(bus.context())).toMatchObject({ status: "ok" });
  bus.instances.org_a = [createInstance("llm-anthropic", { api_key: "k", base_url: "not an address" })];
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
  "sends the images of results inside the results and describes other blocks",
  async () => {
    vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
    await bus.call({ messages: media_history });
    expect((vendor.body.messages.at(-1) as { content: unknown }).content).toEqual([
      {
        type: "tool_result",
        tool_use_id: "c1",
        content: [
          { type: "text", text: "a chart" },
          { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
        ],
      },
      {
        type: "tool_result",
        tool_use_id: "c2",
        content: DESCRIBED_BLOCKS.split("\n[resource").map((part, n) => ({
          type: "text",
          text: n === 0 ? part : `[resource${part}`,
        })),
        ...EPHEMERAL,
      },
    ]);
  },
);

const PDF = Buffer.from("%PDF-1.7 pages").toString("base64");
const REPORT = { uri: "file:///report.pdf", mimeType: "application/pdf", blob: PDF };

verifies("content.blocks", "sends PDFs as documents if the model reads them", async () => {
  const documents = { type: "resource", resource: REPORT };
  const messages = [{ role: "user" as const, content: ["read this", documents] }];
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  const config = { api_key: "sk-test-key", base_url: url, model: "claude-test", cache: false };
  await new LlmBus(plugin, [createInstance("llm-anthropic", { ...config, documents: true })]).call({
    messages,
  });
  expect((vendor.body.messages.at(-1) as { content: unknown }).content).toEqual([
    { type: "text", text: "read this" },
    {
      type: "document",
      title: "report.pdf",
      source: { type: "base64", media_type: "application/pdf", data: PDF },
    },
  ]);
  vendor.answer = sse(start() + text(0, "ok") + stop("end_turn", 1));
  await new LlmBus(plugin, [createInstance("llm-anthropic", config)]).call({ messages });
  expect((vendor.body.messages.at(-1) as { content: unknown }).content).toEqual([
    { type: "text", text: "read this" },
    { type: "text", text: "[resource: file:///report.pdf, application/pdf, 14 bytes]" },
  ]);
});

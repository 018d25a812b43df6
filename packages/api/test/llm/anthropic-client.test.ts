/** The official Anthropic client at the model endpoints, with providers that use the same protocol and others. */
import type { Anthropic } from "@anthropic-ai/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type LlmApi, startLlmApi } from "../support/llm-api.ts";
import { chatStream, messageStream, responseEvents } from "../support/vendor-server.ts";

let api: LlmApi;
beforeAll(async () => {
  api = await startLlmApi();
});
afterAll(() => api.close());

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const hello: Anthropic.MessageParam[] = [{ role: "user", content: "hello" }];
const lastRequest = () => api.vendor.requests.at(-1)!;
const WEATHER = { type: "object" as const, properties: { city: { type: "string" } } };

verifies("llm.gateway", "passes messages through unchanged, with beta headers and cache marks", async () => {
  const message = {
    id: "msg_1",
    type: "message",
    role: "assistant",
    model: "claude-up-2026",
    content: [
      { type: "thinking", thinking: "hm", signature: "sig==" },
      { type: "redacted_thinking", data: "xyz" },
      { type: "text", text: "hi", citations: null },
    ],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 3, service_tier: "standard" },
  };
  api.vendor.queueReplies({ json: message });
  const request = {
    max_tokens: 2_000,
    system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
    thinking: { type: "enabled", budget_tokens: 1_024 },
    messages: [
      { role: "user", content: "a" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "t", signature: "s==" },
          { type: "text", text: "b" },
        ],
      },
      { role: "user", content: [{ type: "text", text: "c", cache_control: { type: "ephemeral" } }] },
    ],
    metadata: { user_id: "u" },
    future_field: true,
  };
  const received = await api
    .anthropic()
    .messages.create(
      { ...request, model: "claude/claude-up" } as unknown as Anthropic.MessageCreateParamsNonStreaming,
      {
        headers: { "anthropic-beta": "feature-2026-01-01" },
      },
    );
  expect(received).toEqual(message);
  expect(lastRequest().body).toEqual({ ...request, model: "claude-up" });
  expect(lastRequest().headers).toMatchObject({
    authorization: "Bearer sk-ant",
    "anthropic-beta": "feature-2026-01-01",
  });
});

verifies("llm.gateway", "streams message events as the provider sent them", async () => {
  const sse = messageStream(
    [
      {
        start: { type: "thinking", thinking: "", signature: "" },
        deltas: [
          { type: "thinking_delta", thinking: "hm" },
          { type: "signature_delta", signature: "sig" },
        ],
      },
      {
        start: { type: "tool_use", id: "toolu_1", name: "weather", input: {} },
        deltas: [{ type: "input_json_delta", partial_json: '{"city":"Oslo"}' }],
      },
    ],
    "tool_use",
  );
  api.vendor.queueReplies({ sse });
  const response = await fetch(`${api.url}/v1/messages?beta=true`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": await api.createKey() },
    body: JSON.stringify({ model: "claude-up", max_tokens: 100, stream: true, messages: hello }),
  });
  expect(response.headers.get("content-type")).toContain("text/event-stream");
  expect(await response.text()).toBe(sse);
  api.vendor.queueReplies({ sse });
  const final_message = await api
    .anthropic()
    .messages.stream({ model: "claude-up", max_tokens: 100, messages: hello })
    .finalMessage();
  expect(final_message.content).toEqual([
    { type: "thinking", thinking: "hm", signature: "sig" },
    { type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" } },
  ]);
  expect(final_message.usage).toMatchObject({
    input_tokens: 7,
    cache_read_input_tokens: 3,
    output_tokens: 9,
  });
});

verifies("llm.gateway", "translates tools, images and results of messages to chat completions", async () => {
  api.vendor.queueReplies({
    sse: chatStream(
      [
        { content: "Let me " },
        { content: "see." },
        { tool_calls: [{ index: 0, id: "call_1", function: { name: "weather", arguments: '{"city":' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '"Oslo"}' } }] },
        { tool_calls: [{ index: 1, id: "call_2", function: { name: "weather", arguments: "{}" } }] },
      ],
      "tool_calls",
      {
        prompt_tokens: 20,
        completion_tokens: 6,
        total_tokens: 26,
        prompt_tokens_details: { cached_tokens: 8 },
      },
    ),
  });
  const image = {
    type: "image" as const,
    source: { type: "base64" as const, media_type: "image/png" as const, data: PNG },
  };
  const stream = api.anthropic().messages.stream({
    model: "chat/gpt-up",
    max_tokens: 300,
    system: [
      { type: "text", text: "One." },
      { type: "text", text: "Two." },
    ],
    tools: [{ name: "weather", description: "The weather", input_schema: WEATHER }],
    tool_choice: { type: "tool", name: "weather", disable_parallel_tool_use: true },
    stop_sequences: ["END"],
    messages: [
      { role: "user", content: [{ type: "text", text: "Look" }, image] },
      {
        role: "assistant",
        content: [{ type: "tool_use", id: "toolu_0", name: "weather", input: { city: "Rome" } }],
      },
      {
        role: "user",
        content: [
          {
            type: "tool_result",
            tool_use_id: "toolu_0",
            content: [{ type: "text", text: "rain" }],
            is_error: true,
          },
          { type: "text", text: "And now?" },
        ],
      },
    ],
  });
  const event_types: string[] = [];
  for await (const event of stream) event_types.push(event.type);
  const final_message = await stream.finalMessage();
  expect(event_types).toEqual([
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_delta",
    "content_block_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_delta",
    "content_block_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
  ]);
  expect(final_message).toMatchObject({
    type: "message",
    role: "assistant",
    stop_reason: "tool_use",
    content: [
      { type: "text", text: "Let me see." },
      { type: "tool_use", id: "call_1", name: "weather", input: { city: "Oslo" } },
      { type: "tool_use", id: "call_2", name: "weather", input: {} },
    ],
    usage: { input_tokens: 12, cache_read_input_tokens: 8, output_tokens: 6 },
  });
  expect(lastRequest().body).toMatchObject({
    model: "gpt-up",
    max_tokens: 300,
    stop: ["END"],
    tool_choice: { type: "function", function: { name: "weather" } },
    parallel_tool_calls: false,
    tools: [
      { type: "function", function: { name: "weather", description: "The weather", parameters: WEATHER } },
    ],
    messages: [
      { role: "system", content: "One.\n\nTwo." },
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
        ],
      },
      {
        role: "assistant",
        tool_calls: [{ id: "toolu_0", function: { name: "weather", arguments: '{"city":"Rome"}' } }],
      },
      { role: "tool", tool_call_id: "toolu_0", content: "rain" },
      { role: "user", content: "And now?" },
    ],
  });
});

verifies(
  "llm.gateway",
  "returns another vendor's encrypted reasoning to that vendor with the next message",
  async () => {
    const item = { type: "reasoning", id: "rs_7", summary: [], encrypted_content: "opaque==" };
    const response = (output: object[]) => ({
      id: "r",
      object: "response",
      status: "completed",
      model: "m",
      output,
    });
    api.vendor.queueReplies({
      sse: responseEvents(
        { type: "response.created", response: response([]) },
        {
          type: "response.reasoning_summary_text.delta",
          item_id: "rs_7",
          output_index: 0,
          summary_index: 0,
          delta: "why",
        },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.output_text.delta", item_id: "m", output_index: 1, content_index: 0, delta: "so" },
        { type: "response.completed", response: response([]) },
      ),
    });
    const settings = {
      model: "resp/gpt-resp",
      max_tokens: 50,
      thinking: { type: "enabled" as const, budget_tokens: 1_024 },
    };
    const first = await api.anthropic().messages.create({ ...settings, messages: hello });
    expect(first.content).toMatchObject([
      { type: "thinking", thinking: "why" },
      { type: "text", text: "so" },
    ]);
    expect(lastRequest().body).toMatchObject({
      reasoning: { effort: "low" },
      include: ["reasoning.encrypted_content"],
    });
    const next = { messages: [...hello, { role: "assistant" as const, content: first.content }, ...hello] };
    api.vendor.queueReplies({
      sse: responseEvents(
        { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "ok" },
        { type: "response.completed", response: response([]) },
      ),
    });
    await api.anthropic().messages.create({ ...settings, ...next });
    expect(lastRequest().body.input).toMatchObject([
      { role: "user" },
      {
        type: "reasoning",
        id: "rs_7",
        encrypted_content: "opaque==",
        summary: [{ type: "summary_text", text: "why" }],
      },
      { role: "assistant", content: "so" },
      { role: "user" },
    ]);
    // The same conversation at Anthropic: its API would refuse the foreign signature.
    api.vendor.queueReplies({
      json: { id: "m", type: "message", role: "assistant", content: [], usage: {} },
    });
    await api.anthropic().messages.create({ ...settings, ...next, model: "claude/claude-up" });
    expect(lastRequest().body.messages).toMatchObject([
      { role: "user" },
      { role: "assistant", content: [{ type: "text", text: "so" }] },
      { role: "user" },
    ]);
  },
);

test("leaves out unsigned thinking of another model, and messages that contain nothing else", async () => {
  api.vendor.queueReplies({
    sse: chatStream([{ reasoning_content: "unsigned" }, { content: "so" }], "stop"),
  });
  const settings = { model: "chat/gpt-up", max_tokens: 50 };
  const { content } = await api.anthropic().messages.create({ ...settings, messages: hello });
  expect(content).toEqual([
    { type: "thinking", thinking: "unsigned", signature: "" },
    { type: "text", text: "so" },
  ]);
  api.vendor.queueReplies({ json: { id: "m", type: "message", role: "assistant", content: [], usage: {} } });
  const messages: Anthropic.MessageParam[] = [
    ...hello,
    { role: "assistant", content },
    { role: "assistant", content: [content[0]!] },
    ...hello,
  ];
  await api.anthropic().messages.create({ ...settings, model: "claude/claude-up", messages });
  expect(lastRequest().body.messages).toEqual([
    ...hello,
    { role: "assistant", content: [{ type: "text", text: "so" }] },
    ...hello,
  ]);
});

test("counts tokens at the vendor, and estimates them for other providers", async () => {
  api.vendor.queueReplies({ json: { input_tokens: 321 } });
  const counted = await api.anthropic().messages.countTokens({ model: "claude/claude-up", messages: hello });
  expect(counted).toEqual({ input_tokens: 321 });
  expect(lastRequest()).toMatchObject({
    path: "/v1/messages/count_tokens",
    body: { model: "claude-up", messages: hello },
  });
  const request_count = api.vendor.requests.length;
  const text = "four letters a word ".repeat(100);
  const estimated = await api
    .anthropic()
    .messages.countTokens({ model: "chat/gpt-up", messages: [{ role: "user", content: text }] });
  expect(estimated.input_tokens).toBeGreaterThan(400);
  expect(estimated.input_tokens).toBeLessThan(700);
  expect(api.vendor.requests).toHaveLength(request_count);
});

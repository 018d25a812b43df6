/** The official OpenAI client at the model endpoints, with providers that use the same protocol and others. */
import type { OpenAI } from "openai";
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
const hello: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hello" }];
const WEATHER = {
  type: "object" as const,
  properties: { city: { type: "string" } },
  required: ["city"],
};
const tools: OpenAI.ChatCompletionFunctionTool[] = [
  { type: "function", function: { name: "weather", description: "The weather", parameters: WEATHER } },
];
const lastRequest = () => api.vendor.requests.at(-1)!;

verifies("llm.gateway", "passes a chat completion through unchanged, including unknown fields", async () => {
  const completion = {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 5,
    model: "gpt-up-2026",
    system_fingerprint: "fp",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "hi", refusal: null, vendor_extra: 1 },
        finish_reason: "stop",
      },
    ],
    usage: {
      prompt_tokens: 9,
      completion_tokens: 2,
      total_tokens: 11,
      prompt_tokens_details: { cached_tokens: 4 },
    },
  };
  api.vendor.queueReplies({ json: completion });
  const request = {
    model: "chat/gpt-up",
    messages: hello,
    logit_bias: { "50256": -100 },
    vendor_field: { a: [1] },
  };
  const received = await api
    .openai()
    .chat.completions.create(request as OpenAI.ChatCompletionCreateParamsNonStreaming);
  expect(received).toEqual(completion);
  expect(lastRequest().path).toBe("/v1/chat/completions");
  expect(lastRequest().headers.authorization).toBe("Bearer sk-vendor");
  expect(lastRequest().body).toEqual({ ...request, model: "gpt-up", stream: false });
});

verifies("llm.gateway", "streams chat chunks as the provider sent them", async () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  api.vendor.queueReplies({
    sse: chatStream(
      [
        { role: "assistant", content: "a" },
        { content: "b", x: 1 },
      ],
      "stop",
      usage,
    ),
  });
  const stream = await api
    .openai()
    .chat.completions.create({ model: "gpt-up", messages: hello, stream: true });
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  expect(chunks.map(({ choices }) => choices[0]?.delta)).toEqual([
    { role: "assistant", content: "a" },
    { content: "b", x: 1 },
    {},
  ]);
  // The gateway asked for the usage, the client did not.
  expect(lastRequest().body.stream_options).toEqual({ include_usage: true });
  api.vendor.queueReplies({ sse: chatStream([{ content: "a" }], "stop", usage) });
  const counted = await api.openai().chat.completions.create({
    model: "gpt-up",
    messages: hello,
    stream: true,
    stream_options: { include_usage: true },
  });
  let last: OpenAI.ChatCompletionChunk | undefined;
  for await (const chunk of counted) last = chunk;
  expect(last).toMatchObject({ choices: [], usage });
});

verifies(
  "llm.gateway",
  "translates tools, images and system messages from chat completions to messages",
  async () => {
    api.vendor.queueReplies({
      sse: messageStream(
        [
          { start: { type: "text", text: "" }, deltas: [{ type: "text_delta", text: "Let me see. " }] },
          {
            start: { type: "tool_use", id: "toolu_1", name: "weather", input: {} },
            deltas: [
              { type: "input_json_delta", partial_json: '{"city":' },
              { type: "input_json_delta", partial_json: '"Oslo"}' },
            ],
          },
          { start: { type: "tool_use", id: "toolu_2", name: "weather", input: {} }, deltas: [] },
        ],
        "tool_use",
      ),
    });
    const stream = api.openai().chat.completions.stream({
      model: "claude/claude-up",
      max_completion_tokens: 500,
      tools,
      tool_choice: "required",
      parallel_tool_calls: false,
      stop: ["END"],
      stream_options: { include_usage: true },
      messages: [
        { role: "developer", content: "Be brief." },
        {
          role: "user",
          content: [
            { type: "text", text: "Look" },
            { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
            { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0x" } },
            { type: "file", file: { file_id: "file-1" } },
          ],
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            { id: "c1", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } },
          ],
        },
        { role: "tool", tool_call_id: "c1", content: "sunny" },
      ],
    });
    const final_answer = await stream.finalChatCompletion();
    expect(final_answer.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: "Let me see. ",
        tool_calls: [
          { id: "toolu_1", type: "function", function: { name: "weather", arguments: '{"city":"Oslo"}' } },
          { id: "toolu_2", type: "function", function: { name: "weather", arguments: "" } },
        ],
      },
    });
    expect(final_answer.usage).toMatchObject({
      prompt_tokens: 12,
      completion_tokens: 9,
      total_tokens: 21,
      prompt_tokens_details: { cached_tokens: 3 },
    });
    const { body } = lastRequest();
    expect(body).toMatchObject({
      model: "claude-up",
      max_tokens: 500,
      stop_sequences: ["END"],
      tool_choice: { type: "any", disable_parallel_tool_use: true },
      system: [{ type: "text", text: "Be brief." }],
      tools: [{ name: "weather", description: "The weather", input_schema: WEATHER }],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Look" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
            // This instance is not at Anthropic itself, so PDFs are described.
            { type: "text", text: "[resource: file:///a.pdf, application/pdf, 6 bytes]" },
            { type: "text", text: "[file that this model cannot read]" },
          ],
        },
        {
          role: "assistant",
          content: [{ type: "tool_use", id: "c1", name: "weather", input: { city: "Rome" } }],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c1" }] },
      ],
    });
  },
);

test("returns a translated completion without a stream", async () => {
  api.vendor.queueReplies({
    sse: messageStream(
      [
        {
          start: { type: "thinking", thinking: "", signature: "" },
          deltas: [
            { type: "thinking_delta", thinking: "hm" },
            { type: "signature_delta", signature: "sig" },
          ],
        },
        { start: { type: "text", text: "" }, deltas: [{ type: "text_delta", text: "42" }] },
      ],
      "max_tokens",
    ),
  });
  const received = await api.openai().chat.completions.create({
    model: "claude-up",
    messages: hello,
    reasoning_effort: "low",
    max_tokens: 9_000,
    response_format: { type: "json_schema", json_schema: { name: "n", schema: { type: "object" } } },
  });
  expect(received.choices[0]).toEqual({
    index: 0,
    message: { role: "assistant", content: "42", refusal: null, reasoning_content: "hm" },
    logprobs: null,
    finish_reason: "length",
  });
  expect(lastRequest().body).toMatchObject({
    max_tokens: 9_000,
    thinking: { type: "enabled", budget_tokens: 2_048 },
    output_config: { format: { type: "json_schema", schema: { type: "object" } } },
  });
});

const finished = (output: object[]) => ({
  id: "resp_up",
  object: "response",
  created_at: 5,
  status: "completed",
  model: "gpt-resp",
  output,
  usage: {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 6 },
    output_tokens: 4,
    output_tokens_details: { reasoning_tokens: 2 },
    total_tokens: 14,
  },
});
const REASONING = {
  type: "reasoning",
  id: "rs_1",
  summary: [{ type: "summary_text", text: "thought" }],
  encrypted_content: "opaque==",
};

verifies("llm.gateway", "passes responses with encrypted reasoning through unchanged", async () => {
  const events = [
    { type: "response.created", response: { ...finished([]), status: "in_progress" } },
    { type: "response.output_item.added", output_index: 0, item: { ...REASONING, summary: [] } },
    { type: "response.output_item.done", output_index: 0, item: REASONING },
    { type: "response.completed", response: finished([REASONING]) },
  ];
  api.vendor.queueReplies({ sse: responseEvents(...events) });
  const input = [REASONING, { type: "message" as const, role: "user" as const, content: "go on" }];
  const stream = await api.openai().responses.create({
    model: "resp/gpt-resp",
    input: input as OpenAI.Responses.ResponseInput,
    include: ["reasoning.encrypted_content"],
    store: false,
    stream: true,
    prompt_cache_key: "k",
  });
  const received: unknown[] = [];
  for await (const event of stream) received.push(event);
  expect(received).toEqual(events.map((event, sequence_number) => ({ sequence_number, ...event })));
  expect(lastRequest().body).toEqual({
    model: "gpt-resp",
    input,
    include: ["reasoning.encrypted_content"],
    store: false,
    stream: true,
    prompt_cache_key: "k",
  });
  api.vendor.queueReplies({ json: finished([REASONING]) });
  const final_answer = await api.openai().responses.create({ model: "gpt-resp", input: "hi" });
  expect(final_answer).toMatchObject({ id: "resp_up", output: [REASONING] });
  expect(lastRequest().body).toMatchObject({ store: false, stream: false });
});

verifies("llm.gateway", "streams responses from a chat provider with free-text tools", async () => {
  api.vendor.queueReplies({
    sse: chatStream(
      [
        { reasoning_content: "thinking" },
        { content: "I " },
        { content: "call" },
        { tool_calls: [{ index: 0, id: "call_1", function: { name: "shell", arguments: '{"cmd":' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '"ls"}' } }] },
        {
          tool_calls: [
            { index: 1, id: "call_2", function: { name: "patch", arguments: '{"input":"*** Begin"}' } },
          ],
        },
      ],
      "tool_calls",
      { prompt_tokens: 8, completion_tokens: 3, total_tokens: 11 },
    ),
  });
  const stream = api.openai().responses.stream({
    model: "chat/gpt-up",
    instructions: "You code.",
    input: [
      { type: "message", role: "user", content: [{ type: "input_text", text: "list" }] },
      { type: "function_call", call_id: "c0", name: "shell", arguments: '{"cmd":"pwd"}' },
      { type: "function_call_output", call_id: "c0", output: "/tmp" },
    ],
    tools: [
      { type: "function", name: "shell", parameters: { type: "object" }, strict: false },
      { type: "custom", name: "patch", description: "Edits files" },
      { type: "web_search" },
    ],
    tool_choice: "auto",
    store: false,
  });
  const event_types: string[] = [];
  const numbers: number[] = [];
  for await (const event of stream) {
    event_types.push(event.type);
    numbers.push(event.sequence_number);
  }
  const final_answer = await stream.finalResponse();
  expect(event_types).toEqual([
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
    "response.output_item.added",
    "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done",
    "response.output_item.done",
    "response.completed",
  ]);
  expect(numbers).toEqual(event_types.map((_, n) => n));
  expect(final_answer.status).toBe("completed");
  expect(final_answer.output).toMatchObject([
    { type: "reasoning", summary: [{ type: "summary_text", text: "thinking" }] },
    { type: "message", content: [{ type: "output_text", text: "I call" }] },
    { type: "function_call", call_id: "call_1", name: "shell", arguments: '{"cmd":"ls"}' },
    { type: "custom_tool_call", call_id: "call_2", name: "patch", input: "*** Begin" },
  ]);
  expect(final_answer.usage).toMatchObject({ input_tokens: 8, output_tokens: 3, total_tokens: 11 });
  expect(lastRequest().body).toMatchObject({
    messages: [
      { role: "system", content: "You code." },
      { role: "user", content: "list" },
      {
        role: "assistant",
        tool_calls: [{ id: "c0", function: { name: "shell", arguments: '{"cmd":"pwd"}' } }],
      },
      { role: "tool", tool_call_id: "c0", content: "/tmp" },
    ],
    tools: [{ function: { name: "shell" } }, { function: { name: "patch" } }],
    tool_choice: "auto",
  });
});

verifies(
  "llm.gateway",
  "returns another vendor's signed thinking to that vendor with the next request",
  async () => {
    const signed = {
      start: { type: "thinking", thinking: "", signature: "" },
      deltas: [
        { type: "thinking_delta", thinking: "signed thought" },
        { type: "signature_delta", signature: "SIG" },
      ],
    };
    const call = {
      start: { type: "tool_use", id: "toolu_9", name: "shell", input: {} },
      deltas: [{ type: "input_json_delta", partial_json: "{}" }],
    };
    api.vendor.queueReplies({ sse: messageStream([signed, call], "tool_use") });
    const tool = { type: "function" as const, name: "shell", parameters: { type: "object" }, strict: false };
    const settings = { model: "claude/claude-up", tools: [tool], reasoning: { effort: "high" as const } };
    const first = await api.openai().responses.create({ ...settings, input: "hi" });
    expect(first.output).toMatchObject([
      { type: "reasoning" },
      { type: "function_call", call_id: "toolu_9" },
    ]);
    api.vendor.queueReplies({ sse: messageStream([], "end_turn") });
    await api.openai().responses.create({
      ...settings,
      input: [
        { role: "user", content: "hi" },
        ...(first.output as OpenAI.Responses.ResponseInputItem[]),
        { type: "function_call_output", call_id: "toolu_9", output: "ok" },
      ],
    });
    expect(lastRequest().body).toMatchObject({
      thinking: { type: "enabled" },
      messages: [
        { role: "user" },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "signed thought", signature: "SIG" },
            { type: "tool_use", id: "toolu_9" },
          ],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_9" }] },
      ],
    });
  },
);

test.each([
  ["previous_response_id", { previous_response_id: "resp_1" }],
  ["store", { store: true }],
  ["background", { background: true }],
  ["input", { input: [{ type: "item_reference" as const, id: "rs_1" }] }],
])("refuses a response that would need stored state: %s", async (_param, fields) => {
  const body = { model: "resp/gpt-resp", input: "hi", ...fields };
  const failed = api.openai().responses.create(body as OpenAI.Responses.ResponseCreateParamsNonStreaming);
  await expect(failed).rejects.toMatchObject({ status: 400, type: "invalid_request_error" });
});

test("lists the models for both vendors' clients", async () => {
  const ids: string[] = [];
  for await (const { id } of api.openai().models.list()) ids.push(id);
  expect(ids).toEqual(
    expect.arrayContaining(["chat/gpt-up", "resp/gpt-resp", "claude/claude-up", "echo/echo-1"]),
  );
  const anthropic_models: string[] = [];
  for await (const { id, type } of api.anthropic().models.list()) anthropic_models.push(`${type} ${id}`);
  expect(anthropic_models).toContain("model claude/claude-up");
  expect(await api.openai().models.retrieve("chat/gpt-up")).toMatchObject({
    id: "chat/gpt-up",
    object: "model",
  });
});

verifies("llm.gateway", "offers tools of a namespace to a provider without namespaces", async () => {
  const call = { index: 0, id: "call_1", function: { name: "mcp__files__read", arguments: '{"path":"a"}' } };
  api.vendor.queueReplies({ sse: chatStream([{ tool_calls: [call] }], "tool_calls") });
  const files = {
    type: "namespace",
    name: "mcp__files",
    tools: [{ type: "function", name: "read", parameters: { type: "object" } }],
  };
  const earlier = {
    type: "function_call",
    call_id: "c0",
    namespace: "mcp__files",
    name: "read",
    arguments: "{}",
  };
  const body = {
    model: "chat/gpt-up",
    input: [
      { type: "message", role: "user", content: "read a" },
      earlier,
      { type: "function_call_output", call_id: "c0", output: "?" },
    ],
    tools: [files],
    store: false,
  };
  const final_answer = await api.openai().responses.create(body as never);
  expect((final_answer as { output: unknown }).output).toMatchObject([
    {
      type: "function_call",
      call_id: "call_1",
      namespace: "mcp__files",
      name: "read",
      arguments: '{"path":"a"}',
    },
  ]);
  expect(lastRequest().body).toMatchObject({
    messages: [
      { role: "user" },
      { tool_calls: [{ function: { name: "mcp__files__read" } }] },
      { role: "tool" },
    ],
    tools: [{ function: { name: "mcp__files__read" } }],
  });
});

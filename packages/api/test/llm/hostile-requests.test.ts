/**
 * Requests from clients that try to spend more than their budget or to read data that they may not see, and requests
 * with unusual or invalid fields.
 */
import type { JsonObject } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { chat } from "../../src/llm/chat.ts";
import { messages } from "../../src/llm/messages.ts";
import { responses } from "../../src/llm/responses.ts";
import { type LlmApi, startLlmApi } from "../support/llm-api.ts";
import { chatStream } from "../support/vendor-server.ts";

let api: LlmApi;
beforeAll(async () => {
  api = await startLlmApi();
});
afterAll(() => api.close());

const hello = [{ role: "user" as const, content: "hello" }];
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const completion = {
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: {}, finish_reason: "stop" }],
  usage,
};

async function post(path: string, token: string, body: JsonObject): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return await fetch(`${api.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
}
const ask = (token: string, body: JsonObject) =>
  post("/v1/chat/completions", token, { model: "chat/gpt-up", messages: hello, ...body });
const readStatus = async (response: Promise<Response>) => (await response).status;
const readLastCall = async () => (await api.call("GET", "/v1/llm-calls?limit=1")).json.items[0];

/** Streams the beginning of an answer and disconnects. */
async function disconnectMidAnswer(
  token: string,
  body: JsonObject,
  deltas: object[] = [{ content: "a" }],
): Promise<void> {
  api.vendor.queueReplies({ sse: chatStream(deltas, "stop").split("data: [DONE]")[0]!, hold: true });
  const response = await ask(token, { ...body, stream: true });
  expect(response.status).toBe(200);
  const reader = response.body!.getReader();
  let received = "";
  while (!received.includes('"stop"')) received += Buffer.from((await reader.read()).value!).toString();
  await reader.cancel();
  await expect.poll(async () => (await readLastCall()).status).toBe("cancelled");
}

verifies("llm.gateway", "never reserves a negative, fractional or enormous number of tokens", async () => {
  const token = await api.createKey({ llm: { tokens_per_day: 5_000_000 } });
  for (const max_tokens of [-10_000_000, 0.5, 1e300]) await disconnectMidAnswer(token, { max_tokens });
  api.vendor.queueReplies({ json: { ...completion, usage: { ...usage, prompt_tokens: 5_000_000 } } });
  expect(await readStatus(ask(token, {}))).toBe(200);
  // A remaining negative reservation would allow this call.
  expect(await readStatus(ask(token, {}))).toBe(429);
});

verifies("llm.gateway", "counts the tokens that were streamed before a client disconnects", async () => {
  const token = await api.createKey({ llm: { tokens_per_day: 1_000 } });
  const deltas = Array.from({ length: 1_200 }, () => ({ content: "a" }));
  await disconnectMidAnswer(token, { max_tokens: 1 }, deltas);
  expect(await readStatus(ask(token, {}))).toBe(429);
});

verifies("llm.gateway", "counts the estimate of a call whose provider reports no usage", async () => {
  const token = await api.createKey({ llm: { tokens_per_day: 1_000 } });
  api.vendor.queueReplies({ json: { ...completion, usage: undefined } });
  expect(await readStatus(ask(token, { max_tokens: 1_000 }))).toBe(200);
  expect(await readStatus(ask(token, {}))).toBe(429);
});

verifies("llm.gateway", "keeps a client's stream_options in the retry without include_usage", async () => {
  const token = await api.createKey();
  const refusal = {
    error: { message: "Unknown parameter: stream_options.x", type: "invalid_request_error" },
  };
  api.vendor.queueReplies({ status: 400, json: refusal }, { status: 400, json: refusal });
  const request_count = api.vendor.requests.length;
  expect(await readStatus(ask(token, { stream: true, stream_options: { x: 1 } }))).toBe(400);
  expect(api.vendor.requests.slice(request_count).map(({ body }) => body.stream_options)).toEqual([
    { x: 1, include_usage: true },
    { x: 1 },
  ]);
});

verifies("llm.gateway", "does not pass on a reference to a stored artifact", () => {
  const stored = {
    type: "image",
    mimeType: "image/png",
    transport: "artifact",
    path: "a.png",
    bytes: 1,
    sha256: "0".repeat(64),
    invocation_id: "inv_1",
  };
  const content = [stored, { ...stored, type: "resource", resource: { mimeType: "image/png" } }];
  const result = { type: "tool_result", tool_use_id: "a", content };
  const tool = { role: "tool", tool_call_id: "a", content };
  const read = [
    chat.read({ model: "m", messages: [{ role: "user", content }, tool] }, {}),
    messages.read(
      { model: "m", max_tokens: 1, messages: [{ role: "user", content: [...content, result] }] },
      {},
    ),
    responses.read(
      {
        model: "m",
        input: [
          { role: "user", content },
          { type: "function_call_output", call_id: "a", output: content },
        ],
      },
      {},
    ),
  ];
  for (const request of read) expect(JSON.stringify(request.messages)).not.toContain("inv_1");
});

test("refuses stop sequences that are not strings", async () => {
  const token = await api.createKey();
  const stop = [{ toString: 1, valueOf: 1 }];
  const refused = await ask(token, { stop });
  expect(refused.status).toBe(400);
  expect(await refused.json()).toMatchObject({ error: { type: "invalid_request_error" } });
  const message = { model: "claude/claude-up", max_tokens: 9, messages: hello, stop_sequences: stop };
  expect(await readStatus(post("/v1/messages", token, message))).toBe(400);
});

test("identifies the invalid field without referring to details that a vendor's error does not have", async () => {
  const response = await ask(await api.createKey(), { messages: 5 });
  const { error } = (await response.json()) as { error: { message: string } };
  expect(error.message).toContain("body.messages");
  expect(error.message).not.toContain("details");
});

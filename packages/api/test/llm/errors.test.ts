/** Errors of the model endpoints have the form of the protocol's vendor, whatever fails. */
import type { Anthropic } from "@anthropic-ai/sdk";
import { APIError, type OpenAI } from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type LlmApi, startLlmApi } from "../support/llm-api.ts";
import { chatStream } from "../support/vendor-server.ts";

let api: LlmApi;
beforeAll(async () => {
  api = await startLlmApi({ timeout_s: 1 });
});
afterAll(() => api.close());

const hello = [{ role: "user" as const, content: "hello" }];
const createCompletion = (body: object = {}, token?: string) =>
  api.openai(token).chat.completions.create({
    model: "chat/gpt-up",
    messages: hello,
    ...body,
  } as OpenAI.ChatCompletionCreateParamsNonStreaming);
const createMessage = (body: object = {}, token?: string) =>
  api.anthropic(token).messages.create({
    model: "claude/claude-up",
    max_tokens: 9,
    messages: hello,
    ...body,
  } as Anthropic.MessageCreateParamsNonStreaming);

async function catchFailure(
  call: Promise<unknown>,
): Promise<{ status: number; error: unknown; headers: Headers }> {
  const error = await call.then(
    () => expect.fail("the call succeeded"),
    (thrown: unknown) => thrown,
  );
  return error as { status: number; error: unknown; headers: Headers };
}

verifies(
  "llm.gateway",
  "reports invalid credentials, unknown models and invalid requests in each vendor's form",
  async () => {
    expect(await catchFailure(createCompletion({}, "bpk_wrong"))).toMatchObject({
      status: 401,
      error: { type: "authentication_error", code: "invalid_api_key", param: null },
    });
    expect(await catchFailure(createMessage({}, "bpk_wrong"))).toMatchObject({
      status: 401,
      error: { type: "error", error: { type: "authentication_error" } },
    });
    const reader = await api.createKey({ scopes: ["invocations:read"] });
    expect(await catchFailure(createCompletion({}, reader))).toMatchObject({
      status: 403,
      error: { type: "permission_error" },
    });
    expect(await catchFailure(createMessage({}, reader))).toMatchObject({
      status: 403,
      error: { error: { type: "permission_error" } },
    });
    expect(await catchFailure(createCompletion({ model: "gpt-none" }))).toMatchObject({
      status: 404,
      error: { type: "invalid_request_error", code: "model_not_found", param: "model" },
    });
    expect(await catchFailure(createMessage({ model: "claude/none" }))).toMatchObject({
      status: 404,
      error: { error: { type: "not_found_error" } },
    });
    const invalid = await catchFailure(createCompletion({ messages: [] }));
    expect(invalid).toMatchObject({ status: 400, error: { type: "invalid_request_error" } });
    expect((invalid as unknown as Error).message).toContain("body.messages");
    expect(await catchFailure(createMessage({ max_tokens: 0 }))).toMatchObject({
      status: 400,
      error: { error: { type: "invalid_request_error" } },
    });
    expect(api.vendor.requests).toEqual([]);
  },
);

verifies(
  "llm.gateway",
  "reports errors of the list of models in the form of the client's vendor",
  async () => {
    const reader = await api.createKey({ scopes: ["invocations:read"] });
    const openai = { error: { message: expect.any(String), type: "authentication_error", param: null } };
    const anthropic = { type: "error", error: { type: "authentication_error", message: expect.any(String) } };
    expect(await catchFailure(api.openai("bpk_wrong").models.list())).toMatchObject({
      status: 401,
      ...openai,
    });
    for (const path of ["/v1/models", "/v1/models/claude%2Fclaude-up"]) {
      const get = async (token: string, headers: Record<string, string> = {}) => {
        const response = await fetch(`${api.url}${path}`, {
          headers: { authorization: `Bearer ${token}`, ...headers },
        });
        return { status: response.status, body: await response.json() };
      };
      const version = { "anthropic-version": "2023-06-01" };
      expect(await get("bpk_wrong")).toEqual({
        status: 401,
        body: { error: { ...openai.error, code: "invalid_api_key" } },
      });
      expect(await get("bpk_wrong", version)).toEqual({ status: 401, body: anthropic });
      expect(await get(reader)).toMatchObject({
        status: 403,
        body: { error: { type: "permission_error", param: null } },
      });
      expect(await get(reader, version)).toMatchObject({
        status: 403,
        body: { type: "error", error: { type: "permission_error" } },
      });
    }
    expect(await catchFailure(api.openai().models.retrieve("gpt-none"))).toMatchObject({
      status: 404,
      error: { type: "invalid_request_error", code: "model_not_found", param: "model" },
    });
    expect(await catchFailure(api.anthropic().models.retrieve("gpt-none"))).toMatchObject({
      status: 404,
      error: { type: "error", error: { type: "not_found_error" } },
    });
  },
);

verifies("llm.gateway", "reports the provider's errors without its text or our credentials", async () => {
  const upstream = {
    error: { message: "secret detail sk-vendor", type: "rate_limit_error", code: "rate_limit_exceeded" },
  };
  api.vendor.queueReplies({ status: 429, json: upstream, headers: { "retry-after": "7" } });
  const limited = await catchFailure(createCompletion());
  expect(limited).toMatchObject({ status: 429, error: { code: "rate_limit_exceeded" } });
  expect(limited.headers.get("retry-after")).toBe("7");
  expect(JSON.stringify(limited.error)).not.toContain("secret detail");
  // The gateway's credential is wrong, not the client's.
  api.vendor.queueReplies({ status: 401, json: upstream });
  expect(await catchFailure(createCompletion({ stream: true }))).toMatchObject({
    status: 502,
    error: { type: "server_error" },
  });
  api.vendor.queueReplies({
    status: 529,
    json: { type: "error", error: { type: "overloaded_error", message: "x" } },
  });
  expect(await catchFailure(createMessage({ stream: true }))).toMatchObject({
    status: 529,
    error: { error: { type: "overloaded_error" } },
  });
  api.vendor.queueReplies({ status: 400, json: upstream });
  expect(await catchFailure(createMessage({ model: "chat/gpt-up" }))).toMatchObject({
    status: 400,
    error: { error: { type: "invalid_request_error" } },
  });
});

test("ends a stream that fails midway with an error event", async () => {
  const first = chatStream([{ content: "a" }], "stop").split("\n\n")[0]!;
  api.vendor.queueReplies({ sse: `${first}\n\n` });
  const stream = (await createCompletion({
    stream: true,
  })) as unknown as AsyncIterable<OpenAI.ChatCompletionChunk>;
  const contents: string[] = [];
  const read = async () => {
    for await (const { choices } of stream) contents.push(choices[0]!.delta.content!);
  };
  await expect(read()).rejects.toBeInstanceOf(APIError);
  expect(contents).toEqual(["a"]);
  api.vendor.queueReplies({ sse: `${first}\n\n` });
  const translated = api
    .anthropic()
    .messages.stream({ model: "chat/gpt-up", max_tokens: 9, messages: hello });
  await expect(translated.finalMessage()).rejects.toMatchObject({ error: { type: "error" } });
  api.vendor.queueReplies({ sse: `${first}\n\n` });
  const events: { type: string }[] = [];
  for await (const event of await api
    .openai()
    .responses.create({ model: "chat/gpt-up", input: "hi", stream: true }))
    events.push(event);
  expect(events.at(-1)).toMatchObject({
    type: "response.failed",
    response: { status: "failed", error: { code: "llm.failed" } },
  });
});

test("responds 504 when the provider sends nothing within its time limit", async () => {
  api.vendor.queueReplies({ sse: "", hold: true });
  expect(await catchFailure(createCompletion())).toMatchObject({
    status: 504,
    error: { type: "server_error" },
  });
});

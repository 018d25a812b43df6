/** Calls to model endpoints are recorded before the provider is called; budgets of keys and projects limit them. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { type LlmApi, startLlmApi } from "../support/llm-api.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { chatStream } from "../support/vendor-server.ts";

let api: LlmApi;
beforeAll(async () => {
  api = await startLlmApi();
});
afterAll(() => api.close());

const hello = [{ role: "user" as const, content: "hello" }];
const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const ask = (token?: string, body: object = {}) =>
  api.openai(token).chat.completions.create({ model: "chat/gpt-up", messages: hello, ...body }, {});
const completion = {
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: {}, finish_reason: "stop" }],
  usage,
};
const listCalls = async (query = "") => (await api.call("GET", `/v1/llm-calls${query}`)).json.items;
const catchRefusal = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown as { status: number; code: string; headers: Headers },
  );
  return error === null ? null : [error.status, error.code];
};

verifies(
  "llm.gateway",
  "writes the record to disk before the provider answers and completes it with the usage",
  async () => {
    api.vendor.queueReplies({
      sse: chatStream([{ content: "a" }], "stop", usage)
        .split("\n\n")[0]!
        .concat("\n\n"),
      hold: true,
    });
    const token = await api.createKey();
    const stream = await api
      .openai(token)
      .chat.completions.create({ model: "gpt-up", messages: hello, stream: true });
    const [running] = await listCalls();
    expect(running).toMatchObject({
      status: "running",
      protocol: "chat",
      stream: true,
      provider: "chat",
      model: "gpt-up",
      requested_model: "gpt-up",
      usage: null,
      actor: expect.stringMatching(/^key_/),
    });
    expect(running.key_id).toBe(running.actor);
    const upstream = api.vendor.requests.at(-1)!;
    stream.controller.abort();
    // The provider's connection is closed because the client has disconnected.
    await upstream.closed;
    await expect
      .poll(async () => (await listCalls())[0])
      .toMatchObject({ id: running.id, status: "cancelled" });
    api.vendor.queueReplies({ json: completion });
    const { response } = await ask(token).withResponse();
    const id = response.headers.get("backplane-llm-call")!;
    expect((await api.call("GET", `/v1/llm-calls/${id}`)).json).toMatchObject({
      status: "succeeded",
      stop_reason: "stop",
      usage: { input: 10, output: 5, total: 15 },
      error: null,
    });
    api.vendor.queueReplies({ status: 503, json: {} });
    await expect(ask(token)).rejects.toMatchObject({ status: 503 });
    expect((await listCalls())[0]).toMatchObject({
      status: "failed",
      error: { code: "llm.failed", status: 503 },
    });
  },
);

verifies("llm.gateway", "admits no more concurrent calls than the budget of a key allows", async () => {
  const token = await api.createKey({ llm: { requests_per_day: 3 } });
  api.vendor.queueReplies(...Array.from({ length: 3 }, () => ({ json: completion })));
  const request_count = api.vendor.requests.length;
  const refusals = await Promise.all(Array.from({ length: 8 }, () => catchRefusal(ask(token))));
  expect(refusals.filter((each) => each === null)).toHaveLength(3);
  expect(refusals.filter((each) => each?.join() === "429,insufficient_quota")).toHaveLength(5);
  expect(api.vendor.requests).toHaveLength(request_count + 3);
  const failed = await api
    .anthropic(token)
    .messages.create({ model: "claude-up", max_tokens: 5, messages: hello })
    .catch((error: { status: number; error: unknown; headers: Headers }) => error);
  expect(failed).toMatchObject({
    status: 429,
    error: { type: "error", error: { type: "rate_limit_error" } },
  });
  expect((failed as { headers: Headers }).headers.get("x-should-retry")).toBe("false");
});

verifies(
  "llm.gateway",
  "counts running calls towards a token budget and replaces the estimate at their end",
  async () => {
    const token = await api.createKey({ llm: { tokens_per_day: 1_000 } });
    api.vendor.queueReplies({ json: completion }, { json: completion });
    // Each call reserves about 900 tokens, so the third would start above the limit; each really uses 15.
    const refusals = await Promise.all(
      Array.from({ length: 4 }, () => catchRefusal(ask(token, { max_tokens: 900 }))),
    );
    expect(refusals.filter((each) => each === null)).toHaveLength(2);
    api.vendor.queueReplies({ json: completion });
    expect(await catchRefusal(ask(token, { max_tokens: 900 }))).toBeNull();
    api.vendor.queueReplies({ json: { ...completion, usage: { ...usage, prompt_tokens: 2_000 } } });
    expect(await catchRefusal(ask(token))).toBeNull();
    expect(await catchRefusal(ask(token))).toEqual([429, "insufficient_quota"]);
  },
);

verifies(
  "llm.gateway",
  "applies the budget of a project to all its keys and resets it with the period",
  async () => {
    const project = { project_id: "proj_budget" };
    const scoped = { "backplane-project": "proj_budget" };
    const set = await api.call("PATCH", "/v1/policy?level=project", {
      headers: scoped,
      body: { llm: { requests_per_minute: 2 } },
    });
    expect(set.status, set.text).toBe(200);
    const [a, b] = [await api.createKey(project), await api.createKey(project)];
    api.vendor.queueReplies({ json: completion }, { json: completion }, { json: completion });
    expect(await catchRefusal(ask(a))).toBeNull();
    expect(await catchRefusal(ask(b))).toBeNull();
    expect(await catchRefusal(ask(a))).toEqual([429, "insufficient_quota"]);
    api.clock.advance(60_000);
    expect(await catchRefusal(ask(b))).toBeNull();
  },
);

test("offers a key only the models that it may use", async () => {
  const token = await api.createKey({ llm: { models: ["claude/*"] } });
  const ids: string[] = [];
  for await (const { id } of api.openai(token).models.list()) ids.push(id);
  expect(ids).toEqual(["claude/claude-up"]);
  expect(await catchRefusal(ask(token))).toEqual([404, "model_not_found"]);
});

verifies(
  "llm.gateway",
  "accepts a delegated token until its call ends, and identifies that call in the record",
  async () => {
    const folder = writeSamplePackage(api.home, "1.0.0", "", ["llm:invoke"]);
    await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
    await api.call("POST", "/v1/plugin-bindings", {
      body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" },
    });
    const { token: key } = (
      await api.call("POST", "/v1/keys", {
        body: { name: "owner", role: "owner", scopes: ["admin"], llm: { requests_per_day: 2 } },
      })
    ).json;
    const request_count = api.runner.requests.length;
    const { json } = await api.call("POST", "/v1/invocations", {
      body: { export_id: "echo", input: { do: "wait" } },
      token: key,
    });
    await api.runner.started(request_count + 1);
    const token = api.runner.requests[request_count]!.context.gateway.delegation_token!;
    api.vendor.queueReplies({ json: completion });
    expect(await catchRefusal(ask(token))).toBeNull();
    const [call] = await listCalls(`?invocation_id=${json.id}`);
    expect(call).toMatchObject({ actor: json.id, invocation_id: json.id, status: "succeeded" });
    expect(call.key_id).toMatch(/^key_/);
    // The token is sent in Anthropic's header, and the stream ends with the call that owns the token.
    api.vendor.queueReplies({ sse: "event: ping\ndata: {}\n\n", hold: true });
    const held = api
      .anthropic(token)
      .messages.create({ model: "claude-up", max_tokens: 5, messages: hello, stream: true });
    const upstreams = api.vendor.requests.length;
    await expect.poll(() => api.vendor.requests.length).toBe(upstreams + 1);
    api.runner.release(json.id);
    await api.vendor.requests.at(-1)!.closed;
    await expect(held).rejects.toBeDefined();
    await expect.poll(async () => (await listCalls())[0].status).toBe("cancelled");
    await sleep(0);
    expect(await catchRefusal(ask(token))).toEqual([401, "invalid_api_key"]);
  },
);

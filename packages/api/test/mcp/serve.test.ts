/** `/mcp` in both revisions: the same tools and the same door, in the format of each revision. */
import type { JsonObject, KernelPlugin } from "@backplane/contract";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bindSample, startBoundApi } from "../support/bound-api.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import {
  buildRequest,
  callParams,
  connect,
  type McpClient,
  META,
  readReply,
  send,
} from "../support/mcp-client.ts";
import { ADMIN_TOKEN, type TestApi } from "../support/start-api.ts";

const progress_reporter: KernelPlugin = {
  name: "progress-reporter",
  version: "1.0.0",
  category: "tool",
  subscriptions: () => [],
  async onLoad(ctx) {
    await ctx.registerTool({
      name: "tell",
      description: "Tells what it does.",
      parameters: { type: "object", properties: {} },
      effect_class: "idempotent_write",
      run(_args, call) {
        call.progress({ type: "log", level: "warn", message: "careful" });
        call.progress({ type: "progress", message: "half", data: { progress: 50, total: 100 } });
        call.progress({ type: "progress", message: "less", data: { progress: 10, total: 100 } });
        return { ok: true, brief: "told", display: { kind: "json", data: { notifications: 3 } } };
      },
    });
  },
};

let api: TestApi;
let base = "";
let ask_binding_id = "";
beforeAll(async () => {
  ({ api, base } = await startBoundApi(["echo", "notify"], [], {
    plugins: await loadBundledPlugins(progress_reporter),
  }));
  await api.call("PATCH", "/v1/policy", { body: { tolerance: { conversation: "medium" } } });
  ask_binding_id = await bind("ask");
});
afterAll(() => api.close());

const bind = (export_id: string, headers: Record<string, string> = {}) => bindSample(api, export_id, headers);

const setStatus = (status: string) =>
  api.call("PATCH", `/v1/plugin-bindings/${ask_binding_id}`, { body: { status } });
const readInvocation = async (id: string) => (await api.call("GET", `/v1/invocations/${id}`)).json;
const idOf = (result: JsonObject) => (result._meta as JsonObject)["backplane/invocation_id"] as string;

describe.each(["2025-11-25", "2026-07-28"])("MCP revision %s", (revision) => {
  let client: McpClient;
  beforeAll(async () => {
    client = await connect(base, revision);
  });
  const stateless = revision === "2026-07-28";

  test("lists kernel tools and bound tool exports by name, and no other exports", async () => {
    const { last } = await client.ask("tools/list");
    const tools = last.result.tools as JsonObject[];
    expect(tools.map(({ name }) => name)).toEqual(["ask", "echo", "tell"]);
    expect(tools[1]).toMatchObject({
      inputSchema: { type: "object", properties: { text: { type: "string" } } },
      annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true },
    });
    expect(tools[2]).toMatchObject({
      description: "Tells what it does.",
      annotations: { readOnlyHint: false, idempotentHint: true },
    });
    if (stateless)
      expect(last.result).toMatchObject({ resultType: "complete", ttlMs: 0, cacheScope: "private" });
  });

  test("responds with JSON to a call of a bound export, and records the call", async () => {
    const { status, form, last } = await client.ask("tools/call", callParams("echo", { text: "hi" }));
    expect([status, form]).toEqual([200, "json"]);
    expect(last.result).toMatchObject({ content: [{ type: "text", text: "hi" }], isError: false });
    const row = await readInvocation(idOf(last.result));
    expect(row).toMatchObject({ status: "succeeded", export_id: "echo", input: { text: "hi" } });
  });

  test("sends progress and log messages before the result, with increasing progress", async () => {
    const level: JsonObject = stateless ? { [META.level]: "info" } : {};
    const params = { name: "tell", arguments: {}, _meta: { progressToken: "p1", ...level } };
    const { form, messages, last } = await client.ask("tools/call", params);
    expect(form).toBe("sse");
    const notifications = messages.slice(0, -1) as { method: string; params: JsonObject }[];
    expect(
      notifications.map(({ method, params: { progress, level } }) => [method, progress ?? level]),
    ).toEqual([
      ["notifications/message", "warning"],
      ["notifications/progress", 50],
      ["notifications/progress", 51],
    ]);
    expect(notifications[1]!.params).toMatchObject({ progressToken: "p1", total: 100, message: "half" });
    expect(last.result).toMatchObject({ structuredContent: { notifications: 3 }, isError: false });
    expect(JSON.parse(last.result.content[0].text as string)).toEqual({ notifications: 3 });
  });

  test("returns a tool failure as a result and an unknown tool as an error", async () => {
    const failed = await client.ask("tools/call", callParams("echo", { do: "fail" }));
    expect(failed.last.result).toMatchObject({
      isError: true,
      content: [{ type: "text", text: "it would not" }],
      _meta: { "backplane/error": { code: "plugin_failed" } },
    });
    const wrong = await client.ask("tools/call", callParams("echo", { text: 7 }));
    expect(wrong.last.result).toMatchObject({
      isError: true,
      // The text appears once, because every word costs tokens.
      content: [{ type: "text", text: expect.stringMatching(/^\/text: [^\n]+$/) }],
      _meta: { "backplane/error": { code: "input.invalid" } },
    });
    for (const name of ["nothing", "notify", "../etc"]) {
      const { status, last } = await client.ask("tools/call", callParams(name));
      expect([status, last.error.code], name).toEqual([200, -32602]);
    }
    const shapes: JsonObject[] = [{ arguments: {} }, { name: "echo", arguments: [1] }, { name: 7 }];
    for (const params of shapes)
      expect((await client.ask("tools/call", params)).last.error.code).toBe(-32602);
  });

  test("notifies that a call is awaiting approval and continues when it is approved", async () => {
    const notifications: JsonObject[] = [];
    const level: JsonObject = stateless ? { [META.level]: "notice" } : {};
    const approval_id = Promise.withResolvers<string>();
    const params = { name: "ask", arguments: {}, _meta: { progressToken: 9, ...level } };
    const running = client.ask("tools/call", params, {
      each(message) {
        notifications.push(message);
        const data = (message.params as JsonObject | undefined)?.data as JsonObject | undefined;
        if (typeof data?.approval_id === "string") approval_id.resolve(data.approval_id);
      },
    });
    const approval = await approval_id.promise;
    expect(notifications.map(({ method }) => method)).toEqual([
      "notifications/progress",
      "notifications/message",
    ]);
    await api.call("POST", `/v1/approvals/${approval}:answer`, { body: { response: "approve" } });
    expect((await running).last.result).toMatchObject({ isError: false, content: [{ text: "done" }] });

    // Without a stream the client only waits; the model receives a rejection.
    const quiet = client.ask("tools/call", callParams("ask"), { headers: { accept: "application/json" } });
    const findPending = async (): Promise<string> => {
      const { json } = await api.call("GET", "/v1/approvals?status=pending");
      return (json.items[0]?.id as string | undefined) ?? (await new Promise(setImmediate).then(findPending));
    };
    await api.call("POST", `/v1/approvals/${await findPending()}:answer`, { body: { response: "reject" } });
    const { form, last } = await quiet;
    expect(form).toBe("json");
    expect(last.result).toMatchObject({
      isError: true,
      _meta: { "backplane/error": { code: "approval.rejected" } },
    });
  });

  test("sends list_changed for a disabled binding, but not for a binding of another project", async () => {
    const stop = new AbortController();
    const received = Promise.withResolvers<JsonObject>();
    const ready = Promise.withResolvers<void>();
    const each = (message: JsonObject) => {
      if (message.method === "notifications/tools/list_changed") received.resolve(message);
      else ready.resolve();
    };
    const signal = stop.signal;
    const listening = stateless
      ? client.ask(
          "subscriptions/listen",
          { notifications: { toolsListChanged: true, promptsListChanged: true } },
          { signal, each, id: "sub" },
        )
      : fetch(`${base}/mcp`, {
          headers: { authorization: `Bearer ${ADMIN_TOKEN}`, ...client.headers },
          signal,
        }).then((response) => {
          ready.resolve();
          return readReply(response, each);
        });
    listening.catch(() => undefined);
    await ready.promise;
    let notified = false;
    void received.promise.then(() => {
      notified = true;
    });
    await bind("echo", { "backplane-project": "proj_other" });
    await client.ask("tools/list");
    expect(notified).toBe(false);
    await setStatus("disabled");
    const message = await received.promise;
    if (stateless)
      expect(message.params).toEqual({ _meta: { "io.modelcontextprotocol/subscriptionId": "sub" } });
    await setStatus("active");
    stop.abort();
  });

  test("returns empty lists or errors for missing resources and prompts", async () => {
    expect((await client.ask("resources/list")).last.result.resources).toEqual([]);
    expect((await client.ask("resources/templates/list")).last.result.resourceTemplates).toEqual([]);
    expect((await client.ask("prompts/list")).last.result.prompts).toEqual([]);
    const done = await client.ask("completion/complete", {
      ref: { type: "ref/prompt", name: "x" },
      argument: { name: "a", value: "" },
    });
    expect(done.last.error.code).toBe(-32602);
    const missing = await client.ask("resources/read", { uri: "file:///etc/passwd" });
    expect(missing.last.error).toMatchObject({
      code: stateless ? -32602 : -32002,
      data: { uri: "file:///etc/passwd" },
    });
    expect((await client.ask("prompts/get", { name: "x" })).last.error.code).toBe(-32602);
    expect((await client.ask("tools/list", { cursor: "!" })).last.error.code).toBe(-32602);
    const unknown = await client.ask("tools/explode");
    expect([unknown.status, unknown.last.error.code]).toEqual([stateless ? 404 : 200, -32601]);
    const unsupported = await client.ask(stateless ? "ping" : "server/discover");
    expect(unsupported.last.error.code).toBe(-32601);
  });
});

test("negotiates the requested revision, or the newest one if it is unknown", async () => {
  for (const [input, negotiated] of [
    ["2025-11-25", "2025-11-25"],
    ["2025-06-18", "2025-06-18"],
    ["2025-03-26", "2025-03-26"],
    ["2099-01-01", "2025-11-25"],
  ]) {
    const { last, headers } = await send(base, buildRequest("initialize", { protocolVersion: input! }));
    expect(last.result).toMatchObject({
      protocolVersion: negotiated,
      serverInfo: { name: "backplane", version: "0.0.0-test" },
      capabilities: { tools: { listChanged: true }, logging: {} },
    });
    expect(headers.get("mcp-session-id")).toMatch(/^[A-Za-z0-9_-]{32}$/);
  }
  expect((await send(base, buildRequest("initialize", {}))).last.error.code).toBe(-32602);
});

test("lists every supported revision in server/discover", async () => {
  const client = await connect(base, "2026-07-28");
  const { last } = await client.ask("server/discover");
  expect(last.result).toMatchObject({
    supportedVersions: ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
    capabilities: { tools: { listChanged: true } },
    _meta: { "io.modelcontextprotocol/serverInfo": { name: "backplane" } },
  });
});

test("applies the log level of a session and rejects an unknown level", async () => {
  const client = await connect(base, "2025-11-25");
  const readLevels = async () => {
    const { messages } = await client.ask("tools/call", callParams("tell"));
    return messages.slice(0, -1).map(({ params }) => params.level);
  };
  expect(await readLevels()).toEqual(["warning"]);
  expect((await client.ask("logging/setLevel", { level: "error" })).last.result).toEqual({});
  expect(await readLevels()).toEqual([]);
  expect((await client.ask("logging/setLevel", { level: "loud" })).last.error.code).toBe(-32602);
});

test("sends no log messages to a stateless call that did not request them", async () => {
  const client = await connect(base, "2026-07-28");
  const { form, messages } = await client.ask("tools/call", callParams("tell"));
  expect([form, messages.length]).toEqual(["json", 1]);
});

test("limits an approval for the session to the MCP session that requested it", async () => {
  const [first, second] = [await connect(base, "2025-11-25"), await connect(base, "2025-11-25")];
  const callAndAnswer = async (client: McpClient, response: string) => {
    const notified = Promise.withResolvers<void>();
    const running = client.ask("tools/call", callParams("ask", {}, "p"), { each: () => notified.resolve() });
    await notified.promise;
    const { json } = await api.call("GET", "/v1/approvals?status=pending");
    await api.call("POST", `/v1/approvals/${json.items[0].id}:answer`, { body: { response } });
    return (await running).last.result.isError as boolean;
  };
  expect(await callAndAnswer(first, "approve_for_session")).toBe(false);
  const again = await first.ask("tools/call", callParams("ask"));
  expect([again.form, again.last.result.isError]).toEqual(["json", false]);
  expect(await callAndAnswer(second, "reject")).toBe(true);
});

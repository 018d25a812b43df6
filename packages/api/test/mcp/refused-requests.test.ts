/** Requests that `/mcp` refuses: invalid JSON-RPC, contradictory headers, sessions and tools of other callers. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBoundApi } from "../support/bound-api.ts";
import { buildRequest, callParams, connect, META, send } from "../support/mcp-client.ts";
import { ADMIN_TOKEN, type TestApi } from "../support/start-api.ts";

let api: TestApi;
let base = "";
beforeAll(async () => {
  ({ api, base } = await startBoundApi(["echo"], ["tools:invoke"]));
});
afterAll(() => api.close());

const plain = { jsonrpc: "2.0", id: 1, method: "ping" };

test("responds 400 with a JSON-RPC error to an invalid message", async () => {
  const bodies: [unknown, number][] = [
    ["{", -32700],
    ["", -32600],
    ['"text"', -32600],
    ["null", -32600],
    [{ ...plain, jsonrpc: "1.0" }, -32600],
    [{ ...plain, id: null }, -32600],
    [{ ...plain, id: {} }, -32600],
    [{ ...plain, method: 7 }, -32600],
    [{ ...plain, params: [1] }, -32600],
    [{ jsonrpc: "2.0", id: 1 }, -32600],
    [{ jsonrpc: "2.0", id: 1, result: {}, error: {} }, -32600],
    ['{"__proto__": {}}', -32700],
    [`${"[".repeat(200)}${"]".repeat(200)}`, -32700],
  ];
  for (const [body, code] of bodies) {
    const { status, last } = await send(base, body);
    expect([status, last.jsonrpc, last.error.code], JSON.stringify(body).slice(0, 60)).toEqual([
      400,
      "2.0",
      code,
    ]);
  }
  const typed = await send(base, plain, { headers: { "content-type": "text/plain" } });
  expect([typed.status, typed.last.jsonrpc]).toEqual([415, "2.0"]);
  const neither = await send(base, plain, { headers: { accept: "text/html" } });
  expect(neither.status).toBe(406);
  // The id is echoed if there is one.
  expect((await send(base, { jsonrpc: "2.0", id: "x", method: 7 })).last.id).toBe("x");
});

test("responds 202 to notifications and responses", async () => {
  for (const body of [
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", method: "notifications/whatever", params: {} },
    { jsonrpc: "2.0", id: 4, result: {} },
    { jsonrpc: "2.0", id: null, error: { code: 1, message: "x" } },
  ]) {
    const { status, form } = await send(base, body);
    expect([status, form]).toEqual([202, "none"]);
  }
});

test("serves requests without a session and responds 404 for an unknown session", async () => {
  const alone = await send(base, buildRequest("tools/call", callParams("echo", { text: "alone" })));
  expect(alone.last.result.content[0].text).toBe("alone");
  const lost = await send(base, plain, { headers: { "mcp-session-id": "x".repeat(32) } });
  expect([lost.status, lost.last.error.code]).toEqual([404, -32001]);
  const old = await send(base, plain, { headers: { "mcp-protocol-version": "1999-01-01" } });
  expect([old.status, old.last.error.code]).toEqual([400, -32022]);
  for (const method of ["GET", "DELETE"]) {
    const headers = { authorization: `Bearer ${ADMIN_TOKEN}` };
    const response = await fetch(`${base}/mcp`, { method, headers });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
  }
});

test("accepts batches only in revisions that support them", async () => {
  const batch = [
    plain,
    { jsonrpc: "2.0", method: "notifications/x" },
    { ...plain, id: 2, method: "nope" },
    7,
  ];
  const old = await connect(base, "2025-03-26");
  const { status, last } = await send(base, batch, { headers: old.headers });
  expect([
    status,
    last.map((item: { id: unknown; error?: { code: number } }) => [item.id, item.error?.code]),
  ]).toEqual([
    200,
    [
      [1, undefined],
      [2, -32601],
      [null, -32600],
    ],
  ]);
  const quiet = await send(base, [{ jsonrpc: "2.0", method: "notifications/x" }], { headers: old.headers });
  expect(quiet.status).toBe(202);
  const now = await connect(base, "2025-11-25");
  for (const [headers, body] of [
    [now.headers, batch],
    [old.headers, []],
    [{ "mcp-protocol-version": "2026-07-28" }, batch],
  ] as const) {
    const refused = await send(base, body, { headers });
    expect([refused.status, refused.last.error.code]).toEqual([400, -32600]);
  }
});

test("rejects stateless requests whose headers do not match the body", async () => {
  const _meta = { [META.version]: "2026-07-28", [META.capabilities]: {} };
  const good = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo" };
  const body = buildRequest("tools/call", { ...callParams("echo"), _meta });
  const cases: [object, Record<string, string>, number | null][] = [
    [body, good, null],
    [body, { ...good, "mcp-name": `=?base64?${Buffer.from("echo").toString("base64")}?=` }, null],
    [body, { ...good, "mcp-method": "tools/list" }, -32020],
    [body, { ...good, "mcp-name": "ask" }, -32020],
    [body, { ...good, "mcp-protocol-version": "2025-11-25" }, -32020],
    [body, { "mcp-method": "tools/call", "mcp-name": "echo" }, -32020],
    [
      buildRequest("tools/call", { ...callParams("echo"), _meta: { [META.version]: "2026-07-28" } }),
      good,
      -32602,
    ],
    [buildRequest("tools/call", callParams("echo")), good, -32602],
    [
      buildRequest("tools/call", {
        ...callParams("echo"),
        _meta: { ..._meta, [META.version]: "2031-01-01" },
      }),
      good,
      -32020,
    ],
    [
      buildRequest("tools/call", {
        ...callParams("echo"),
        _meta: { ..._meta, [META.version]: "2031-01-01" },
      }),
      { ...good, "mcp-protocol-version": "2031-01-01" },
      -32022,
    ],
  ];
  for (const [message, headers, code] of cases) {
    const { status, last } = await send(base, message, { headers });
    expect([status, last.error?.code ?? null], JSON.stringify(headers)).toEqual([
      code === null ? 200 : 400,
      code,
    ]);
  }
  const last_case = cases.at(-1)!;
  expect((await send(base, last_case[0], { headers: last_case[1] })).last.error.data.supported).toContain(
    "2026-07-28",
  );
});

test("checks credential, host and origin like every route", async () => {
  const key = await api.call("POST", "/v1/keys", { body: { name: "reader", scopes: ["exports:read"] } });
  const refusals: [Record<string, string>, string | undefined, number, string][] = [
    [{ origin: "https://evil.example" }, undefined, 403, "auth.origin"],
    [{}, "wrong", 401, "auth.invalid"],
    [{}, key.json.token as string, 403, "auth.scope"],
  ];
  for (const [headers, token, status, code] of refusals) {
    const response = await send(base, plain, { headers, ...(token === undefined ? {} : { token }) });
    expect([response.status, response.last.error.code]).toEqual([status, code]);
  }
  const foreign = await api.call("POST", "/mcp", { body: plain, headers: { host: "evil.example" } });
  expect(foreign.json.error.code).toBe("auth.host");
});

test("hides a session, its calls and its tools from other callers", async () => {
  const other_project = { "backplane-project": "proj_other" };
  const key = await api.call("POST", "/v1/keys", {
    body: { name: "other", scopes: ["invocations:write"] },
    headers: other_project,
  });
  const token = key.json.token as string;
  const other_client = await connect(base, "2025-11-25", token);
  expect((await other_client.ask("tools/list")).last.result.tools).toEqual([]);
  expect((await other_client.ask("tools/call", callParams("echo"))).last.error.code).toBe(-32602);

  const admin_client = await connect(base, "2025-11-25");
  const request_count = api.runner.requests.length;
  const running = admin_client.ask("tools/call", callParams("echo", { do: "wait" }), { id: 77 });
  await api.runner.started(request_count + 1);
  const { invocation_id } = api.runner.requests[request_count]!;
  const stolen = { ...admin_client.headers };
  expect((await send(base, plain, { token, headers: stolen })).status).toBe(404);
  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 77 } };
  expect((await send(base, cancel, { token, headers: stolen })).status).toBe(404);
  expect((await other_client.ask("ping")).status).toBe(200);
  await send(base, cancel, { token, headers: other_client.headers });
  api.runner.release(invocation_id);
  expect((await running).last.result.content[0].text).toBe("released");
});

test("limits a delegated token with tools:invoke to the tools of its grant", async () => {
  const request_count = api.runner.requests.length;
  const narrow = { gateway_api_scopes: ["tools:invoke"], tools: ["ask"] };
  const held = await api.call("POST", "/v1/invocations", {
    body: { export_id: "echo", input: { do: "wait" }, narrow },
  });
  await api.runner.started(request_count + 1);
  const { gateway } = api.runner.requests[request_count]!.context;
  const client = await connect(base, "2026-07-28", gateway.delegation_token!);
  expect((await client.ask("tools/list")).last.result.tools).toEqual([]);
  expect((await client.ask("tools/call", callParams("echo"))).last.error.code).toBe(-32602);
  api.runner.release(held.json.id as string);
});

test("records a call with a delegated token under the session of the call that owns the token", async () => {
  const request_count = api.runner.requests.length;
  const narrow = { gateway_api_scopes: ["tools:invoke"] };
  const held = await api.call("POST", "/v1/invocations", {
    body: { export_id: "echo", input: { do: "wait" }, session_id: "talk", narrow },
  });
  await api.runner.started(request_count + 1);
  const { gateway } = api.runner.requests[request_count]!.context;
  const client = await connect(base, "2025-11-25", gateway.delegation_token!);
  const { last } = await client.ask("tools/call", callParams("echo"));
  const id = last.result._meta["backplane/invocation_id"] as string;
  const { json } = await api.call("GET", `/v1/invocations/${id}`);
  expect(json).toMatchObject({ session_id: "talk", requested_by: held.json.id });
  api.runner.release(held.json.id as string);
});

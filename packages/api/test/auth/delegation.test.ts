/** A plugin's token may use only the routes of its scopes, and only until its call ends. */
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DELEGATION_SCOPES, type DelegationScope } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

/** Listed here and not read from the route table, so that a new route for tokens is visible in the diff. */
const ROUTES_BY_SCOPE: Record<DelegationScope, string[]> = {
  "sessions:read": [
    "GET /v1/sessions",
    "GET /v1/sessions/{id}",
    "GET /v1/sessions/{id}/entries",
    "GET /v1/sessions/{id}/events",
    "GET /v1/sessions/{id}/pins",
  ],
  "sessions:write": [
    "POST /v1/sessions",
    "PATCH /v1/sessions/{id}",
    "POST /v1/sessions/{id}:branch",
    "POST /v1/sessions/{id}/messages",
    "POST /v1/sessions/{id}:interrupt",
    "POST /v1/sessions/{id}:reset",
    "POST /v1/sessions/{id}:handoff",
    "POST /v1/sessions/{id}/pins",
    "DELETE /v1/sessions/{id}/pins/{entry_id}",
  ],
  "chains:read": [
    "GET /v1/chains",
    "GET /v1/chains/{id}",
    "GET /v1/chains/{id}/blocks",
    "GET /v1/chains/{id}:verify",
  ],
  "chains:write": ["POST /v1/chains", "POST /v1/chains/{id}:fork", "POST /v1/chains/{id}/blocks"],
  "runs:read": [
    "GET /v1/chains/{id}/runs",
    "GET /v1/executions/{id}",
    "GET /v1/runs/{id}",
    "GET /v1/runs/{id}/events",
  ],
  "runs:write": ["POST /v1/runs", "POST /v1/runs/{id}:cancel"],
  "compactions:read": ["GET /v1/compactions", "GET /v1/compactions/{id}", "GET /v1/compactions/{id}/entries"],
  "compactions:write": ["POST /v1/compactions", "POST /v1/compactions/{id}:undo"],
  "tools:invoke": [
    "GET /v1/catalog",
    "GET /v1/plugin-tools",
    "POST /v1/invocations",
    ...["POST", "GET", "DELETE"].flatMap((verb) => [`${verb} /mcp`, `${verb} /mcp/servers/{server}`]),
  ],
  "llm:invoke": [
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "GET /v1/models",
    "GET /v1/models/{id}",
  ],
};
/** The record and files of a call that the token itself started; a token sees no others. */
const ROUTES_OF_EVERY_TOKEN = ["GET /v1/invocations/{id}", "GET /v1/invocations/{id}/artifacts/{sha256}"];

let api: TestApi;
let base = "";
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("strategy-react", "llm-echo", "web") });
  base = await api.api.listen({ host: "127.0.0.1", port: 0 });
  const folder = writeSamplePackage(api.home, "1.0.0", "", [...DELEGATION_SCOPES]);
  await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
  await api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" },
  });
  await api.call("POST", "/v1/sessions", { body: { session_id: "shown" } });
});
afterAll(() => api.close());

/** Starts a call with only these scopes and returns its token. */
async function startCall(...scopes: DelegationScope[]): Promise<{ id: string; token: string }> {
  const request_count = api.runner.requests.length;
  const narrow = { gateway_api_scopes: scopes };
  const { json } = await api.call("POST", "/v1/invocations", {
    body: { export_id: "echo", input: { do: "wait" }, narrow },
  });
  await api.runner.started(request_count + 1);
  const { gateway } = api.runner.requests[request_count]!.context;
  expect(gateway.scopes).toEqual(scopes);
  return { id: json.id as string, token: gateway.delegation_token! };
}

async function endCall(id: string): Promise<void> {
  api.runner.release(id);
  await api.call("GET", `/v1/invocations/${id}/events`);
}

test.each(DELEGATION_SCOPES)(
  "limits a token with the scope %s to the routes of that scope",
  async (scope) => {
    const { id, token } = await startCall(scope);
    const allowed_routes: string[] = [];
    const served = [
      ...api.api.routeTable,
      ...api.kernel.adapters.list().map(({ method, mounted }) => ({ method, path: mounted, auth: null })),
    ];
    expect(served.filter(({ path }) => path.startsWith("/api/")).length).toBeGreaterThan(5);
    for (const { method, path, auth } of served) {
      if (auth === "public") continue;
      const url = path.replaceAll(/\{\w+\}/g, "none");
      const response = await api.call(method, url, { token, ...(method === "GET" ? {} : { body: {} }) });
      const code = response.headers["backplane-error-code"] ?? response.json?.error?.code;
      if (response.status === 403 && code === "auth.scope") continue;
      expect(response.status, `${method} ${path}`).not.toBe(401);
      allowed_routes.push(`${method} ${path}`);
    }
    expect(allowed_routes.toSorted()).toEqual(
      [...ROUTES_BY_SCOPE[scope], ...ROUTES_OF_EVERY_TOKEN].toSorted(),
    );
    await endCall(id);
  },
);

const dial = (token: string) =>
  new WebSocket(`${base.replace("http", "ws")}/ws`, { headers: { authorization: `Bearer ${token}` } });

async function readUpgradeStatus(token: string): Promise<number> {
  const ws = dial(token);
  const [kind, response] = await Promise.race([
    once(ws, "open").then(() => ["open", null] as const),
    once(ws, "unexpected-response").then(
      ([, response]) => ["refused", response as { statusCode: number }] as const,
    ),
  ]);
  ws.on("error", () => {});
  ws.terminate();
  return kind === "open" ? 101 : response.statusCode;
}

test("allows /ws only with sessions:read", async () => {
  for (const scope of DELEGATION_SCOPES) {
    const { id, token } = await startCall(scope);
    expect(await readUpgradeStatus(token), scope).toBe(scope === "sessions:read" ? 101 : 403);
    await endCall(id);
    expect(await readUpgradeStatus(token), scope).toBe(401);
  }
});

verifies(
  "delegation.token",
  "ends the requests, sockets and streams of a delegated token with its call, and stores only its hash",
  async () => {
    const { id, token } = await startCall("sessions:read", "tools:invoke");
    expect(token).toMatch(/^vai_dlg_[A-Za-z0-9_-]{43}$/);
    const authorization = `Bearer ${token}`;
    expect((await api.call("GET", "/v1/sessions/shown", { token })).status).toBe(200);
    const wrong = await api.call("GET", "/v1/chains?session_id=shown", { token });
    expect([wrong.status, wrong.json.error.code]).toEqual([403, "auth.scope"]);
    // The token acts in the org and project of its call and cannot choose others.
    const elsewhere = await api.call("GET", "/v1/sessions", {
      token,
      headers: { "backplane-project": "proj_b" },
    });
    expect([elsewhere.status, elsewhere.json.error.code]).toEqual([403, "auth.scope"]);

    const ws = dial(token);
    await once(ws, "open");
    ws.send(JSON.stringify({ op: "attach", session_id: "shown" }));
    await once(ws, "message");
    const socket_closed = once(ws, "close").then(([code]) => ({
      code: code as number,
      at: performance.now(),
    }));
    const response = await fetch(`${base}/v1/sessions/shown/events`, { headers: { authorization } });
    expect(response.status).toBe(200);
    const ended = response.text().then(() => performance.now());

    // The socket stays open as long as the call runs.
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    expect(ws.readyState).toBe(WebSocket.OPEN);
    const since = performance.now();
    await endCall(id);
    const dead = await api.call("GET", "/v1/sessions/shown", { token });
    expect([dead.status, dead.json.error.code]).toEqual([401, "auth.invalid"]);
    const closed = await socket_closed;
    expect(closed.code).toBe(4401);
    expect(closed.at - since).toBeLessThan(1_000);
    expect((await ended) - since).toBeLessThan(1_000);

    const unknown = writeSamplePackage(api.home, "2.0.0", "", ["sessions:read", "everything"]);
    const installed = await api.call("POST", "/v1/plugin-packages", {
      body: { source: { folder: unknown } },
    });
    expect(installed.status).toBe(422);
    expect(installed.text).toContain("gateway_api_scopes");

    const stored = readdirSync(api.home).filter((name) => name.startsWith("store.db"));
    for (const file of stored)
      expect(readFileSync(join(api.home, file)).includes(token.slice(8))).toBe(false);
  },
);

test("rejects ended, altered and invented delegated tokens", async () => {
  const { id, token } = await startCall("sessions:read");
  expect((await api.call("GET", "/v1/sessions", { token })).status).toBe(200);
  expect((await api.call("GET", "/v1/sessions", { token: `${token}x` })).status).toBe(401);
  await endCall(id);
  for (const invalid_token of [token, "vai_dlg_", `vai_dlg_${"A".repeat(43)}`]) {
    expect((await api.call("GET", "/v1/sessions", { token: invalid_token })).status).toBe(401);
  }
});

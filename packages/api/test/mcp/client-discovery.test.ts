/** Responses to MCP clients that look for an authorization server or send an invalid token. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

test.each([
  "/.well-known/oauth-authorization-server",
  "/.well-known/oauth-authorization-server/mcp",
  "/.well-known/oauth-protected-resource",
  "/.well-known/oauth-protected-resource/mcp",
  "/.well-known/openid-configuration",
])("responds to %s with 404 and JSON, since there is no authorization server", async (path) => {
  const response = await api.call("GET", path, { token: null });
  expect(response.status).toBe(404);
  expect(response.headers["content-type"]).toMatch(/^application\/json/);
  expect(JSON.parse(response.text)).toMatchObject({ error: { code: "route.not_found" } });
});

test("explains in JSON why an invalid or missing token is refused at /mcp", async () => {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
  const headers = { accept: "application/json, text/event-stream" };
  const readRefusal = async (token: string | null) => {
    const response = await api.call("POST", "/mcp", { body, headers, token });
    expect(response.status).toBe(401);
    expect(response.headers["content-type"]).toMatch(/^application\/json/);
    return JSON.stringify(JSON.parse(response.text));
  };
  expect(await readRefusal("wrong-token")).toMatch(/auth\.invalid/);
  expect(await readRefusal(null)).toMatch(/auth\.missing/);
});

test.each(["/register", "/token"])(
  "tells a client that tries OAuth at %s to send a key, as an OAuth error",
  async (url) => {
    const headers = { host: "127.0.0.1:7420" };
    const refused = await api.api.inject({ method: "POST", url, headers, payload: { client_name: "x" } });
    expect(refused.statusCode).toBe(404);
    expect(refused.json()).toEqual({
      error: "invalid_request",
      error_description: expect.stringContaining("Authorization: Bearer"),
    });
  },
);

/** The routes of a sign-in: who may use them, and the page for a browser with an invalid state. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

test("shows a page without the request's parameters for an unknown state", async () => {
  const evil = encodeURIComponent("<script>alert(1)</script>");
  const response = await api.call("GET", `/oauth/callback?state=nobody&code=c0de-c0de&error=${evil}`, {
    token: null,
  });
  expect(response.status).toBe(400);
  expect(response.headers["content-type"]).toContain("text/html");
  expect(response.headers).toMatchObject({
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-security-policy": expect.stringContaining("default-src 'none'"),
  });
  expect(response.text).toContain("Not signed in");
  expect(response.text).not.toContain("c0de-c0de");
  expect(response.text).not.toContain("<script>");
});

test("neither redirects nor sets a cookie for an unknown ticket", async () => {
  for (const path of ["/oauth/start?ticket=t1cket-t1cket", "/oauth/start"]) {
    const response = await api.call("GET", path, { token: null });
    expect(response.status).toBe(400);
    expect(response.headers).toMatchObject({ "cache-control": "no-store", "referrer-policy": "no-referrer" });
    expect(response.headers.location).toBeUndefined();
    expect(response.headers["set-cookie"]).toBeUndefined();
    expect(response.text).toContain("Start again with");
    expect(response.text).not.toContain("t1cket");
  }
});

test("serves no client metadata without a public URL", async () => {
  const response = await api.call("GET", "/client-metadata.json", { token: null });
  expect([response.status, response.json.error.code]).toEqual([404, "route.not_found"]);
});

test("lets only an admin begin, complete or end a sign-in, and rejects unknown fields", async () => {
  const created = await api.call("POST", "/v1/keys", { body: { name: "k", scopes: ["bindings:write"] } });
  const token = (created.json as unknown as { token: string }).token;
  for (const path of [
    "/v1/plugin-bindings/bind_x:login",
    "/v1/plugin-bindings/bind_x:logout",
    "/v1/sign-ins:complete",
  ]) {
    const response = await api.call("POST", path, { token, body: {} });
    expect([response.status, response.json.error.code], path).toEqual([403, "auth.scope"]);
  }
  const unknown_field = await api.call("POST", "/v1/plugin-bindings/bind_x:login", {
    body: { password: "x" },
  });
  expect(unknown_field.json.error.code).toBe("request.invalid");
  const none = await api.call("POST", "/v1/plugin-bindings/bind_x:login", { body: {} });
  expect(none.json.error.code).toBe("binding.not_found");
});

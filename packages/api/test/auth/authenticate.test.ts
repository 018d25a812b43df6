import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { ADMIN_TOKEN, startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("web") });
});
afterAll(() => api.close());

const fetchStatusAndCode = async (...args: Parameters<TestApi["call"]>) => {
  const response = await api.call(...args);
  return [response.status, response.json?.error?.code];
};
const signIn = async () => {
  const opened = await api.call("GET", `/login?code=${api.api.mintLoginCode()}`, { token: null });
  return String(opened.headers["set-cookie"]).split(";", 1)[0]!;
};

const PUBLIC_ROUTES = new Set([
  "GET /healthz",
  "GET /readyz",
  "GET /login",
  "GET /",
  "GET /overview",
  "GET /explorer",
  "GET /console",
  "GET /console/{page}",
  "GET /console/{page}/{id}",
  "GET /docs/errors",
  "GET /static/chat/{file}",
  "GET /static/console/{file}",
  "GET /static/explorer.js",
  "GET /static/explorer/{file}",
  "GET /static/overview.js",
  "GET /static/backplane.css",
  // A start link is for one browser. The callback is authenticated by its state and that browser's cookie. The client
  // metadata contains nothing secret.
  "GET /oauth/start",
  "GET /oauth/callback",
  "GET /client-metadata.json",
]);

verifies("webapi.auth", "requires a credential on every route that is not listed as public", async () => {
  const mounts = api.kernel.adapters.list().map(({ method, mounted }) => ({ method, path: mounted }));
  expect(mounts.length).toBeGreaterThan(20);
  const routes = [...api.api.routeTable.map(({ method, path }) => ({ method, path })), ...mounts];
  expect(routes.length).toBeGreaterThan(30);
  for (const { method, path } of routes) {
    const url = path.replaceAll(/\{\w+\}/g, "some_id");
    const none = await api.call(method, url, { token: null });
    const wrong = await api.call(method, url, { token: "wrong" });
    if (PUBLIC_ROUTES.has(`${method} ${path}`)) continue;
    const codeOf = ({ headers, json }: TestResponse) => headers["backplane-error-code"] ?? json.error.code;
    expect([none.status, codeOf(none)], `${method} ${path}`).toEqual([401, "auth.missing"]);
    expect([wrong.status, codeOf(wrong)], `${method} ${path}`).toEqual([401, "auth.invalid"]);
  }
  const public_routes = routes.filter(({ method, path }) => PUBLIC_ROUTES.has(`${method} ${path}`));
  expect(public_routes).toHaveLength(PUBLIC_ROUTES.size);
  expect(await fetchStatusAndCode("GET", "/v1/status", { token: "bpk_unknown" })).toEqual([
    401,
    "auth.invalid",
  ]);
  expect(await fetchStatusAndCode("GET", "/v1/status", { token: "vai_dlg_unknown" })).toEqual([
    401,
    "auth.invalid",
  ]);
  expect(await fetchStatusAndCode("GET", "/v1/status", { headers: { authorization: "Basic x" } })).toEqual([
    401,
    "auth.invalid",
  ]);
});

verifies(
  "webapi.auth",
  "rejects a foreign Host or Origin on public, protected and unknown paths, despite a valid credential",
  async () => {
    for (const url of ["/healthz", "/", "/v1/status", "/nowhere"]) {
      expect(await fetchStatusAndCode("GET", url, { headers: { host: "evil.example" } }), url).toEqual([
        403,
        "auth.host",
      ]);
      expect(
        await fetchStatusAndCode("GET", url, { headers: { origin: "https://evil.example" } }),
        url,
      ).toEqual([403, "auth.origin"]);
      expect(await fetchStatusAndCode("GET", url, { headers: { origin: "null" } }), url).toEqual([
        403,
        "auth.origin",
      ]);
    }
    const own_host = { host: "gateway.example:8443", origin: "https://gateway.example:8443" };
    expect((await api.call("GET", "/v1/status", { headers: own_host })).status).toBe(200);
  },
);

verifies("webapi.auth", "exchanges a one-time link for an HttpOnly SameSite cookie once", async () => {
  const link = `/login?code=${api.api.mintLoginCode()}`;
  const opened = await api.call("GET", link, { token: null });
  expect([opened.status, opened.headers.location]).toEqual([303, "/"]);
  expect(opened.headers["set-cookie"]).toMatch(/; HttpOnly; SameSite=Strict/);
  expect(await fetchStatusAndCode("GET", link, { token: null })).toEqual([401, "auth.link_used"]);
  expect(await fetchStatusAndCode("GET", "/login?code=guessed", { token: null })).toEqual([
    401,
    "auth.link_used",
  ]);
  expect(await fetchStatusAndCode("GET", "/login", { token: null })).toEqual([401, "auth.link_used"]);
  const expired = `/login?code=${api.api.mintLoginCode()}`;
  api.clock.advance(5 * 60_000);
  expect(await fetchStatusAndCode("GET", expired, { token: null })).toEqual([401, "auth.link_used"]);

  const page = await api.call("GET", link, { token: null, headers: { accept: "text/html,*/*;q=0.8" } });
  expect([page.status, page.headers["content-type"]]).toEqual([401, "text/html; charset=utf-8"]);
  expect(page.headers["cache-control"]).toBe("no-store");
  expect(page.text).toContain("backplane open");

  const created = await api.call("POST", "/v1/login-links");
  expect((await api.call("GET", created.json.path, { token: null })).status).toBe(303);
});

verifies("webapi.auth", "accepts the cookie for reads, and for writes only from our own origin", async () => {
  const cookie = await signIn();
  const headers = { cookie };
  const origin = "http://127.0.0.1:7420";
  const read = await api.call("GET", "/v1/status", { token: null, headers });
  expect([read.status, read.json.caller.actor]).toEqual([200, "admin"]);
  const put = (more: Record<string, string>) =>
    fetchStatusAndCode("PUT", "/v1/secrets/from_console", {
      token: null,
      headers: { cookie, ...more },
      body: { value: "x" },
    });
  expect(await put({})).toEqual([403, "auth.origin"]);
  expect(await put({ origin: "http://evil.example" })).toEqual([403, "auth.origin"]);
  expect(await put({ origin })).toEqual([200, undefined]);

  expect(
    await fetchStatusAndCode("GET", "/v1/status", { token: null, headers: { cookie: `${cookie}x` } }),
  ).toEqual([401, "auth.invalid"]);
  const out = await api.call("POST", "/v1/logout", { token: null, headers: { cookie, origin } });
  expect(out.status).toBe(204);
  expect(await fetchStatusAndCode("GET", "/v1/status", { token: null, headers })).toEqual([
    401,
    "auth.invalid",
  ]);
  const later = await signIn();
  api.clock.advance(12 * 3_600_000);
  expect(await fetchStatusAndCode("GET", "/v1/status", { token: null, headers: { cookie: later } })).toEqual([
    401,
    "auth.invalid",
  ]);
});

verifies("webapi.auth", "rejects a body of another media type than JSON", async () => {
  const post = (type: string | undefined, url = "/v1/plugin-bindings") =>
    fetchStatusAndCode("POST", url, {
      body: "{}",
      headers: type === undefined ? {} : { "content-type": type },
    });
  for (const type of [
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/gzip",
  ])
    expect(await post(type), type).toEqual([415, "request.not_json"]);
  expect(await post("text/plain", "/v1/plugin-packages")).toEqual([415, "request.not_json"]);
  expect(await post("application/json; charset=utf-8")).toEqual([400, "request.invalid"]);
});

test("limits a key to its scopes and refuses it admin headers and login links", async () => {
  const createKey = async (scopes: string[]) =>
    (await api.call("POST", "/v1/keys", { body: { name: "k", scopes } })).json.token as string;
  const reader = await createKey(["bindings:read"]);
  expect(await fetchStatusAndCode("GET", "/v1/plugin-bindings", { token: reader })).toEqual([200, undefined]);
  expect(await fetchStatusAndCode("POST", "/v1/plugin-bindings", { token: reader, body: {} })).toEqual([
    403,
    "auth.scope",
  ]);
  expect(await fetchStatusAndCode("GET", "/metrics", { token: reader })).toEqual([200, undefined]);
  const headers = { "backplane-org": "org_other" };
  expect(await fetchStatusAndCode("GET", "/v1/plugin-bindings", { token: reader, headers })).toEqual([
    403,
    "auth.scope",
  ]);
  const admin_key = await createKey(["admin"]);
  expect(await fetchStatusAndCode("GET", "/v1/audit", { token: admin_key })).toEqual([200, undefined]);
  expect(await fetchStatusAndCode("POST", "/v1/login-links", { token: admin_key })).toEqual([
    403,
    "auth.scope",
  ]);
});

test("lets the admin choose org and project by headers", async () => {
  const readScope = async (headers: Record<string, string>) => {
    const { caller } = (await api.call("GET", "/v1/status", { headers })).json;
    return [caller.org_id, caller.project_id];
  };
  expect(await readScope({})).toEqual(["org_local", "proj_default"]);
  expect(await readScope({ "backplane-project": "proj_b" })).toEqual(["org_local", "proj_b"]);
  expect(await readScope({ "backplane-project": "*" })).toEqual(["org_local", null]);
  expect(await readScope({ "backplane-project": "" })).toEqual(["org_local", null]);
  expect(await readScope({ "backplane-org": "org_b" })).toEqual(["org_b", "proj_default"]);
  expect(await fetchStatusAndCode("GET", "/v1/status", { headers: { "backplane-org": "b'--" } })).toEqual([
    400,
    "request.invalid",
  ]);
});

test("limits a delegated token to tool calls and their records until its invocation ends", async () => {
  const folder = writeSamplePackage(api.home, "1.0.0", "", ["tools:invoke"]);
  await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
  for (const export_id of ["echo", "shrink"])
    await api.call("POST", "/v1/plugin-bindings", {
      body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id },
    });
  const request_count = api.runner.requests.length;
  const parent = await api.call("POST", "/v1/invocations", {
    body: { export_id: "echo", input: { do: "wait" } },
  });
  await api.runner.started(request_count + 1);
  const token = api.runner.requests[request_count]!.context.gateway!.delegation_token;
  expect(token).toMatch(/^vai_dlg_/);

  const child = await api.call("POST", "/v1/invocations?wait", {
    token,
    body: { export_id: "echo", input: {} },
  });
  expect([child.status, child.json.status]).toEqual([200, "succeeded"]);
  expect(await fetchStatusAndCode("GET", `/v1/invocations/${child.json.id}`, { token })).toEqual([
    200,
    undefined,
  ]);
  const unrelated = await api.call("POST", "/v1/invocations?wait", {
    body: { export_id: "echo", input: {} },
  });
  expect(await fetchStatusAndCode("GET", `/v1/invocations/${unrelated.json.id}`, { token })).toEqual([
    404,
    "invocation.not_found",
  ]);
  for (const url of ["/v1/invocations", "/v1/secrets", "/v1/status", "/v1/plugin-hooks", "/openapi.json"])
    expect(await fetchStatusAndCode("GET", url, { token }), url).toEqual([403, "auth.scope"]);

  api.runner.release(parent.json.id);
  await api.call("GET", `/v1/invocations/${parent.json.id}/events`);
  expect(await fetchStatusAndCode("GET", `/v1/invocations/${child.json.id}`, { token })).toEqual([
    401,
    "auth.invalid",
  ]);
});

test("does not accept a token that only resembles the last valid one", async () => {
  expect((await api.call("GET", "/v1/status")).status).toBe(200);
  expect((await api.call("GET", "/v1/status")).status).toBe(200);
  for (const token of [
    `${ADMIN_TOKEN.slice(0, -1)}X`,
    `X${ADMIN_TOKEN.slice(1)}`,
    `${ADMIN_TOKEN.slice(0, -1)}é`,
  ])
    expect(await fetchStatusAndCode("GET", "/v1/status", { token })).toEqual([401, "auth.invalid"]);
  expect((await api.call("GET", "/v1/status")).status).toBe(200);
  expect((await api.call("GET", "/v1/status", { headers: { "backplane-org": "no org" } })).status).toBe(400);
});

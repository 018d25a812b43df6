import type { AdapterRequest, AdapterResponse, KernelPlugin, PluginContext } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { ADMIN } from "../support/callers.ts";
import { startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

const plugin_requests: AdapterRequest[] = [];
const weather: KernelPlugin = {
  name: "weather",
  version: "1.0.0",
  category: "adapter",
  adapterId: "weather",
  routes: [
    {
      method: "POST",
      path: "/cities/{city}",
      summary: "Ask",
      scope: "sessions:write",
      body: { type: "object", properties: { days: { type: "integer" } }, required: ["days"] },
      responses: { 201: "A forecast." },
    },
    { method: "GET", path: "/page", summary: "A page", scope: "sessions:read", responses: { 200: "It." } },
    { method: "GET", path: "/break", summary: "Fails", scope: "sessions:read" },
    {
      method: "DELETE",
      path: "/all",
      summary: "Nothing",
      scope: "sessions:write",
      responses: { 204: "Gone." },
    },
  ],
  subscriptions: () => [],
  async onRequest(request: AdapterRequest, ctx: PluginContext): Promise<AdapterResponse> {
    plugin_requests.push(request);
    if (request.route === "GET /break") throw new Error("the author's own words, with a token sk-123");
    if (request.route === "DELETE /all")
      return { status: 204, headers: { "X-Content-Type-Options": "none" } };
    if (request.route === "GET /page")
      return { status: 200, body: "<script>alert(1)</script>", headers: { "Content-Type": "text/html" } };
    await ctx.service("config.list", {}, request.as).catch(() => undefined);
    return { status: 201, body: { city: request.params.city! }, headers: { "x-weather": "sun" } };
  },
};

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("web", weather) });
});
afterAll(() => api.close());

const statusAndCode = ({ status, json }: TestResponse) => [status, json?.error?.code];
const createKey = async (...scopes: string[]) =>
  (await api.call("POST", "/v1/keys", { body: { name: "k", role: "user", scopes } })).json.token as string;

test("serves the routes of a third-party plugin under /x/NAME, always as JSON", async () => {
  const response = await api.call("POST", "/x/weather/cities/S%C3%A3o%20Paulo?unit=c&unit=f", {
    body: { days: 3 },
  });
  expect([response.status, response.json, response.headers["x-weather"]]).toEqual([
    201,
    { city: "São Paulo" },
    "sun",
  ]);
  expect(plugin_requests.at(-1)).toMatchObject({
    route: "POST /cities/{city}",
    params: { city: "São Paulo" },
    query: { unit: "f" },
    body: { days: 3 },
  });
  const page = await api.call("GET", "/x/weather/page");
  expect([page.headers["content-type"], page.json]).toEqual([
    "application/json; charset=utf-8",
    "<script>alert(1)</script>",
  ]);
  expect(page.headers["x-content-type-options"]).toBe("nosniff");
  const deleted = await api.call("DELETE", "/x/weather/all");
  expect([deleted.status, deleted.text]).toEqual([204, ""]);
  expect(deleted.headers["x-content-type-options"]).toBe("nosniff");
});

test("checks host, origin, credential, scope and body before it calls the plugin", async () => {
  const request_count = plugin_requests.length;
  const reader = await createKey("sessions:read");
  const url = "/x/weather/cities/Oslo";
  const body = { days: 1 };
  const text = { "content-type": "text/plain" };
  const cases: [Promise<TestResponse>, number, string][] = [
    [api.call("POST", url, { body, token: null }), 401, "auth.missing"],
    [api.call("POST", url, { body, token: "wrong" }), 401, "auth.invalid"],
    [api.call("POST", url, { body, token: reader }), 403, "auth.scope"],
    [api.call("POST", url, { body, headers: { host: "evil.example" } }), 403, "auth.host"],
    [api.call("POST", url, { body, headers: { origin: "https://evil.example" } }), 403, "auth.origin"],
    [api.call("POST", url, { body: "days=1", headers: text }), 415, "request.not_json"],
    [api.call("POST", url, { body: {} }), 400, "request.invalid"],
    [api.call("POST", url, { body: { days: "many" } }), 400, "request.invalid"],
    [api.call("POST", url), 400, "request.invalid"],
    [api.call("GET", "/x/weather"), 404, "route.not_found"],
    [api.call("GET", "/x/weather/cities/Oslo/more"), 404, "route.not_found"],
    [api.call("GET", "/x/nobody/page"), 404, "route.not_found"],
  ];
  for (const [input, status, code] of cases) expect(statusAndCode(await input)).toEqual([status, code]);
  const wrong_method = await api.call("PUT", url, { body });
  expect([...statusAndCode(wrong_method), wrong_method.headers.allow]).toEqual([
    404,
    "route.not_found",
    "POST",
  ]);
  expect(wrong_method.json.error.details.allow).toEqual(["POST"]);
  expect(plugin_requests.length).toBe(request_count);
});

test("reports which plugin failed and hides the text of its error", async () => {
  const broken = await api.call("GET", "/x/weather/break");
  expect(broken.json.error.code).toBe("crashed");
  expect(broken.text).toContain("weather");
  expect(broken.text).not.toMatch(/sk-123|author/);
});

verifies(
  "plug.web-adapter",
  "removes /api from the routes and the document when the web plugin is disabled, and keeps /v1",
  async () => {
    const readPaths = async () =>
      (await api.call("GET", "/openapi.json")).json.paths as Record<string, object>;
    const all = await readPaths();
    expect(all["/api/config/{key}"]).toHaveProperty("patch.x-backplane-plugin", "web");
    expect(all["/x/weather/cities/{city}"]).toHaveProperty("post.x-backplane-scope", "sessions:write");
    const metrics = await api.call("GET", "/metrics");
    expect(metrics.text).toContain('route="weather_post_x_weather_cities_by_city",status="201"} 1');

    await api.kernel.plugins.setEnabled(ADMIN, "web", false);
    expect(statusAndCode(await api.call("GET", "/api/config"))).toEqual([404, "route.not_found"]);
    expect(statusAndCode(await api.call("PATCH", "/api/plugins/web", { body: { enabled: true } }))).toEqual([
      404,
      "route.not_found",
    ]);
    expect(Object.keys(await readPaths()).filter((path) => path.startsWith("/api"))).toEqual([]);
    expect((await api.call("GET", "/v1/sessions")).status).toBe(200);
    expect((await api.call("GET", "/x/weather/page")).status).toBe(200);

    await api.kernel.plugins.setEnabled(ADMIN, "web", true);
    expect((await api.call("GET", "/api/config")).status).toBe(200);
    expect(Object.keys(await readPaths())).toEqual(Object.keys(all));
  },
);

verifies(
  "plug.web-adapter",
  "loads the web adapter like any plugin and mounts its routes again under /api after a reload",
  async () => {
    const { items } = (await api.call("GET", "/v1/plugins")).json as { items: { name: string }[] };
    expect(items.find(({ name }) => name === "web")).toMatchObject({
      category: "adapter",
      origin: "bundled",
      status: "loaded",
    });
    const listMounted = () =>
      api.kernel.adapters.list().flatMap((mount) => (mount.plugin === "web" ? [mount.mounted] : []));
    const mounted_before = listMounted();
    expect(mounted_before.length).toBeGreaterThan(10);
    expect(mounted_before.filter((path) => !path.startsWith("/api/"))).toEqual([]);
    await api.kernel.plugins.reload(ADMIN, "web");
    expect(listMounted().toSorted()).toEqual(mounted_before.toSorted());
    expect((await api.call("GET", "/api/config")).status).toBe(200);
    expect(statusAndCode(await api.call("GET", "/x/web/api/config"))).toEqual([404, "route.not_found"]);
  },
);

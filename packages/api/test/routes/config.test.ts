import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CONFIG_LIMITS } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("web") });
});
afterAll(() => api.close());

const createKey = async (...scopes: string[]) =>
  (await api.call("POST", "/v1/keys", { body: { name: "k", role: "user", scopes } })).json.token as string;
const statusAndBody = (response: TestResponse) => [response.status, response.json];

verifies(
  ["webapi.config", "config.mask"],
  "lists, reads, patches and deletes configuration, with masked secrets unless an admin requests one",
  async () => {
    const value = "sk-verysecretvalue-9876";
    expect(statusAndBody(await api.call("GET", "/api/config"))).toEqual([200, {}]);
    const patch = (key: string, body: unknown) => api.call("PATCH", `/api/config/${key}`, { body });
    expect(statusAndBody(await patch("provider", { value: "prod" }))).toEqual([
      200,
      { key: "provider", ok: true },
    ]);
    for (const [key, any] of Object.entries({
      // The address is set first, because a later change of it would remove the secrets.
      "plugin.x.base_url": null,
      "plugin.x.api_key": value,
      "plugin.x.retry_token": 12_345_678,
      "plugin.x.password": "abcd",
      "plugin.x.list": [1, { a: "ü" }],
    })) {
      expect(statusAndBody(await patch(key, { value: any }))).toEqual([200, { key, ok: true }]);
    }
    const all = {
      "plugin.x.api_key": "****9876",
      "plugin.x.base_url": null,
      "plugin.x.list": [1, { a: "ü" }],
      "plugin.x.password": "****",
      "plugin.x.retry_token": "****",
      provider: "prod",
    };
    expect(statusAndBody(await api.call("GET", "/api/config"))).toEqual([200, all]);
    expect((await api.call("GET", "/api/config?show=1")).json).toEqual(all);
    for (const [key, item] of Object.entries(all)) {
      const response = await api.call("GET", `/api/config/${key}`);
      expect(statusAndBody(response)).toEqual([200, { key, value: item }]);
    }

    const url = "/api/config/plugin.x.api_key";
    expect((await api.call("GET", `${url}?show=0`)).json.value).toBe("****9876");
    expect(statusAndBody(await api.call("GET", `${url}?show=1`))).toEqual([
      200,
      { key: "plugin.x.api_key", value },
    ]);
    const reader = await createKey("config:read");
    expect((await api.call("GET", url, { token: reader })).json.value).toBe("****9876");
    const refused = await api.call("GET", `${url}?show=1`, { token: reader });
    expect([refused.status, refused.json.error.code]).toEqual([403, "auth.scope"]);
    expect(refused.text).not.toContain("9876");
    const audit = await api.call("GET", "/v1/audit?action=config.show");
    expect(audit.json.items).toMatchObject([{ actor: "admin", subject: "plugin.x.api_key" }]);
    expect((await api.call("GET", "/v1/audit")).text).not.toContain(value);
    for (const name of readdirSync(api.home).filter((file) => file.startsWith("store.db"))) {
      expect(readFileSync(join(api.home, name)).includes(value), name).toBe(false);
    }

    const remove = async (key: string) => statusAndBody(await api.call("DELETE", `/api/config/${key}`));
    expect(await remove("provider")).toEqual([200, { key: "provider", removed: true }]);
    expect(await remove("provider")).toEqual([200, { key: "provider", removed: false }]);
    expect((await api.call("GET", "/api/config/provider")).status).toBe(404);
    expect(await remove("plugin.x.*")).toEqual([200, { key: "plugin.x.*", removed: true }]);
    expect(await remove("plugin.x.*")).toEqual([200, { key: "plugin.x.*", removed: false }]);
    expect((await api.call("GET", "/api/config")).json).toEqual({});
  },
);

verifies("webapi.config", "adds the field detail to the error envelope under /api only", async () => {
  const json = { "content-type": "application/json" };
  const reader = await createKey("config:read");
  const body = { value: 1 };
  const huge = { value: "x".repeat(CONFIG_LIMITS.value_bytes) };
  const cases: [Promise<TestResponse>, number, string][] = [
    [api.call("GET", "/api/config/none"), 404, "config.not_found"],
    [api.call("GET", "/api/config/none?show=1"), 404, "config.not_found"],
    [api.call("GET", "/api/config/a..b"), 400, "request.invalid"],
    [api.call("GET", "/api/config/a.*"), 400, "request.invalid"],
    [api.call("GET", "/api/config/a?show=yes"), 400, "request.invalid"],
    [api.call("GET", "/api/config/%ff"), 400, "request.invalid"],
    [api.call("GET", `/api/config/${"x".repeat(600)}`), 400, "request.invalid"],
    [api.call("PATCH", "/api/config/*", { body }), 400, "request.invalid"],
    [api.call("PATCH", "/api/config/a.__proto__", { body }), 400, "request.invalid"],
    [api.call("PATCH", "/api/config/a", { body: {} }), 400, "request.invalid"],
    [api.call("PATCH", "/api/config/a", { body: { value: 1, more: 2 } }), 400, "request.invalid"],
    [api.call("PATCH", "/api/config/a", { body: "{oops", headers: json }), 400, "request.invalid"],
    [
      api.call("PATCH", "/api/config/a", { body: "v", headers: { "content-type": "text/plain" } }),
      415,
      "request.not_json",
    ],
    [api.call("PATCH", "/api/config/a", { body: huge }), 413, "config.limit"],
    [api.call("DELETE", "/api/config/a.b*"), 400, "request.invalid"],
    [api.call("GET", "/api/config", { token: null }), 401, "auth.missing"],
    [api.call("GET", "/%61pi/config", { token: null }), 401, "auth.missing"],
    [api.call("GET", "/api/config", { headers: { host: "evil.example" } }), 403, "auth.host"],
    [api.call("PATCH", "/api/config/a", { body, token: reader }), 403, "auth.scope"],
    [api.call("DELETE", "/api/config/a", { token: reader }), 403, "auth.scope"],
    [api.call("POST", "/api/config", { body }), 404, "route.not_found"],
    [api.call("GET", "/api"), 404, "route.not_found"],
    [api.call("GET", "/api/nothing?x=1"), 404, "route.not_found"],
  ];
  for (const [input, status, code] of cases) {
    const response = await input;
    expect([response.status, response.json.error.code], response.text).toEqual([status, code]);
    expect(Object.keys(response.json)).toEqual(["error", "detail"]);
    expect(response.json.detail).toBe(response.json.error.message);
  }
  for (const url of ["/apis", "/v1/plugin-packages/pkg_none", "/x?/api/config"]) {
    expect(Object.keys((await api.call("GET", url)).json)).toEqual(["error"]);
  }
});

test("separates the configuration of orgs", async () => {
  const other_org = { "backplane-org": "org_other" };
  await api.call("PATCH", "/api/config/shared.key", { body: { value: 1 } });
  await api.call("PATCH", "/api/config/shared.key", { body: { value: 2 }, headers: other_org });
  expect((await api.call("GET", "/api/config/shared.key")).json.value).toBe(1);
  expect((await api.call("DELETE", "/api/config/shared.*", { headers: other_org })).json.removed).toBe(true);
  expect((await api.call("GET", "/api/config/shared.key")).json.value).toBe(1);
});

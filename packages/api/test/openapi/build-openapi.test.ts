import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fastify } from "fastify";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { defineRoute, fastifyPath } from "../../src/http/route.ts";
import { registerRoutes } from "../../src/server/register-routes.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
// biome-ignore lint/suspicious/noExplicitAny: the tests read arbitrary parts of the document
let document: any;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("web") });
  document = (await api.call("GET", "/openapi.json")).json;
});
afterAll(() => api.close());

verifies("api.openapi", "generates OpenAPI 3.1 with every served route", () => {
  expect(document.openapi).toBe("3.1.0");
  const described = new Set<string>();
  for (const [path, methods] of Object.entries(document.paths as Record<string, object>))
    for (const method of Object.keys(methods)) described.add(`${method.toUpperCase()} ${fastifyPath(path)}`);
  const served = api.api.servedRoutes;
  expect(served.length).toBeGreaterThan(30);
  const mounted = api.kernel.adapters.list().map((mount) => `${mount.method} ${fastifyPath(mount.mounted)}`);
  expect(mounted.length).toBeGreaterThan(20);
  const wildcard_routes = served.filter((route) => route.endsWith("/*"));
  expect(new Set(wildcard_routes.map((route) => route.split(" ")[1]))).toEqual(new Set(["/api/*", "/x/*"]));
  const all = [...served.filter((route) => !wildcard_routes.includes(route)), ...mounted];
  expect(all.filter((route) => !described.has(route))).toEqual([]);
  expect([...described].filter((route) => !all.includes(route))).toEqual([]);
});

verifies(
  ["webapi.config", "webapi.plugins", "webapi.providers"],
  "describes every route of the published web API with the fields of its body",
  () => {
    const file = new URL("../../../../test/fixtures/published/web-api.txt", import.meta.url);
    for (const row of readFileSync(file, "utf8").trimEnd().split("\n")) {
      const [method = "", path = ""] = row.split(" ");
      const shape = path.replace(/[<{]\w+[>}]/g, "{}");
      const match = Object.entries(document.paths as Record<string, object>).find(
        ([known, methods]) => known.replace(/\{\w+\}/g, "{}") === shape && method.toLowerCase() in methods,
      );
      expect(match, row).toBeDefined();
      // biome-ignore lint/suspicious/noExplicitAny: the tests read arbitrary parts of the document
      const operation = (match![1] as any)[method.toLowerCase()];
      const body = /Body: \{([^}]*)\}/.exec(row)?.[1];
      if (body === undefined) continue;
      const fields = body.split(", ").map((field) => field.split(/[?:]/)[0]!);
      const schema = operation.requestBody.content["application/json"].schema;
      expect(Object.keys(schema.properties).sort(), row).toEqual([...fields].sort());
    }
  },
);

verifies("api.openapi", "refuses query parameters that the document does not list", async () => {
  const accepted: string[] = [];
  for (const [path, methods] of Object.entries(document.paths as Record<string, object>)) {
    // The protocols of model vendors have their own parameters.
    if (!path.startsWith("/v1/") || /^\/v1\/(?:models|messages|chat|responses)\b/.test(path)) continue;
    for (const method of Object.keys(methods)) {
      const url = `${path.replace("{sha256}", "0".repeat(64)).replaceAll(/\{\w+\}/g, "absent")}?unknown_parameter=1`;
      const response = await api.call(method.toUpperCase(), url, method === "get" ? {} : { body: {} });
      const message = JSON.stringify(response.json?.error?.details ?? {});
      // A request with an invalid body may be refused for its body first.
      const refused = response.status === 400 && (method !== "get" || message.includes("unknown_parameter"));
      if (!refused) accepted.push(`${method} ${path} ${response.status}`);
    }
  }
  expect(accepted).toEqual([]);
});

test("describes the scope of a body in the routes that accept it", () => {
  const fieldsOf = (path: string, method = "post") => {
    const { schema } = document.paths[path][method].requestBody.content["application/json"];
    const name = (schema.$ref as string | undefined)?.split("/").at(-1);
    return (name === undefined ? schema : document.components.schemas[name]).properties;
  };
  const reference = { $ref: "#/components/schemas/BodyScope" };
  for (const path of ["/v1/plugin-bindings", "/v1/invocations", "/v1/plugin-installations", "/v1/keys"])
    expect(fieldsOf(path).scope, path).toEqual(reference);
  // This one is the scope of an OAuth request.
  expect(fieldsOf("/v1/plugin-bindings/{id}:login").scope).not.toEqual(reference);
  expect(fieldsOf("/v1/chat/completions").scope).toBeUndefined();
  expect(document.components.schemas.BodyScope.properties).toMatchObject({
    project_id: { description: expect.stringContaining("org_wide") },
  });
});

test("documents If-Match for each route that reads it", async () => {
  const documented = Object.entries(
    document.paths as Record<string, Record<string, { parameters?: { name: string }[] }>>,
  ).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { parameters = [] }]) => parameters.some(({ name }) => name === "If-Match"))
      .map(([method]) => `${method.toUpperCase()} ${path}`),
  );
  expect(documented.sort()).toEqual([
    "DELETE /v1/plugin-bindings/{id}",
    "PATCH /v1/plugin-bindings/{id}",
    "PATCH /v1/policy",
    "POST /v1/plugin-bindings/{id}:rollback",
    "PUT /v1/policy",
  ]);
  // A handler gets the header only through its declaration.
  const folder = fileURLToPath(new URL("../../src", import.meta.url));
  const readers = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && /\bif-match\b(?! )/i.test(withoutComments(join(folder, file))),
  );
  expect(readers.sort()).toEqual(["openapi/build-openapi.ts", "server/register-routes.ts"]);
});

const withoutComments = (file: string) =>
  readFileSync(file, "utf8").replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");

test("does not pass If-Match to a route that does not declare it", async () => {
  const received: unknown[] = [];
  const app = fastify();
  const route = (path: string, if_match: boolean) =>
    defineRoute({
      method: "PUT",
      path,
      operation_id: `put${path}`,
      summary: "",
      tag: "System",
      auth: "public",
      if_match,
      responses: { 204: { description: "" } },
      handler(context) {
        received.push(context.if_match);
        return { status: 204, empty: true };
      },
    });
  const meter = { count: () => {} };
  const deps = {
    gate: { hosts: { check: () => {} }, started: () => true, stopping: () => false },
    metrics: { route: () => meter },
  };
  registerRoutes(app, [route("/declared", true), route("/undeclared", false)], deps as never);
  for (const url of ["/declared", "/undeclared"])
    await app.inject({ method: "PUT", url, headers: { "if-match": '"1"' } });
  expect(received).toEqual(['"1"', undefined]);
});

test("has valid references and unique operation ids", () => {
  const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1]!);
  const known = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
  expect(refs.filter((ref) => !known.includes(ref))).toEqual([]);
  const operations = Object.values(document.paths as Record<string, Record<string, { operationId: string }>>)
    .flatMap((methods) => Object.values(methods))
    .map(({ operationId }) => operationId);
  expect(new Set(operations).size).toBe(operations.length);
  expect(document.paths["/v1/invocations"].post.parameters[0].description).toMatch(/Seconds to wait/);
});

verifies(
  "api.openapi",
  "serves the explorer and all its files itself, under a strict content security policy",
  async () => {
    const page = await api.call("GET", "/explorer", { token: null });
    expect(page.status).toBe(200);
    const csp = String(page.headers["content-security-policy"]);
    expect(csp).toMatch(/default-src 'none'/);
    expect(csp).not.toMatch(/unsafe-inline|unsafe-eval|https?:/);
    const linked = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1]!);
    expect(linked.filter((url) => !url.startsWith("/") && url !== "data:,")).toEqual([]);
    expect(page.text).not.toMatch(/<script>|<style| style=| on\w+=/);
    for (const url of linked.filter((link) => link.startsWith("/static/"))) {
      const file = await api.call("GET", url, { token: null });
      expect(file.status, url).toBe(200);
      // Swagger UI contains URLs in texts; the test in a browser shows that it requests none of them.
      if (!url.startsWith("/static/explorer/"))
        expect(file.text, url).not.toMatch(/https?:\/\/|@import|innerHTML|eval\(/);
    }
    expect((await api.call("GET", "/openapi.json", { token: null })).status).toBe(401);
  },
);

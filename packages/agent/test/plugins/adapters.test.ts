import type { AdapterRequest, AdapterResponse, KernelPlugin, PluginContext } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { codeOfRejected, createTestPlugins, plugin, type TestPlugins, until } from "./test-plugins.ts";

type OnRequest = (request: AdapterRequest, ctx: PluginContext) => AdapterResponse | Promise<AdapterResponse>;

const adapter =
  (name: string, path: string, onRequest: OnRequest, more: Partial<KernelPlugin> = {}) =>
  () =>
    plugin(name, "adapter", {
      routes: [{ method: "GET", path, summary: "s", scope: "admin" }],
      onRequest,
      ...more,
    });

const request = { params: {}, query: {}, body: null };
async function requestRoute(
  { system }: TestPlugins,
  path: string,
  caller: Caller = admin,
): Promise<AdapterResponse> {
  const route = system.adapters.find("GET", path)!;
  return await system.adapters.handle(caller, route.mount, { ...request, params: route.params });
}

test("mounts routes while the plugin is loaded, under /x/ or, if allowed, under /api/", async () => {
  const echo: OnRequest = ({ route, params }) => ({ status: 200, body: { route, params } });
  const fixture = await createTestPlugins((loader) => {
    loader.add(adapter("web", "/api/config/{key}", echo));
    loader.add(adapter("acme", "/api/acme/{id}", echo), { origin: "installed" });
  });
  const mounted = () => fixture.system.adapters.list().map((mount) => `${mount.plugin} ${mount.mounted}`);
  expect(mounted()).toEqual(["web /api/config/{key}", "acme /x/acme/api/acme/{id}"]);
  expect(await requestRoute(fixture, "/api/config/a%20b")).toEqual({
    status: 200,
    body: { route: "GET /api/config/{key}", params: { key: "a b" } },
  });
  await fixture.set({ "plugin.acme.api": true });
  await until(() => mounted().includes("acme /api/acme/{id}"));
  expect(fixture.system.adapters.find("GET", "/x/acme/api/acme/1")).toBeNull();
  const { mount } = fixture.system.adapters.find("GET", "/api/acme/1")!;
  await fixture.system.facade.setEnabled(admin, "acme", false);
  expect(mounted()).toEqual(["web /api/config/{key}"]);
  expect(await codeOfRejected(fixture.system.adapters.handle(admin, mount, request))).toBe("route.not_found");
});

test("fails a plugin whose route is already taken by another adapter or by itself", async () => {
  const fixture = await createTestPlugins((loader) => {
    loader.add(adapter("web", "/api/{a}", () => ({ status: 204 })));
    loader.add(adapter("web-two", "/api/{b}", () => ({ status: 204 })));
  });
  expect(fixture.system.snapshot()[1]).toMatchObject({
    status: "failed",
    error: "the route GET /api/{} is taken by web",
  });
  const route = { method: "GET", path: "/a", summary: "s", scope: "admin" } as const;
  const twice = { routes: [route, route] };
  const duplicate = await createTestPlugins((loader) =>
    loader.add(adapter("web", "/a", () => ({ status: 204 }), twice)),
  );
  expect(duplicate.system.snapshot()[0]).toMatchObject({ error: "the route GET /x/web/a is taken by web" });
});

test("lets an adapter act for its caller through `as` until the request is answered", async () => {
  let first_request: { as: string; ctx: PluginContext } | undefined;
  const fixture = await createTestPlugins((loader) =>
    loader.add(
      adapter("web", "/api/whoami", async ({ as }, ctx) => {
        first_request = { as, ctx };
        return { status: 200, body: await ctx.service("whoami", { n: 1 }, as) };
      }),
    ),
  );
  fixture.services.set("whoami", (args, { plugin: name, caller, call }) =>
    Promise.resolve({
      args,
      name,
      actor: caller?.actor ?? null,
      org: caller?.scope.org_id ?? null,
      without_call: call === null,
    }),
  );
  const acme = { ...user, scope: { org_id: "org_acme", project_id: null } };
  expect(await requestRoute(fixture, "/api/whoami", acme)).toEqual({
    status: 200,
    body: { args: { n: 1 }, name: "web", actor: "key_user", org: "org_acme", without_call: true },
  });
  expect(await codeOfRejected(first_request!.ctx.service("whoami", {}, first_request!.as))).toBe(
    "auth.invalid",
  );
});

test("checks an adapter's response and hides the details of what it throws", async () => {
  let onRequest: OnRequest = () => ({ status: 200 });
  const fixture = await createTestPlugins(
    (loader) =>
      loader.add(adapter("web", "/api/a", (adapter_request, ctx) => onRequest(adapter_request, ctx))),
    { timeouts: { request_ms: 30 } },
  );
  const requestWith = (next: unknown) => {
    onRequest = typeof next === "function" ? (next as OnRequest) : () => next as AdapterResponse;
    return requestRoute(fixture, "/api/a");
  };
  const good = { status: 599, body: [1, null, { a: "b" }], headers: { "X-Thing": "a; b" } };
  expect(await requestWith(good)).toEqual(good);
  expect(await requestWith({ status: 204 })).toEqual({ status: 204 });
  for (const bad of [
    null,
    "text",
    {},
    { status: 199 },
    { status: 600 },
    { status: 200.5 },
    { status: "200" },
    { status: 200, body: () => 1 },
    { status: 200, body: { at: new Date() } },
    { status: 200, body: Number.NaN },
    { status: 200, headers: { "x-a": "1\r\nset-cookie: a=b" } },
    { status: 200, headers: { "x\na": "1" } },
    { status: 200, headers: { "x-a": 1 } },
    { status: 200, headers: { "Set-Cookie": "session=stolen" } },
    { status: 200, headers: { "content-length": "9" } },
  ]) {
    expect(await codeOfRejected(requestWith(bad)), JSON.stringify(bad)).toBe("malformed_response");
  }
  expect(await codeOfRejected(requestWith(() => new Promise(() => {})))).toBe("timeout");
  const thrown = requestWith(() => {
    throw new Error("secret detail");
  });
  await expect(thrown).rejects.toMatchObject({
    code: "crashed",
    message: expect.not.stringContaining("secret"),
  });
  // Failed requests are not counted as failures of the plugin. Otherwise any client could unload the web adapter.
  expect(fixture.system.snapshot()[0]).toMatchObject({ status: "loaded", failures: 0 });
  fixture.services.set("config.get", () =>
    Promise.reject(Object.assign(new Error("no"), { code: "config.not_found" })),
  );
  expect(
    await codeOfRejected(
      requestWith((request: AdapterRequest, ctx: PluginContext) => ctx.service("config.get", {}, request.as)),
    ),
  ).toBe("config.not_found");
});

/** The routes of the bundled web adapter under /api, with their exact shapes. */
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/gateway.ts";
import { verifies } from "../support/verifies.ts";

interface Plugin {
  name: string;
  origin: string;
  status: string;
  enabled: boolean;
  config_schema: unknown;
  current_config: unknown;
}
interface Provider {
  id: string;
  plugin: string;
  label: string;
  active: boolean;
  config: Record<string, unknown>;
}

let gateway: TestGateway;
const folder = join(mkdtempSync(join(tmpdir(), "backplane-greeter-")), "greeter");
beforeAll(async () => {
  cpSync("packages/gateway/test/fixtures/plugins/greeter", folder, { recursive: true });
  gateway = await startTestGateway();
});
afterAll(async () => {
  await gateway?.dispose();
  rmSync(join(folder, ".."), { recursive: true, force: true });
});

const sendRequest = async (method: string, path: string, body?: unknown) => {
  const response = await gateway.http<{ error?: { code: string }; detail?: string }>(method, path, body);
  if (response.status >= 400) expect(response.body.detail, path).toBeTypeOf("string");
  return response;
};
const requestStatus = async (method: string, path: string, body?: unknown) =>
  (await sendRequest(method, path, body)).status;
const listPlugins = async () =>
  (await gateway.http<{ plugins: Plugin[] }>("GET", "/api/plugins")).body.plugins;

verifies(
  "webapi.config",
  "serves the configuration routes with the specified shapes, and refuses a patch without a value",
  async () => {
    const set = await gateway.http("PATCH", "/api/config/acme.api_key", { value: "sk-long-enough-4321" });
    expect([set.status, set.body]).toEqual([200, { key: "acme.api_key", ok: true }]);
    const all = await gateway.http("GET", "/api/config");
    expect(all.body).toMatchObject({ "acme.api_key": "****4321" });
    const stored = await gateway.http("GET", "/api/config/acme.api_key");
    expect(stored.body).toEqual({ key: "acme.api_key", value: "****4321" });
    expect(await requestStatus("PATCH", "/api/config/acme.api_key", {})).toBe(400);
    expect(await requestStatus("GET", "/api/config/acme.none")).toBe(404);
    const removed = await gateway.http("DELETE", "/api/config/acme.*");
    expect([removed.status, removed.body]).toEqual([200, { key: "acme.*", removed: true }]);
  },
);

verifies(
  ["webapi.plugins", "plug.web-adapter"],
  "lists, installs, enables, disables and removes plugins without a restart, with third-party routes under /x",
  async () => {
    const bundled = await listPlugins();
    expect(bundled.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["web", "llm-echo", "strategy-react", "memory-sqlite", "agent-tool"]),
    );
    for (const row of bundled) {
      expect(row).toMatchObject({ origin: "bundled", status: "loaded", enabled: true });
      expect(Object.keys(row)).toEqual(
        expect.arrayContaining(["version", "category", "config_schema", "current_config"]),
      );
    }

    expect((await gateway.http("GET", "/x/greeter/hello/Ada")).status).toBe(404);
    const installed = await gateway.http("POST", "/api/plugins/install", { source: folder, editable: true });
    expect([installed.status, installed.body]).toMatchObject([200, { source: folder, ok: true }]);
    const hello = await gateway.http("GET", "/x/greeter/hello/Ada?x=1");
    expect([hello.status, hello.body]).toEqual([200, { hello: "Ada", query: { x: "1" } }]);
    expect(hello.headers.get("x-greeter")).toBe("hello");
    const document = await gateway.http<{ paths: Record<string, object> }>("GET", "/openapi.json");
    expect(Object.keys(document.body.paths)).toEqual(
      expect.arrayContaining(["/x/greeter/hello/{name}", "/api/config/{key}", "/v1/runs"]),
    );

    const disabled = await gateway.http("PATCH", "/api/plugins/greeter", { enabled: false });
    expect([disabled.status, disabled.body]).toMatchObject([
      200,
      { name: "greeter", enabled: false, reload_required: false },
    ]);
    expect((await gateway.http("GET", "/x/greeter/hello/Ada")).status).toBe(404);
    expect((await listPlugins()).find(({ name }) => name === "greeter")).toMatchObject({
      enabled: false,
      status: "disabled",
    });
    await gateway.http("PATCH", "/api/plugins/greeter", { enabled: true });
    expect((await gateway.http("GET", "/x/greeter/hello/Ada")).status).toBe(200);

    const removed = await gateway.http("DELETE", "/api/plugins/greeter");
    expect([removed.status, removed.body]).toEqual([200, { name: "greeter", removed: true }]);
    expect((await gateway.http("GET", "/x/greeter/hello/Ada")).status).toBe(404);
    expect(await requestStatus("DELETE", "/api/plugins/web")).toBe(400);
    expect(await requestStatus("DELETE", "/api/plugins/nobody")).toBe(404);
    expect(await requestStatus("PATCH", "/api/plugins/nobody", { enabled: true })).toBe(404);
    for (const body of [{}, { enabled: "yes" }, { enabled: true, more: 1 }])
      expect(await requestStatus("PATCH", "/api/plugins/web", body)).toBe(400);
    for (const source of ["git+ssh://evil.example/x", "https://evil.example/x.tgz", "--global", "a;b", ""])
      expect(await requestStatus("POST", "/api/plugins/install", { source }), source).toBe(400);
  },
);

verifies(
  "webapi.providers",
  "creates, changes, activates, tests and removes provider instances, listed as a bare array, with the specified errors",
  async () => {
    const list = async () => (await gateway.http<Provider[]>("GET", "/api/llm-providers")).body;
    const before = await list();
    expect(before.find(({ active }) => active)).toMatchObject({ plugin: "llm-echo" });
    // A server that accepts connections and never responds.
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await new Promise((ready) => silent.once("listening", ready));
    const base_url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`;
    try {
      const created = await gateway.http<Provider>("POST", "/api/llm-providers", {
        id: "acme-prod",
        plugin: "llm-openai",
        label: "Prod",
        config: { base_url, api_key: "sk-long-enough-7777", model: "m", allow_private: true },
      });
      expect(created.status).toBe(201);
      expect(created.body).toMatchObject({
        id: "acme-prod",
        plugin: "llm-openai",
        label: "Prod",
        active: false,
      });
      expect(created.body.config).toMatchObject({ base_url, api_key: "****7777" });
      const again = { id: "acme-prod", plugin: "llm-openai" };
      expect(await requestStatus("POST", "/api/llm-providers", again)).toBe(409);
      expect(await requestStatus("POST", "/api/llm-providers", { plugin: "nobody" })).toBe(404);
      expect(await requestStatus("POST", "/api/llm-providers", { plugin: "web" })).toBe(400);
      expect(await requestStatus("POST", "/api/llm-providers", { id: "A B", plugin: "llm-echo" })).toBe(400);
      expect(await requestStatus("POST", "/api/llm-providers", {})).toBe(400);
      const patched = await gateway.http<Provider>("PATCH", "/api/llm-providers/acme-prod", { label: "P2" });
      expect([patched.status, patched.body.label, patched.body.config.base_url]).toEqual([
        200,
        "P2",
        base_url,
      ]);
      expect(await requestStatus("PATCH", "/api/llm-providers/nobody", { label: "x" })).toBe(404);

      const began = performance.now();
      const tested = await gateway.http<{ ok: boolean; latency_ms: number; error: string }>(
        "POST",
        "/api/llm-providers/acme-prod/test",
      );
      expect(tested.body).toMatchObject({ ok: false, error: "timeout" });
      expect(performance.now() - began).toBeGreaterThan(4_500);
      const echo = await gateway.http("POST", "/api/llm-providers/llm-echo/test");
      expect(echo.body).toMatchObject({ ok: true, latency_ms: expect.any(Number) });
      expect(await requestStatus("POST", "/api/llm-providers/nobody/test")).toBe(404);

      const chosen = await gateway.http("PATCH", "/api/llm-providers/active", { name: "acme-prod" });
      expect([chosen.status, chosen.body]).toEqual([200, { active: "acme-prod", ok: true }]);
      expect(await requestStatus("PATCH", "/api/llm-providers/active", { name: "nobody" })).toBe(404);
      expect(await requestStatus("DELETE", "/api/llm-providers/acme-prod")).toBe(409);
      // llm-echo is not active, but it is the last instance of its plugin.
      expect(await requestStatus("DELETE", "/api/llm-providers/llm-echo")).toBe(409);
      await gateway.http("PATCH", "/api/llm-providers/active", { name: "llm-echo" });
      expect(await requestStatus("DELETE", "/api/llm-providers/acme-prod")).toBe(204);
      expect(await requestStatus("DELETE", "/api/llm-providers/acme-prod")).toBe(404);
      expect(await list()).toEqual(before);
    } finally {
      silent.closeAllConnections();
      silent.close();
    }
  },
);

verifies(
  "webapi.sessions",
  "lists, messages, reads, forks, interrupts and resets sessions over /api",
  async () => {
    const sent = await gateway.http<{ entry_id: number; run_id: string }>(
      "POST",
      "/api/sessions/web-1/message",
      {
        text: "/say over the web",
      },
    );
    expect([sent.status, Object.keys(sent.body).toSorted()]).toEqual([
      202,
      ["entry_id", "event_id", "run_id"],
    ]);
    const readEntries = async (id: string, query = "") =>
      (
        await gateway.http<{ entries: { id: number; payload: { content?: string } }[] }>(
          "GET",
          `/api/sessions/${id}/entries${query}`,
        )
      ).body.entries;
    const readTexts = async (id: string) => (await readEntries(id)).map(({ payload }) => payload.content);
    await expect.poll(() => readTexts("web-1")).toContain("over the web");
    const [first] = await readEntries("web-1", `?after=${sent.body.entry_id - 1}&limit=1`);
    expect(first).toMatchObject({ id: sent.body.entry_id, payload: { content: "/say over the web" } });
    const listed = await gateway.http<{ sessions: { id: string }[]; next: null }>("GET", "/api/sessions");
    expect(listed.body.sessions.map(({ id }) => id)).toContain("web-1");
    const fork = await gateway.http("POST", "/api/sessions/web-1/fork", { child_id: "web-2" });
    expect([fork.status, fork.body]).toMatchObject([201, { id: "web-2", parent_session_id: "web-1" }]);
    expect(await readTexts("web-2")).toContain("over the web");
    expect(await requestStatus("POST", "/api/sessions/web-1/fork", { child_id: "web-2" })).toBe(409);

    await gateway.http("POST", "/api/sessions/web-1/message", { text: "/slow 20000\n/say one two three" });
    const stopped = await gateway.http("POST", "/api/sessions/web-1/interrupt");
    expect([stopped.status, stopped.body]).toEqual([200, { interrupted: true }]);
    await expect.poll(async () => (await gateway.http("POST", "/api/sessions/web-1/reset")).status).toBe(200);
    expect(await requestStatus("GET", "/api/sessions/nobody/entries")).toBe(404);
    expect(await requestStatus("POST", "/api/sessions/web-1/message", { words: "x" })).toBe(400);
  },
);

verifies(
  "plug.web-adapter",
  "removes /api when the web plugin is disabled and keeps /v1, even after a restart",
  async () => {
    const disabled = await gateway.http("PATCH", "/api/plugins/web", { enabled: false });
    expect([disabled.status, disabled.body]).toMatchObject([200, { name: "web", enabled: false }]);
    const expectApiRemoved = async () => {
      for (const path of ["/api/config", "/api/plugins", "/api/llm-providers", "/api/sessions"])
        expect((await sendRequest("GET", path)).body.error?.code, path).toBe("route.not_found");
      expect((await gateway.http("GET", "/v1/sessions")).status).toBe(200);
      const run = await gateway.http("POST", "/v1/runs?wait=true", {
        session_id: "without-web",
        input: { text: "/say still here" },
      });
      expect([run.status, run.body]).toMatchObject([200, { output: { content: "still here" } }]);
    };
    await expectApiRemoved();
    const { home } = gateway;
    expect(await gateway.stop()).toBe(0);
    gateway = await startTestGateway({ home });
    await expectApiRemoved();
    // /v1 re-enables the plugin, because /api is unavailable.
    const enabled = await gateway.http("PATCH", "/v1/plugins/web", { enabled: true });
    expect([enabled.status, enabled.body]).toMatchObject([
      200,
      { name: "web", enabled: true, status: "loaded" },
    ]);
    expect((await gateway.http("GET", "/api/config")).status).toBe(200);
  },
);

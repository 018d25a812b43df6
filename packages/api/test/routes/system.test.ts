import type { Kernel } from "@backplane/ports";
import { afterEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
afterEach(() => api.close());

test("responds 503 on readyz, but not on healthz, while the store is unavailable or the gateway stops", async () => {
  let health: Partial<Awaited<ReturnType<Kernel["health"]>>> = {};
  api = await startApi({
    wrap: (kernel) => ({ ...kernel, health: async () => ({ ...(await kernel.health()), ...health }) }),
  });
  const checkReady = async () => {
    const response = await api.call("GET", "/readyz", { token: null });
    return [response.status, response.json.error?.code];
  };
  expect(await checkReady()).toEqual([200, undefined]);
  health = { store: { ok: false, error: "disk on fire at /srv" } };
  expect(await checkReady()).toEqual([503, "store.unavailable"]);
  expect((await api.call("GET", "/healthz", { token: null })).status).toBe(200);
  expect((await api.call("GET", "/v1/status")).text).not.toContain("/srv");
  health = { stopping: true };
  expect(await checkReady()).toEqual([503, "gateway_stopping"]);
  expect((await api.call("GET", "/healthz", { token: null })).json).toEqual({ status: "ok" });
});

test("reports running work, the caller's scope and the sandbox in the status", async () => {
  api = await startApi();
  const { json } = await api.call("GET", "/v1/status");
  expect(json).toMatchObject({
    version: "0.0.0-test",
    ready: true,
    caller: { actor: "admin", org_id: "org_local", project_id: "proj_default", admin: true },
    invocations: { running: 0, waiting_approval: 0, queued: 0 },
    sandbox: { available: true },
  });
});

verifies("server.idle", "shows the memory of running servers to the host's admin only", async () => {
  const servers = [
    {
      binding_id: "bind_1",
      package_id: "acme/browser",
      pid: 4711,
      state: "ready",
      calls: 0,
      idle_ms: 61_000,
      memory_bytes: 80 * 1024 * 1024,
    } as const,
  ];
  api = await startApi({
    wrap: (kernel) => ({ ...kernel, servers: { ...kernel.servers, listProcesses: async () => servers } }),
  });
  expect((await api.call("GET", "/v1/status")).json.runner.servers).toEqual(servers);
  const body = { name: "other", role: "admin", project_id: "proj_a", scopes: ["secrets:read"] };
  const { token } = (await api.call("POST", "/v1/keys", { body })).json;
  const { json } = await api.call("GET", "/v1/status", { token });
  expect(json.runner.servers).toEqual([]);
});

test("counts requests by route and status, and invocations by final status", async () => {
  api = await startApi();
  await api.call("POST", "/v1/plugin-packages", {
    body: { source: { folder: writeSamplePackage(api.home) } },
  });
  await api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" },
  });
  for (const what of ["echo", "fail", "fail"])
    await api.call("POST", "/v1/invocations?wait", { body: { export_id: "echo", input: { do: what } } });
  await api.call("GET", "/v1/secrets", { token: null });
  await api.call("GET", "/nowhere");
  const { text, headers } = await api.call("GET", "/metrics");
  expect(headers["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/);
  const lines = text.split("\n");
  expect(lines).toContain('backplane_http_requests_total{route="invoke",status="200"} 3');
  expect(lines).toContain('backplane_http_requests_total{route="listSecrets",status="401"} 1');
  expect(lines).toContain('backplane_http_requests_total{route="unknown",status="404"} 1');
  expect(lines).toContain('backplane_http_request_duration_seconds_count{route="invoke"} 3');
  expect(lines).toContain('backplane_http_request_duration_seconds_bucket{route="invoke",le="+Inf"} 3');
  expect(lines).toContain('backplane_invocations_total{kind="tool",class="isolated",status="succeeded"} 1');
  expect(lines).toContain('backplane_invocations_total{kind="tool",class="isolated",status="failed"} 2');
  expect(lines).toContain("backplane_invocations_running 0");
  for (const name of ["backplane_event_loop_lag_seconds", "process_resident_memory_bytes"])
    expect(text).toMatch(new RegExp(`^${name} [0-9.e-]+$`, "m"));
  expect(lines.filter((line) => line !== "" && !/^(# |[a-z_]+(\{[^}]*\})? [0-9.e+-]+$)/.test(line))).toEqual(
    [],
  );
});

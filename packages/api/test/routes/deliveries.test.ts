/** The routes for deliveries. The tests of the door cover the deliveries themselves. */
import { afterEach, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
afterEach(() => api.close());

verifies("api.deliveries", "checks scopes and reports a delivery that does not exist", async () => {
  api = await startApi();
  expect((await api.call("GET", "/v1/deliveries?status=dead")).json).toEqual({ items: [], next: null });
  expect((await api.call("GET", "/v1/deliveries?status=lost")).status).toBe(400);
  for (const [method, path] of [
    ["GET", "/v1/deliveries/del_none"],
    ["POST", "/v1/deliveries/del_none:replay"],
    ["POST", "/v1/deliveries/del_none:discard"],
  ] as const) {
    const { status, json } = await api.call(method, path);
    expect([status, json.error.code]).toEqual([404, "delivery.not_found"]);
  }
  for (const action of ["pause", "resume"]) {
    const { status, json } = await api.call("POST", `/v1/plugin-bindings/bind_none:${action}`);
    expect([status, json.error.code]).toEqual([404, "binding.not_found"]);
  }
  const body = { name: "reader", project_id: "proj_default", scopes: ["invocations:read"] };
  const { token } = (await api.call("POST", "/v1/keys", { body })).json;
  expect((await api.call("GET", "/v1/deliveries", { token })).status).toBe(200);
  const replay = await api.call("POST", "/v1/deliveries/del_none:replay", { token });
  expect([replay.status, replay.json.error.code]).toEqual([403, "auth.scope"]);
});

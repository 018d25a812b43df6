import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  await api.call("POST", "/v1/plugin-packages", {
    body: { source: { folder: writeSamplePackage(api.home) } },
  });
});
afterAll(() => api.close());

const bind = (export_id: string, headers: Record<string, string> = {}, more: object = {}) =>
  api.call("POST", "/v1/plugin-bindings", {
    body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id, ...more },
    headers,
  });
const listExports = async (list: string, call: Parameters<TestApi["call"]>[2] = {}) => {
  const response = await api.call("GET", `/v1/plugin-${list}`, call);
  return response.json.items.map((item: { export_id: string }) => item.export_id);
};

verifies(
  "api.discovery",
  "lists the exports of each kind that the caller can use, and no others",
  async () => {
    for (const id of ["echo", "notify", "shrink", "triage"]) expect((await bind(id)).status).toBe(201);
    const unbound = await bind("search");
    expect(unbound.json).toMatchObject({ status: "inactive", unbound_slots: ["jira_token"] });
    await bind("ask", { "backplane-project": "proj_other" });

    expect(await listExports("tools")).toEqual(["echo"]);
    expect(await listExports("hooks")).toEqual(["notify"]);
    expect(await listExports("compactors")).toEqual(["shrink"]);
    expect(await listExports("harnesses")).toEqual(["triage"]);
    expect(await listExports("tools", { headers: { "backplane-project": "proj_other" } })).toEqual(["ask"]);
    expect(await listExports("tools", { headers: { "backplane-org": "org_other" } })).toEqual([]);

    const echo = (await api.call("GET", "/v1/plugin-tools")).json.items[0];
    expect(echo).toMatchObject({ kind: "tool", class: "isolated", package_version: "1.0.0" });
    expect(echo.input_schema).toEqual({ type: "object", properties: { text: { type: "string" } } });

    const key = await api.call("POST", "/v1/keys", {
      body: { name: "other", project_id: "proj_other", scopes: ["exports:read"] },
    });
    expect(await listExports("tools", { token: key.json.token })).toEqual(["ask"]);
    await api.call(
      "PATCH",
      `/v1/plugin-bindings/${(await api.call("GET", "/v1/plugin-bindings?kind=hook")).json.items[0].binding_id}`,
      {
        body: { status: "disabled" },
      },
    );
    expect(await listExports("hooks")).toEqual([]);
  },
);

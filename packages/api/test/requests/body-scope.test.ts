import { afterAll, beforeAll, expect, test } from "vitest";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let t: TestApi;
beforeAll(async () => {
  t = await startApi();
  const body = { source: { folder: writeSamplePackage(t.home) } };
  await t.call("POST", "/v1/plugin-packages", { body });
});
afterAll(() => t.close());

const binding = { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" };

test("accepts the credential's own scope in a body, and a project of its whole organisation", async () => {
  const created = await t.call("POST", "/v1/plugin-bindings", { body: binding });
  const own = created.json.scope as { org_id: string; project_id: string };
  const invoke = (scope: object, headers: Record<string, string> = {}) =>
    t.call("POST", "/v1/invocations?wait=5", { body: { export_id: "echo", input: {}, scope }, headers });
  for (const scope of [own, { org_id: own.org_id }, {}])
    expect((await invoke(scope)).json).toMatchObject({ status: "succeeded", ...own });
  const narrowed = await invoke(own, { "backplane-project": "*" });
  expect(narrowed.json).toMatchObject({ status: "succeeded", ...own });
});

test("refuses a scope that is not the credential's own or is wider", async () => {
  for (const scope of [{ org_id: "org_other" }, { project_id: "proj_other" }, { project_id: null }]) {
    const refused = await t.call("POST", "/v1/plugin-bindings", { body: { ...binding, scope } });
    expect([refused.status, refused.json.error.code]).toEqual([403, "auth.scope"]);
    expect(refused.json.error.message).toMatch(/^body\.scope names the (organisation|project) /);
  }
  const unknown = await t.call("POST", "/v1/plugin-bindings", { body: { ...binding, scope: { team: "a" } } });
  expect(unknown.json.error).toMatchObject({
    code: "request.invalid",
    message: expect.stringContaining("team"),
  });
});

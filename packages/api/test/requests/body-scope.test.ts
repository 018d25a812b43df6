import { afterAll, beforeAll, expect, test } from "vitest";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  const body = { source: { folder: writeSamplePackage(api.home) } };
  await api.call("POST", "/v1/plugin-packages", { body });
});
afterAll(() => api.close());

const binding = { package_id: PACKAGE_ID, package_version: "1.0.0", export_id: "echo" };

test("accepts the credential's own scope in a body, and a project of its whole organization", async () => {
  const created = await api.call("POST", "/v1/plugin-bindings", { body: binding });
  const own = created.json.scope as { org_id: string; project_id: string };
  const invoke = (scope: object, headers: Record<string, string> = {}) =>
    api.call("POST", "/v1/invocations?wait=5", { body: { export_id: "echo", input: {}, scope }, headers });
  for (const scope of [own, { org_id: own.org_id }, {}])
    expect((await invoke(scope)).json).toMatchObject({ status: "succeeded", ...own });
  const narrowed = await invoke(own, { "backplane-project": "*" });
  expect(narrowed.json).toMatchObject({ status: "succeeded", ...own });
  await api.call("DELETE", `/v1/plugin-bindings/${created.json.binding_id}`);
});

test("binds for all projects if project_id of the scope is null, as with org_wide", async () => {
  const { json: wide } = await api.call("POST", "/v1/plugin-bindings", {
    body: { ...binding, org_wide: true },
  });
  expect(wide.scope).toEqual({ org_id: "org_local", project_id: null });
  await api.call("DELETE", `/v1/plugin-bindings/${wide.binding_id}`);
  // The scope that a response shows can be sent back.
  const create = (scope: object, more: object = {}) =>
    api.call("POST", "/v1/plugin-bindings", { body: { ...binding, ...more, scope } });
  const again = await create(wide.scope);
  expect([again.status, again.json.scope]).toEqual([201, wide.scope]);
  const own = await create({ org_id: wide.scope.org_id });
  expect(own.json.scope).toEqual({ org_id: wide.scope.org_id, project_id: "proj_default" });
  const rule = await api.call("POST", "/v1/allow-rules", { body: { tool: "echo", scope: wide.scope } });
  expect([rule.status, rule.json.project_id]).toEqual([201, null]);
  for (const [scope, org_wide] of [
    [wide.scope, false],
    [own.json.scope, true],
  ]) {
    const both = await create(scope, { org_wide });
    expect([both.status, both.json.error.code]).toEqual([400, "request.invalid"]);
    expect(both.json.error.message).toContain(`but body.org_wide is ${org_wide}; leave one of them out`);
  }
  await api.call("DELETE", `/v1/plugin-bindings/${again.json.binding_id}`);
});

test("refuses a scope other than the credential's own, including a wider one", async () => {
  const key = { name: "scoped", role: "admin", scopes: ["admin"] };
  const created = await api.call("POST", "/v1/keys", { body: key });
  const headers = { authorization: `Bearer ${created.json.token}` };
  for (const scope of [{ org_id: "org_other" }, { project_id: "proj_other" }, { project_id: null }]) {
    const refused = await api.call("POST", "/v1/plugin-bindings", { body: { ...binding, scope }, headers });
    expect([refused.status, refused.json.error.code]).toEqual([403, "auth.scope"]);
    expect(refused.json.error.message).toMatch(
      /^body\.scope names (the organization "org_other"|the project "proj_other"|all projects), but /,
    );
  }
  // A call always belongs to a project.
  const call = { export_id: "echo", input: {}, scope: { project_id: null } };
  const wide = await api.call("POST", "/v1/invocations", { body: call });
  expect([wide.status, wide.json.error.code]).toEqual([403, "auth.scope"]);
  const other_project = await api.call("POST", "/v1/plugin-bindings", {
    body: { ...binding, scope: { project_id: "proj_other" } },
  });
  expect(other_project.json.error).toMatchObject({
    code: "auth.scope",
    details: { fix: expect.stringContaining("Backplane-Project") },
  });
  const unknown = await api.call("POST", "/v1/plugin-bindings", {
    body: { ...binding, scope: { team: "a" } },
  });
  expect(unknown.json.error).toMatchObject({
    code: "request.invalid",
    message: expect.stringContaining("team"),
  });
});

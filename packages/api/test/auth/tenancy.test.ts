import { afterAll, beforeAll, expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { packToBuffer } from "../support/pack-to-buffer.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

verifies(
  "bind.scope",
  "responds to ids of another project or org with the same bytes as to unknown ids",
  async () => {
    const other_project = { "backplane-project": "proj_other" };
    const folder = writeSamplePackage(api.home);
    await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
    const foreign = await api.call("POST", "/v1/plugin-packages", {
      body: { source: { folder } },
      headers: { "backplane-org": "org_other" },
    });
    const binding_ids: Record<string, string> = {};
    for (const export_id of ["echo", "ask"]) {
      const binding = await api.call("POST", "/v1/plugin-bindings", {
        body: { package_id: PACKAGE_ID, package_version: "1.0.0", export_id },
        headers: other_project,
      });
      binding_ids[export_id] = binding.json.binding_id;
    }
    const call = await api.call("POST", "/v1/invocations", {
      body: { export_id: "ask", input: {}, session_id: "sess_1" },
      headers: other_project,
    });
    const key = await api.call("POST", "/v1/keys", {
      body: { name: "k", scopes: ["audit:read"] },
      headers: other_project,
    });

    const requests: [string, (id: string) => string, string, unknown?][] = [
      ["GET", (id) => `/v1/plugin-packages/${id}`, foreign.json.id],
      ["DELETE", (id) => `/v1/plugin-packages/${id}`, foreign.json.id],
      ["GET", (id) => `/v1/plugin-bindings/${id}`, binding_ids.echo!],
      ["PATCH", (id) => `/v1/plugin-bindings/${id}`, binding_ids.echo!, { status: "disabled" }],
      ["DELETE", (id) => `/v1/plugin-bindings/${id}`, binding_ids.echo!],
      ["POST", (id) => `/v1/plugin-bindings/${id}:validate`, binding_ids.echo!],
      ["GET", (id) => `/v1/invocations/${id}`, call.json.id],
      ["POST", (id) => `/v1/invocations/${id}:cancel`, call.json.id],
      ["GET", (id) => `/v1/invocations/${id}/events`, call.json.id],
      ["GET", (id) => `/v1/approvals/${id}`, call.json.approval_id],
      ["POST", (id) => `/v1/approvals/${id}:answer`, call.json.approval_id, { response: "approve" }],
      ["DELETE", (id) => `/v1/keys/${id}`, key.json.key.id],
    ];
    for (const [method, url, id, body] of requests) {
      const missing = id.replace(/.{6}$/, "zzzzzz");
      const headers = { "x-request-id": "same" };
      const existing = await api.call(method, url(id), { body, headers });
      const nowhere = await api.call(method, url(missing), { body, headers });
      expect([existing.status, existing.text], `${method} ${url("ID")}`).toEqual([404, nowhere.text]);
      expect({ ...existing.headers, date: 0 }).toEqual({ ...nowhere.headers, date: 0 });
    }

    // A conditional request reveals no more than an unconditional one.
    for (const method of ["PATCH", "DELETE"]) {
      for (const tag of ['"1"', '"99"', '"1", "2"', "*"]) {
        const ask = (id: string) =>
          api.call(method, `/v1/plugin-bindings/${id}`, {
            ...(method === "PATCH" ? { body: { status: "disabled" } } : {}),
            headers: { "if-match": tag, "x-request-id": "same" },
          });
        const existing = await ask(binding_ids.echo!);
        expect([existing.status, existing.text], `${method} ${tag}`).toEqual([
          404,
          (await ask("bind_none")).text,
        ]);
      }
    }

    // No list, count or refusal mentions an object of the other project.
    const other_ids = [...Object.values(binding_ids), call.json.id, call.json.approval_id, key.json.key.id];
    const own_key = await api.call("POST", "/v1/keys", {
      body: { name: "mine", scopes: ["packages:read", "packages:write", "secrets:read"] },
    });
    const token = own_key.json.token as string;
    const installed = (await api.call("GET", "/v1/plugin-packages", { token })).json.items[0];
    // A project may not remove the org's package, and may remove its own unless others use it.
    const archive = await packToBuffer(writeSamplePackage(api.home, "2.0.0"));
    const own_package = await api.call("POST", "/v1/plugin-packages", {
      body: archive,
      headers: { "content-type": "application/octet-stream" },
      token,
    });
    const using = await api.call("POST", "/v1/plugin-bindings", {
      body: { package_id: PACKAGE_ID, package_version: "2.0.0", export_id: "echo" },
      headers: other_project,
    });
    other_ids.push(using.json.binding_id);
    const responses = [];
    for (const id of [installed.id, own_package.json.id])
      responses.push(await api.call("DELETE", `/v1/plugin-packages/${id}`, { token }));
    expect(responses.map(({ json }) => json.error.code)).toEqual(["policy.denied", "package.bound"]);
    for (const list of ["plugin-bindings", "plugin-tools", "invocations", "approvals", "keys", "audit"])
      responses.push(await api.call("GET", `/v1/${list}`));
    for (const response of responses) for (const id of other_ids) expect(response.text).not.toContain(id);

    const invokeById = (binding_id: string) =>
      api.call("POST", "/v1/invocations", { body: { binding_id }, headers: { "x-request-id": "same" } });
    expect((await invokeById(binding_ids.echo!)).text).toBe((await invokeById("bind_none")).text);
    const unbound = await api.call("POST", "/v1/invocations", { body: { export_id: "echo" } });
    const unknown = await api.call("POST", "/v1/invocations", { body: { export_id: "nope" } });
    const maskIds = (text: string) => text.replace(/req_\w+/, "").replaceAll(/echo|nope/g, "EXPORT");
    expect(maskIds(unbound.text)).toBe(maskIds(unknown.text));

    // Everything still exists for its owner.
    expect(
      (await api.call("GET", `/v1/plugin-bindings/${binding_ids.echo}`, { headers: other_project })).json
        .status,
    ).toBe("active");
    expect(
      (await api.call("GET", `/v1/approvals/${call.json.approval_id}`, { headers: other_project })).json
        .status,
    ).toBe("pending");
  },
);

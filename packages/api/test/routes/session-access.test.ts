/** Access to sessions: the scopes that each route requires, and the ids that a caller may use. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { loadBundledPlugins } from "../support/bundled-plugins.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi, type TestResponse } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ plugins: await loadBundledPlugins("strategy-react", "llm-echo") });
  await run("ids-1", "/say hi");
});
afterAll(() => api.close());

const statusAndCode = ({ status, json }: TestResponse) => [status, json?.error?.code];
const run = (session_id: string, text: string) =>
  api.call("POST", "/v1/runs?wait=true", { body: { session_id, input: { text } } });

verifies(
  "bus.session-ids",
  "rejects session ids that are reserved for the kernel, bridges and sub-agents",
  async () => {
    const { json: session } = await api.call("GET", "/v1/sessions/ids-1");
    const input = { text: "x" };
    for (const id of [
      "kernel",
      "_bridge:web",
      "_bridge:",
      "ids-1::agent::1",
      "::agent::",
      " kernel",
      "a\u200bb",
    ]) {
      const part = encodeURIComponent(id);
      const responses = [
        api.call("POST", "/v1/sessions", { body: { session_id: id } }),
        api.call("PATCH", `/v1/sessions/${part}`, { body: { metadata: {} } }),
        api.call("POST", "/v1/sessions/ids-1:branch", { body: { child_id: id } }),
        api.call("POST", `/v1/sessions/${part}/messages`, { body: input }),
        api.call("POST", `/v1/sessions/${part}:interrupt`),
        api.call("POST", `/v1/sessions/${part}:reset`),
        api.call("POST", `/v1/sessions/${part}:handoff`, { body: { name: "n", state: {} } }),
        api.call("POST", `/v1/chains/${session.head_chain_id}:fork`, { body: { child_id: id } }),
        api.call("POST", "/v1/runs", { body: { session_id: id, input } }),
        api.call("POST", "/v1/invocations", { body: { export_id: "x", session_id: id } }),
      ];
      for (const response of await Promise.all(responses))
        expect(statusAndCode(response), id).toEqual([400, "request.invalid"]);
      // These routes only look a session up, so they may also respond that it does not exist.
      const lookups = [
        api.call("GET", `/v1/sessions/${part}/events`),
        api.call("POST", "/v1/chains", { body: { session_id: id } }),
        api.call("POST", "/v1/compactions", { body: { session_id: id } }),
        api.call("POST", `/v1/sessions/${part}:branch`),
      ];
      for (const response of await Promise.all(lookups)) expect([400, 404], id).toContain(response.status);
    }
    const sessions = (await api.call("GET", "/v1/sessions?limit=500")).json.items as { id: string }[];
    expect(sessions.filter(({ id }) => /^kernel$|_bridge|::agent::|[\s\u200b]/.test(id))).toEqual([]);
  },
);

verifies(
  "api.sessions",
  "responds to ids of another project with the same bytes as to unknown ids",
  async () => {
    const other_project = { "backplane-project": "proj_other", "x-request-id": "same" };
    const own_project = { "x-request-id": "same" };
    const other_run = await api.call("POST", "/v1/runs?wait=true", {
      body: { session_id: "theirs", input: { text: "/say secret words" } },
      headers: other_project,
    });
    const { id, chain_id } = other_run.json;
    const input = { text: "x" };
    const requests: [string, (id: string) => string, string, unknown?][] = [
      ["GET", (resource) => `/v1/sessions/${resource}`, "theirs"],
      ["PATCH", (resource) => `/v1/sessions/${resource}`, "theirs", { metadata: {} }],
      ["POST", (resource) => `/v1/sessions/${resource}:branch`, "theirs", {}],
      ["POST", (resource) => `/v1/sessions/${resource}:interrupt`, "theirs"],
      ["POST", (resource) => `/v1/sessions/${resource}:reset`, "theirs"],
      ["POST", (resource) => `/v1/sessions/${resource}:handoff`, "theirs", { name: "n", state: {} }],
      ["GET", (resource) => `/v1/sessions/${resource}/entries`, "theirs"],
      ["GET", (resource) => `/v1/sessions/${resource}/events`, "theirs"],
      ["GET", (resource) => `/v1/chains?session_id=${resource}`, "theirs"],
      ["GET", (resource) => `/v1/compactions?session_id=${resource}`, "theirs"],
      ["GET", (resource) => `/v1/chains/${resource}`, chain_id],
      ["POST", (resource) => `/v1/chains/${resource}:fork`, chain_id, {}],
      ["GET", (resource) => `/v1/chains/${resource}/blocks`, chain_id],
      ["POST", (resource) => `/v1/chains/${resource}/blocks`, chain_id, { blocks: [{ kind: "input" }] }],
      ["GET", (resource) => `/v1/chains/${resource}/runs`, chain_id],
      ["GET", (resource) => `/v1/chains/${resource}:verify`, chain_id],
      ["POST", (resource) => `/v1/compactions/${resource}:undo`, chain_id],
      ["GET", (resource) => `/v1/runs/${resource}`, id],
      ["GET", (resource) => `/v1/runs/${resource}/events`, id],
      ["POST", (resource) => `/v1/runs/${resource}:cancel`, id],
    ];
    for (const [method, path, resource, body] of requests) {
      const foreign = await api.call(method, path(resource), { body, headers: own_project });
      const missing = await api.call(method, path(resource.replace(/.{6}$/, "zzzzzz")), {
        body,
        headers: own_project,
      });
      expect([foreign.status, foreign.text], `${method} ${path("ID")}`).toEqual([404, missing.text]);
    }
    for (const key of ["chain_id", "from_chain_id"]) {
      const requestWith = (resource: string) =>
        key === "chain_id"
          ? api.call("POST", "/v1/runs", { body: { chain_id: resource, input }, headers: own_project })
          : api.call("POST", "/v1/chains", {
              body: { session_id: "ids-1", from_chain_id: resource },
              headers: own_project,
            });
      const unknown_id = chain_id.replace(/.{6}$/, "zzzzzz");
      expect((await requestWith(chain_id)).text).toBe((await requestWith(unknown_id)).text);
    }
    for (const list of ["sessions", "chains?session_id=ids-1"])
      expect((await api.call("GET", `/v1/${list}`)).text).not.toMatch(/theirs|secret words/);
    // The same name in this project is another session.
    expect((await api.call("POST", "/v1/sessions", { body: { session_id: "theirs" } })).status).toBe(201);
    expect((await api.call("GET", `/v1/runs/${id}`, { headers: other_project })).json.status).toBe(
      "completed",
    );
  },
);

test("rejects a key without the scope of the route, and write requests from a guest", async () => {
  const createKey = async (role: string, ...scopes: string[]) =>
    (await api.call("POST", "/v1/keys", { body: { name: "k", role, scopes } })).json.token as string;
  const reader = await createKey("user", "sessions:read");
  const guest = await createKey("guest", "sessions:read", "sessions:write");
  const unrelated = await createKey("user", "audit:read");
  const body = { session_id: "scopes", input: { text: "/say x" } };
  for (const token of [reader, guest, unrelated])
    expect((await api.call("POST", "/v1/runs", { body, token })).status).toBe(403);
  for (const path of ["sessions", "chains?session_id=ids-1", "compactions?session_id=ids-1"]) {
    expect((await api.call("GET", `/v1/${path}`, { token: reader })).status, path).toBe(200);
    const refused = await api.call("GET", `/v1/${path}`, { token: unrelated });
    expect(statusAndCode(refused)).toEqual([403, "auth.scope"]);
  }
});

test("limits a delegated token to the routes of its scope", async () => {
  const createDelegatedToken = async (version: string, ...scopes: string[]) => {
    const folder = writeSamplePackage(api.home, version, "", scopes, "idempotent_write");
    await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
    const bound = await api.call("POST", "/v1/plugin-bindings", {
      body: { package_id: PACKAGE_ID, package_version: version, export_id: "echo" },
    });
    const request_count = api.runner.requests.length;
    const { binding_id } = bound.json;
    await api.call("POST", "/v1/invocations", { body: { binding_id, input: { do: "wait" } } });
    await api.runner.started(request_count + 1);
    return { binding_id, token: api.runner.requests[request_count]!.context.gateway!.delegation_token };
  };
  const { json: session } = await api.call("GET", "/v1/sessions/ids-1");
  const chain = session.head_chain_id as string;
  const input = { text: "/say delegated" };
  const routes: [scope: string, method: string, path: string, body?: unknown][] = [
    ["sessions:read", "GET", "/v1/sessions/ids-1"],
    ["sessions:read", "GET", "/v1/sessions/ids-1/entries"],
    ["sessions:write", "PATCH", "/v1/sessions/ids-1", { metadata: { a: 1 } }],
    ["sessions:write", "POST", "/v1/sessions/ids-1:branch", {}],
    ["chains:read", "GET", `/v1/chains/${chain}/blocks`],
    ["chains:write", "POST", `/v1/chains/${chain}:fork`, {}],
    ["runs:read", "GET", `/v1/chains/${chain}/runs`],
    ["runs:write", "POST", "/v1/runs?wait=true", { session_id: "by-plugin", input }],
    ["compactions:read", "GET", "/v1/compactions?session_id=ids-1"],
  ];
  const scopes = [...new Set(routes.map(([scope]) => scope))];
  for (const [n, scope] of scopes.entries()) {
    const { binding_id, token } = await createDelegatedToken(`1.0.${n}`, scope);
    for (const [needs, method, path, body] of routes) {
      const { status } = await api.call(method, path, { body, token });
      if (needs === scope) expect(status, `${scope}: ${method} ${path}`).toBeLessThan(300);
      else expect(status, `${scope}: ${method} ${path}`).toBe(403);
    }
    // Otherwise the next version would change this binding, and a changed binding does not get new scopes.
    expect((await api.call("DELETE", `/v1/plugin-bindings/${binding_id}`)).status).toBe(204);
  }
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { PACKAGE_ID, writeSamplePackage } from "../support/sample-package.ts";
import { startApi, type TestApi } from "../support/start-api.ts";

let api: TestApi;
beforeAll(async () => {
  api = await startApi();
  const folder = writeSamplePackage(api.home);
  await api.call("POST", "/v1/plugin-packages", { body: { source: { folder } } });
  for (const export_id of ["echo", "ask"]) {
    const body = { package_id: PACKAGE_ID, package_version: "1.0.0", export_id };
    await api.call("POST", "/v1/plugin-bindings", { body });
  }
});
afterAll(() => api.close());

const explain = async (tool: string, more = "") =>
  (await api.call("GET", `/v1/policy:explain?tool=${tool}${more}`)).json;
const invoke = (export_id: string) => api.call("POST", "/v1/invocations?wait=5", { body: { export_id } });
const createKey = async (role: string, scopes: string[]) =>
  (await api.call("POST", "/v1/keys", { body: { name: role, role, scopes } })).json.token as string;

verifies(
  "api.policy",
  "reads, replaces and patches the policy, with effect from the next call and an audit entry",
  async () => {
    const fresh = await api.call("GET", "/v1/policy");
    expect([fresh.status, fresh.headers.etag, fresh.json.policy]).toEqual([200, '"0"', {}]);
    expect(fresh.json.effective.tolerance).toEqual({
      conversation: "low",
      background: "low",
      headless: "low",
    });
    expect((await invoke("echo")).json.status).toBe("succeeded");

    const set = { tolerance: { conversation: "full" }, allowed_origins: ["core"], host: { network: "none" } };
    const put = await api.call("PUT", "/v1/policy", { body: set, headers: { "if-match": '"0"' } });
    expect([put.status, put.headers.etag, put.json.policy]).toEqual([200, '"1"', set]);
    expect(put.json.effective).toMatchObject({ tolerance: { conversation: "full", headless: "low" } });
    const refused = await invoke("echo");
    expect([refused.status, refused.json.error.code, refused.json.error.details.rule]).toEqual([
      403,
      "policy.denied",
      "origin",
    ]);

    const open = { allowed_origins: null, allowed_tool_categories: ["coding"] };
    const patch = await api.call("PATCH", "/v1/policy", { body: open, headers: { "if-match": '"1"' } });
    expect(patch.json.policy).toEqual({
      ...set,
      allowed_tool_categories: ["coding"],
      allowed_origins: undefined,
    });
    expect((await invoke("echo")).json.error.details.rule).toBe("category");

    const roles = { owner: { deny: { tools: ["ech*"] } } };
    await api.call("PATCH", "/v1/policy", { body: { allowed_tool_categories: null, roles } });
    expect((await invoke("echo")).json.error.details.rule).toBe("role");
    const last = await api.call("PUT", "/v1/policy", { body: {} });
    expect(last.json.generation).toBe(4);
    expect((await invoke("echo")).json.status).toBe("succeeded");

    const { items } = (await api.call("GET", "/v1/audit?action=policy.set")).json;
    expect(items).toHaveLength(4);
    expect(items.at(-1)).toMatchObject({
      actor: "admin",
      subject: "policy/org",
      details: { generation: 1, changed: { allowed_origins: { from: null, to: ["core"] } } },
    });
  },
);

test("rejects a write with a stale ETag and an invalid policy", async () => {
  const { generation } = (await api.call("GET", "/v1/policy")).json;
  const stale = { "if-match": `"${generation + 7}"` };
  expect((await api.call("PUT", "/v1/policy", { body: {}, headers: stale })).status).toBe(412);
  expect(
    (await api.call("PATCH", "/v1/policy", { body: {}, headers: { "if-match": '"x", "y"' } })).status,
  ).toBe(412);
  const known = { "if-none-match": `"${generation}"` };
  expect((await api.call("GET", "/v1/policy", { headers: known })).status).toBe(304);
  for (const body of [
    { tolerance: { conversation: "all" } },
    { allowed_origins: ["moon"] },
    { roles: { king: {} } },
    { rules: [{ action: "allow" }] },
    { rules: [{ action: "deny", when: [{ pointer: "/a", matches: "(?=x)" }] }] },
    { rules: [{ action: "deny", when: [{ pointer: "a", exists: true }] }] },
    { surprise: 1 },
  ]) {
    const response = await api.call("PUT", "/v1/policy", { body });
    expect([response.status, response.json.error.code], JSON.stringify(body)).toEqual([
      400,
      "request.invalid",
    ]);
  }
  expect((await api.call("GET", "/v1/policy")).json.generation).toBe(generation);
});

test("lets project admins write only their project's policy, users only read it, and guests do neither", async () => {
  const scopes = ["policy:read", "policy:write"];
  const user = await createKey("user", scopes);
  expect((await api.call("GET", "/v1/policy", { token: user })).status).toBe(200);
  for (const level of ["org", "project"])
    expect((await api.call("PUT", `/v1/policy?level=${level}`, { token: user, body: {} })).status).toBe(403);
  const guest = await createKey("guest", ["policy:read"]);
  expect((await api.call("GET", "/v1/policy", { token: guest })).status).toBe(403);
  const reader = await createKey("admin", ["policy:read"]);
  expect((await api.call("PUT", "/v1/policy", { token: reader, body: {} })).json.error.code).toBe(
    "auth.scope",
  );
  const admin = await createKey("admin", scopes);
  expect((await api.call("PUT", "/v1/policy", { token: admin, body: {} })).status).toBe(403);
  const body = { tolerance: { conversation: "none" } };
  const project_policy = await api.call("PUT", "/v1/policy?level=project", { token: admin, body });
  expect([project_policy.status, project_policy.json.project_id]).toEqual([200, "proj_default"]);
  expect(await explain("echo")).toMatchObject({ outcome: "ask", decided_by: "risk", tolerance: "none" });
  await api.call("PUT", "/v1/policy?level=project", { body: {} });
});

test("explains the deciding rule and the source of the risk, and lists the other rules", async () => {
  const run = await explain("echo");
  expect(run).toMatchObject({
    outcome: "run",
    decided_by: null,
    risk: "low",
    risk_sources: [{ source: "effect_class", risk: "low" }],
    winner: { name: "echo", origin: "plugin", package_id: PACKAGE_ID, status: "offered" },
    losers: [],
  });
  const ask = await explain("ask");
  expect(ask).toMatchObject({ outcome: "ask", decided_by: "approval", context: "conversation" });
  expect(ask.steps.map(({ rule }: { rule: string }) => rule)).toContain("risk");
  expect(await explain("ask", "&context=headless")).toMatchObject({
    outcome: "deny",
    decided_by: "approval",
  });
  expect(await explain("echo", `&input=${encodeURIComponent('{"text":1}')}`)).toMatchObject({
    outcome: "deny",
    decided_by: "input",
  });
  for (const [input, reason] of [
    ["{", "input is not valid JSON"],
    ["", "input is empty"],
    ['{"__proto__":1}', "input contains a key named __proto__"],
  ] as const) {
    const refused = await api.call("GET", `/v1/policy:explain?tool=echo&input=${encodeURIComponent(input)}`);
    expect([refused.status, refused.json.error.message]).toEqual([400, expect.stringContaining(reason)]);
  }
  const none = await api.call("GET", "/v1/policy:explain?tool=nothing");
  expect([none.status, none.json.error.code]).toEqual([404, "tool.not_found"]);
});

test("lists the catalog with origin, risk and cost, and hidden tools with the reason", async () => {
  const { items } = (await api.call("GET", "/v1/catalog")).json;
  const core_tools = ["plugin_install", "plugin_unload", "plugins_list"];
  expect(items.map(({ name }: { name: string }) => name)).toEqual(["ask", "echo", ...core_tools]);
  expect(items[1]).toMatchObject({ origin: "plugin", risk: "low", status: "offered", reason: null });
  expect(items[1].token_cost).toBeGreaterThan(10);
  await api.call("PATCH", "/v1/policy", { body: { roles: { owner: { deny: { tools: ["ask"] } } } } });
  const listNames = async (query: string) =>
    (await api.call("GET", `/v1/catalog${query}`)).json.items.map(
      (item: { name: string; status: string }) => `${item.name} ${item.status}`,
    );
  const offered_core_tools = core_tools.map((name) => `${name} offered`);
  expect(await listNames("")).toEqual(["echo offered", ...offered_core_tools]);
  expect(await listNames("?all=1")).toEqual([
    "ask hidden",
    "echo offered",
    "harness_action hidden",
    "model_sampling hidden",
    ...offered_core_tools,
    "server_request hidden",
    "tool_search hidden",
  ]);
  const [hidden] = (await api.call("GET", "/v1/catalog/ask")).json.items;
  expect(hidden.reason).toContain("the tool is denied");
  expect((await api.call("GET", "/v1/catalog/none")).json.error.code).toBe("tool.not_found");
  await api.call("PUT", "/v1/policy", { body: {} });
});

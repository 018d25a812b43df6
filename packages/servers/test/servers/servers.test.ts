import { BackplaneError, type Json, type JsonObject, type Policy } from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import type { Runner, ServerRequestListener } from "@backplane/ports";
import { ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, guest, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { WEATHER_SERVER } from "@backplane/test-kit/kernel/weather-server";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const TOOL = ToolExportSchema.parse({
  id: "mcp_weather_today",
  kind: "tool",
  permissions: WEATHER_SERVER.runtime.permissions,
  tool: { effect_class: "read_only", native_name: "today" },
});
const BINDING = { secrets: { api_key: "secret://org_local/weather" } };

async function createServerKernel(request: NonNullable<Runner["request"]>) {
  const runner = Object.assign(new ScriptedRunner(), { request });
  runner.description = () => ({
    exports: [TOOL],
    schemas: {},
    warnings: [],
    info: { capabilities: { resources: {} }, instructions: "Ask for a city." },
  });
  const fixture = await createTestKernel({ runner });
  await fixture.kernel.secrets.put(admin, "weather", "hunter2-hunter2");
  return fixture;
}

function createListener() {
  const events: JsonObject[] = [];
  const requests: JsonObject[] = [];
  const listener: ServerRequestListener = {
    notify: (method, params) => void events.push({ method, params }),
    answerRequest: (method, params, key) => {
      requests.push({ method, params, key: key ?? null });
      return method === "roots/list" ? Promise.resolve({ roots: [] }) : null;
    },
  };
  return { ...listener, events, requests };
}

test("lists a server for callers who see its binding, but not for delegated tokens", async () => {
  const fixture = await createServerKernel(async () => ({}));
  const { servers } = fixture.kernel;
  expect(await servers.list(user)).toEqual([]);
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  const listed = await servers.list(user);
  expect(listed).toEqual([
    {
      name: "weather",
      binding_id,
      package_id: "acme/weather",
      capabilities: { resources: {} },
      instructions: "Ask for a city.",
      tools: [{ name: "today", export_id: "mcp_weather_today" }],
    },
  ]);
  expect(await servers.list(user)).toBe(listed);
  const other_caller = { ...user, scope: { ...user.scope, project_id: "proj_other" } };
  expect(await servers.list(other_caller)).toEqual([]);
  await expect(
    servers.request(other_caller, binding_id, "resources/list", {}, createListener()),
  ).rejects.toMatchObject({
    code: "binding.not_found",
  });
  const plugin = { ...user, delegation: { grant: { tools: [] } } as never };
  expect(await servers.list(plugin)).toEqual([]);
  await expect(
    servers.request(plugin, binding_id, "resources/list", {}, createListener()),
  ).rejects.toMatchObject({
    code: "binding.not_found",
  });
});

test("sends a request to the process that runs the server's tools and redacts secrets in the answer", async () => {
  const requests: { pool_key: string }[] = [];
  const fixture = await createServerKernel(async (request, listener) => {
    requests.push(request);
    listener.notify("notifications/message", { data: "key hunter2-hunter2" });
    const roots = await listener.answerRequest("roots/list", { why: "hunter2-hunter2" }, "mine");
    const form = await listener.answerRequest("elicitation/create", {});
    return { contents: [{ text: "it is hunter2-hunter2" }], roots, form };
  });
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  const received = createListener();
  const answer = await fixture.kernel.servers.request(
    user,
    binding_id,
    "resources/read",
    { uri: "w://now" },
    received,
  );
  expect(JSON.stringify([answer, received.events, received.requests])).not.toContain("hunter2");
  expect(answer).toMatchObject({ roots: { roots: [] }, form: { action: "decline" } });
  expect(received.requests[0]).toMatchObject({ method: "roots/list", key: "mine" });
  await fixture.call({ export_id: "mcp_weather_today", input: {} });
  expect(requests[0]!.pool_key).toBe(fixture.runner.requests[0]!.pool_key);
});

test("audits reads but not lists", async () => {
  const fixture = await createServerKernel(async () => ({}));
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  const { servers, audit } = fixture.kernel;
  await servers.request(user, binding_id, "resources/list", {}, createListener());
  await servers.request(user, binding_id, "resources/read", { uri: "w://now" }, createListener());
  const { items } = await audit.list(admin, { action: "server.request" }, { limit: 10 });
  expect(items).toMatchObject([
    { actor: user.actor, subject: binding_id, details: { method: "resources/read", uri: "w://now" } },
  ]);
});

test("forwards a server's requests during a call only to the caller", async () => {
  const fixture = await createServerKernel(async () => ({}));
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  const body = { binding_id, export_id: "mcp_weather_today", input: {} };
  const results: unknown[] = [];
  fixture.runner.script = async ({ answerRequest }) => {
    if (answerRequest === undefined) results.push("nobody");
    else {
      results.push(await answerRequest("elicitation/create", { message: "Who? hunter2-hunter2" }));
      results.push(
        await answerRequest("sampling/createMessage", {}).catch((error: BackplaneError) => error.code),
      );
    }
    return ok();
  };
  const ticket = await fixture.kernel.invocations.invoke(user, body, {
    answerRequest: (method, params) =>
      method === "elicitation/create" ? Promise.resolve({ action: "accept", content: params }) : null,
  });
  await ticket.settled;
  expect(results).toEqual([
    { action: "accept", content: { message: expect.not.stringContaining("hunter2") } },
    "policy.denied",
  ]);
  await fixture.call(body);
  expect(results.at(-1)).toBe("nobody");
});

test("hides a server and its resources when the policy allows no tools from MCP servers", async () => {
  const fixture = await createServerKernel(async () => ({ contents: [] }));
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  const { policy, servers } = fixture.kernel;
  const read = () =>
    servers.request(user, binding_id, "resources/read", { uri: "w://now" }, createListener()).then(
      () => "read",
      (error: BackplaneError) => error.code,
    );
  expect(await read()).toBe("read");
  for (const document of [
    { allowed_origins: ["core", "plugin"] },
    { roles: { user: { deny: { origins: ["mcp"] } } } },
    { roles: { user: { allow: { origins: ["plugin"] } } } },
  ] as Policy[]) {
    await policy.put(admin, "org", document);
    expect(await servers.list(user)).toEqual([]);
    expect(await read()).toBe("binding.not_found");
  }
  await policy.put(admin, "org", { roles: { guest: { deny: { origins: ["mcp"] } } } });
  expect(await read()).toBe("read");
});

verifies(
  "mcp.server",
  "applies the tool policy to resources: roles, names, categories, risk, approval and security rules",
  async () => {
    const fixture = await createServerKernel(async () => ({ contents: [] }));
    const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
    const { policy, servers, audit } = fixture.kernel;
    const read = (caller = guest, method = "resources/read") =>
      servers.request(caller, binding_id, method, { uri: "w://now" }, createListener()).then(
        () => "read",
        (error: BackplaneError) => `${error.code} ${(error.details as { rule?: string }).rule}`,
      );
    const listCapabilities = async (caller = guest) =>
      (await servers.list(caller)).flatMap(({ capabilities }) => Object.keys(capabilities));
    expect([await read(), await listCapabilities()]).toEqual(["read", ["resources"]]);

    const cases: [Policy, string][] = [
      [{ roles: { guest: { deny: { tools: ["mcp_weather_*"] } } } }, "policy.denied role"],
      [
        { roles: { guest: { allow: { tools: ["*"] }, deny: { tools: ["mcp_*_resources"] } } } },
        "policy.denied role",
      ],
      [{ roles: { guest: { allow: { tools: ["mcp_weather_prompts"] } } } }, "policy.denied role"],
      [{ roles: { guest: { allow: { categories: ["coding"] } } } }, "policy.denied role"],
      [
        { roles: { guest: { max_risk: "low" } }, risks: { mcp_weather_resources: "medium" } },
        "policy.denied role",
      ],
      [{ allowed_tool_categories: ["coding"] }, "policy.denied category"],
    ];
    for (const [document, expected] of cases) {
      await policy.put(admin, "org", document);
      expect([await read(), await listCapabilities()]).toEqual([expected, []]);
      // A subscription is checked before it is sent.
      const check = servers.check(guest, binding_id, "resources/subscribe", { uri: "w://now" });
      await expect(check).rejects.toMatchObject({ code: "policy.denied" });
    }
    await policy.put(admin, "org", { roles: { guest: { deny: { tools: ["mcp_weather_*"] } } } });
    expect([await read(user), await listCapabilities(user)]).toEqual(["read", ["resources"]]);
    const role_explanation = await policy.explain(admin, {
      tool: "mcp_weather_resources",
      context: "conversation",
      role: "guest",
    });
    expect(role_explanation).toMatchObject({
      outcome: "deny",
      decided_by: "role",
      risk: "low",
      winner: { origin: "mcp", binding_id, status: "hidden" },
    });

    // A policy that requires approval applies to reads. Resources are still listed, and requests for which no client
    // waits are refused.
    await policy.put(admin, "org", { tolerance: { conversation: "none" } });
    expect(await listCapabilities(user)).toEqual(["resources"]);
    expect(await read(user, "resources/list")).toBe("read");
    expect(await read(user, "resources/subscribe")).toBe("policy.denied risk");
    const risk_explanation = await policy.explain(admin, {
      tool: "mcp_weather_resources",
      context: "conversation",
    });
    expect(risk_explanation).toMatchObject({ outcome: "ask", decided_by: "risk" });
    const rule = {
      action: "deny" as const,
      when: [{ pointer: "/uri", matches: "^w://" }],
      reason: "no weather",
    };
    await policy.put(admin, "org", { rules: [rule] });
    expect(await read(user)).toBe("policy.denied security");
    expect(await read(user, "logging/setLevel")).toBe("read");
    const { items } = await audit.list(admin, { action: "server.request" }, { limit: 50 });
    expect(items[0]).toMatchObject({
      details: { uri: "w://now", refused: expect.stringContaining("no weather") },
    });
  },
);

test("applies the policy's host level to server requests and descriptions", async () => {
  const requests: { grant: { network: string }; pool_key: string }[] = [];
  const fixture = await createServerKernel(async (request) => {
    requests.push(request);
    return {};
  });
  const network = { network: "egress" as const, allowed_domains: ["a.example"] };
  const permissions = { ...WEATHER_SERVER.runtime.permissions!, ...network };
  const online = { ...WEATHER_SERVER, runtime: { ...WEATHER_SERVER.runtime, permissions } };
  const { binding_id } = await fixture.bind(online, BINDING);
  expect(fixture.runner.describe_requests[0]!.grant.network).toBe("egress");
  await fixture.kernel.policy.put(admin, "org", { host: { network: "none" } });
  await fixture.kernel.servers.request(
    user,
    binding_id,
    "resources/read",
    { uri: "w://now" },
    createListener(),
  );
  await fixture.kernel.definitions.refresh(admin, binding_id);
  await fixture.call({ export_id: "mcp_weather_today", input: {} });
  const process_requests = [
    requests[0]!,
    fixture.runner.describe_requests.at(-1)!,
    fixture.runner.requests[0]!,
  ];
  expect(process_requests.map(({ grant }) => grant.network)).toEqual(["none", "none", "none"]);
  expect(new Set(process_requests.map(({ pool_key }) => pool_key)).size).toBe(1);
});

test("lists servers in the order of their bindings, not of their names", async () => {
  const fixture = await createServerKernel(async () => ({}));
  await fixture.bind(WEATHER_SERVER, BINDING);
  await fixture.bind({ ...WEATHER_SERVER, package_id: "evil/aaa" }, BINDING);
  expect((await fixture.kernel.servers.list(user)).map(({ name }) => name)).toEqual(["weather", "aaa"]);
});

async function createKernelWithApprovals(
  answer: () => Json = () => ({ contents: [{ uri: "w://now", text: "rain, hunter2-hunter2" }] }),
) {
  const received: string[] = [];
  const fixture = await createServerKernel(async ({ method }) => {
    received.push(method);
    return answer();
  });
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  await fixture.kernel.policy.put(admin, "org", { risks: { "mcp_weather_*": "high" } });
  const listPending = async () =>
    (await fixture.kernel.approvals.list(admin, { status: "pending" }, { limit: 5 })).items;
  const waitForApproval = async () => {
    await until(async () => (await listPending()).length === 1);
    return (await listPending())[0]!;
  };
  const read = (listener: ServerRequestListener = createListener(), method = "resources/read") =>
    fixture.kernel.servers.request(user, binding_id, method, { uri: "w://now" }, listener);
  const listRecorded = async () =>
    (await fixture.kernel.invocations.list(admin, { export_id: "server_request" }, { limit: 5 })).items;
  const listAudited = async () =>
    (await fixture.kernel.audit.list(admin, { action: "server.request" }, { limit: 5 })).items;
  return { fixture, received, binding_id, listPending, waitForApproval, read, listRecorded, listAudited };
}

verifies(
  "mcp.server",
  "reads a resource that needs approval only after the approval, and records the request",
  async () => {
    const { fixture, received, binding_id, waitForApproval, read, listRecorded, listAudited } =
      await createKernelWithApprovals();
    const waiting: unknown[] = [];
    const reading = read({ ...createListener(), waiting: (call) => void waiting.push(call) });
    const approval = await waitForApproval();
    expect(approval).toMatchObject({
      tool: "server_request",
      input: {
        asked: { method: "resources/read", uri: "w://now" },
        for_binding: binding_id,
        server: "acme/weather",
        why: "its risk is high, and conversation calls tolerate low",
      },
    });
    expect(approval.brief).toContain("w://now");
    expect([received, await listAudited()]).toEqual([[], []]);
    await fixture.kernel.approvals.answer(admin, approval.id, { response: "approve" });
    expect(await reading).toEqual({ contents: [{ uri: "w://now", text: "rain, [redacted]" }] });
    expect(received).toEqual(["resources/read"]);
    const [row] = await listRecorded();
    expect(row).toMatchObject({ status: "succeeded", requested_by: user.actor, approval_id: approval.id });
    expect(waiting).toEqual([{ id: row!.id, approval_id: approval.id }]);
    // The content is not recorded, as for any resource.
    expect(JSON.stringify(row)).not.toContain("rain");
    expect(await listAudited()).toMatchObject([{ details: { method: "resources/read", uri: "w://now" } }]);
    const again = read();
    again.catch(() => undefined);
    expect((await waitForApproval()).id, "each read needs its own approval").not.toBe(approval.id);
  },
);

test("returns a rejection to the client and sends nothing to the server", async () => {
  const { fixture, received, waitForApproval, read, listAudited } = await createKernelWithApprovals();
  const reading = read();
  reading.catch(() => undefined);
  const { id } = await waitForApproval();
  await fixture.kernel.approvals.answer(admin, id, { response: "reject", feedback: "not today" });
  await expect(reading).rejects.toMatchObject({ code: "approval.rejected", message: "not today" });
  expect(received).toEqual([]);
  expect(await listAudited()).toMatchObject([{ details: { uri: "w://now", refused: "not today" } }]);
});

test("cancels the approval when the client disconnects, and returns the server's error after an approval", async () => {
  const { fixture, received, waitForApproval, listPending, read, listRecorded } =
    await createKernelWithApprovals(() => {
      throw new BackplaneError("plugin_failed", "no such weather", { details: { rpc_code: -32002 } });
    });
  const disconnect = new AbortController();
  const reading = read({ ...createListener(), signal: disconnect.signal });
  reading.catch(() => undefined);
  await waitForApproval();
  disconnect.abort();
  await expect(reading).rejects.toMatchObject({ code: "cancelled" });
  expect([await listPending(), received]).toEqual([[], []]);
  expect((await listRecorded())[0]).toMatchObject({ status: "cancelled" });
  const second_read = read();
  second_read.catch(() => undefined);
  await fixture.kernel.approvals.answer(admin, (await waitForApproval()).id, { response: "approve" });
  await expect(second_read).rejects.toMatchObject({
    message: "no such weather",
    details: { rpc_code: -32002 },
  });
  expect((await listRecorded())[0]).toMatchObject({ tool_result: { is_error: true } });
});

test("refuses direct calls to server_request, and roles that may not use it", async () => {
  const { fixture, received, binding_id, read } = await createKernelWithApprovals();
  const [entry] = await fixture.kernel.catalog.get(admin, "server_request");
  expect(entry).toMatchObject({ status: "hidden", origin: "core" });
  const asked = { method: "resources/read", uri: "w://now" };
  const input = { request_id: "x", asked, for_binding: binding_id, server: "acme/weather", why: "" };
  const ticket = await fixture.kernel.invocations.invoke(admin, {
    binding_id: "bind_core_server_request",
    input,
  });
  await fixture.kernel.approvals.answer(admin, ticket.invocation.approval_id!, { response: "approve" });
  expect(await ticket.settled).toMatchObject({ tool_result: { is_error: true } });
  await fixture.kernel.policy.put(admin, "org", {
    risks: { "mcp_weather_*": "high" },
    roles: { user: { deny: { tools: ["server_request"] } } },
  });
  await expect(read()).rejects.toMatchObject({ code: "policy.denied" });
  expect(received).toEqual([]);
});

test("checks the policy again after the approval and reads nothing that is no longer allowed", async () => {
  const { fixture, received, waitForApproval, read } = await createKernelWithApprovals();
  const reading = read();
  reading.catch(() => undefined);
  const { id } = await waitForApproval();
  await fixture.kernel.policy.put(admin, "org", { roles: { user: { deny: { tools: ["mcp_weather_*"] } } } });
  await fixture.kernel.approvals.answer(admin, id, { response: "approve" });
  await expect(reading).rejects.toMatchObject({ code: "policy.denied", details: { rule: "role" } });
  expect(received).toEqual([]);
});

test("explains that reading a resource needs approval although an allow rule covers the server", async () => {
  const { fixture, waitForApproval, read } = await createKernelWithApprovals();
  const { allow_rules, policy } = fixture.kernel;
  await allow_rules.create(admin, { server: "weather", identity: null });
  const explainTool = (tool: string) => policy.explain(admin, { tool, context: "conversation" });
  expect(await explainTool("mcp_weather_today")).toMatchObject({ outcome: "run" });
  expect(await explainTool("mcp_weather_resources")).toMatchObject({
    outcome: "ask",
    decided_by: "risk",
    allowed_by: null,
  });
  const reading = read();
  reading.catch(() => undefined);
  const { id } = await waitForApproval();
  await fixture.kernel.approvals.answer(admin, id, { response: "reject" });
  await expect(reading).rejects.toMatchObject({ code: "approval.rejected" });
});

type Change = (
  fixture: Awaited<ReturnType<typeof createServerKernel>>,
  binding_id: string,
) => Promise<unknown>;
const CHANGES: [label: string, changed: string[], change: Change][] = [
  [
    "the config",
    ["config.args"],
    (fixture, id) =>
      fixture.kernel.bindings.patch(admin, id, { config: { args: ["--elsewhere"] } }, undefined),
  ],
  [
    "a secret",
    ["secret.api_key"],
    (fixture) => fixture.kernel.secrets.put(admin, "weather", "another-another"),
  ],
  [
    "the package",
    ["package_digest", "package_version"],
    async (fixture, id) => {
      await fixture.kernel.packages.install(
        admin,
        fixture.importer.add({ ...WEATHER_SERVER, version: "9.0.0" }),
      );
      await fixture.kernel.bindings.patch(admin, id, { package_version: "9.0.0" }, undefined);
    },
  ],
];

for (const [label, changed, change] of CHANGES) {
  verifies(
    "approval.digest",
    `does not read a resource if ${label} of its server changed after the approval was requested`,
    async () => {
      const { fixture, received, binding_id, waitForApproval, read, listAudited } =
        await createKernelWithApprovals();
      const reading = read();
      reading.catch(() => undefined);
      const { id } = await waitForApproval();
      await change(fixture, binding_id);
      await fixture.kernel.approvals.answer(admin, id, { response: "approve" });
      await expect(reading).rejects.toMatchObject({ code: "approval.changed", details: { changed } });
      expect(received).toEqual([]);
      const refused = expect.stringContaining(`after its approval was requested: ${changed.join(", ")}.`);
      expect(await listAudited()).toMatchObject([{ details: { uri: "w://now", refused } }]);
    },
  );
}

test("cancels the request to the server when the client cancels it", async () => {
  const received = Promise.withResolvers<AbortSignal | undefined>();
  const fixture = await createServerKernel((_request, _listener, operation) => {
    received.resolve(operation?.signal);
    return new Promise((_, reject) => {
      operation?.signal.addEventListener("abort", () => reject(new BackplaneError("request.cancelled")));
    });
  });
  const { binding_id } = await fixture.bind(WEATHER_SERVER, BINDING);
  const stop = new AbortController();
  const listener = { ...createListener(), signal: stop.signal };
  const params = { uri: "w://now" };
  const reading = fixture.kernel.servers.request(user, binding_id, "resources/read", params, listener);
  const signal = await received.promise;
  expect(signal?.aborted).toBe(false);
  stop.abort();
  await expect(reading).rejects.toMatchObject({ code: "request.cancelled" });
});

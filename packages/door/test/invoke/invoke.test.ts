import { codeOf, type InvokeBody } from "@backplane/contract";
import { InvocationSchema } from "@backplane/contract/schema";
import type { Caller, InvocationRow } from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, guest, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../../../agent/test/loop/test-session.ts";

verifies(
  "inv.record",
  "writes every call to disk before dispatch, settles it once and records refusals",
  async () => {
    const fixture = await createTestSession();
    const schemas = { "in.json": { type: "object", required: ["query"] } };
    const binding = await fixture.bind(
      manifest([toolExport("search", {}, { input_schema: "in.json" })]),
      {},
      schemas,
    );
    let row_at_dispatch: InvocationRow | null = null;
    fixture.runner.script = async ({ request }) => {
      row_at_dispatch = await fixture.store.invocations.get(scope, request.invocation_id);
      return ok();
    };
    const run = await fixture.say("/say hi", "sess_1");
    const ids = { session_id: "sess_1", chain_id: run.chain_id, run_id: run.id, trace_id: "tr_1" };
    const session_caller: Caller = { ...user, scopes: ["sessions:write"] };
    const ticket = await fixture.kernel.invocations.invoke(session_caller, {
      export_id: "search",
      input: { query: "x" },
      ...ids,
    });
    const settled = await ticket.settled;
    expect(row_at_dispatch).toMatchObject({ id: ticket.id, status: "running", ended_at: null });
    expect(InvocationSchema.parse(settled)).toEqual(settled);
    expect(settled).toMatchObject({
      id: expect.stringMatching(/^inv_/),
      export_kind: "tool",
      export_id: "search",
      binding_id: binding.binding_id,
      package_id: "acme/devkit",
      package_version: "0.1.0",
      class: "isolated",
      status: "succeeded",
      retry_count: 0,
      org_id: "org_local",
      project_id: "proj_default",
      ...ids,
      execution_id: expect.stringMatching(/^toolx_/),
      grant: { class: "isolated", network: "none", filesystem: "none" },
      error: null,
      started_at: expect.any(String),
      ended_at: expect.any(String),
    });
    expect(await fixture.kernel.invocations.get(user, ticket.id)).toEqual(settled);
    // The call is settled once; a second settlement changes nothing.
    const end = { status: "failed" as const, result: null, tool_result: null, error: null, retry_count: 0 };
    const again = {
      ...end,
      violations: 0,
      stderr_tail: null,
      egress: null,
      started_at: null,
      ended_at: settled.ended_at!,
    };
    expect(await fixture.store.invocations.settle(ticket.id, 0, again, {})).toBe(false);
    await expect(fixture.kernel.invocations.cancel(user, ticket.id)).rejects.toMatchObject({
      code: "invocation.settled",
    });
    // A refusal is recorded, and its error contains the id of the row.
    const plugin: Caller = {
      ...user,
      delegation: { invocation_id: "inv_p", scopes: [], grant: settled.grant! },
    };
    const refusals: [Caller, object, string][] = [
      [user, {}, "input.invalid"],
      [plugin, { query: "x" }, "policy.denied"],
    ];
    for (const [caller, input, code] of refusals) {
      const body = { export_id: "search", input } as InvokeBody;
      const refused = await fixture.kernel.invocations.invoke(caller, body).then(
        () => null,
        (error: { code: string; details: { invocation_id: string } }) => error,
      );
      expect(refused?.code).toBe(code);
      const row = await fixture.kernel.invocations.get(user, refused!.details.invocation_id);
      expect(row).toMatchObject({ status: "failed", error: { code }, grant: null, started_at: null });
      expect(row.ended_at).toBe(row.created_at);
    }
    expect(fixture.runner.requests).toHaveLength(1);
    // A plugin's failure is recorded with its code.
    fixture.runner.script = () => ended("failed", "crashed", { stderr_tail: "boom" });
    const crashed = await fixture.call({ export_id: "search", input: { query: "x" } });
    expect(crashed).toMatchObject({ status: "failed", error: { code: "crashed" }, stderr_tail: "boom" });
    // A call that resolves to no binding leaves no row.
    const count = (await fixture.kernel.invocations.list(user, {}, { limit: 100 })).items.length;
    await expect(fixture.call({ export_id: "nothing" })).rejects.toMatchObject({ code: "export.not_found" });
    await expect(fixture.call({ binding_id: "bind_nothing" })).rejects.toMatchObject({
      code: "binding.not_found",
    });
    expect((await fixture.kernel.invocations.list(user, {}, { limit: 100 })).items).toHaveLength(count);
  },
);

test("records each refusal with the name of the rule", async () => {
  const fixture = await createTestKernel();
  const content = manifest([
    toolExport("write", {}, { effect_class: "unknown" }),
    toolExport("read"),
    hookExport("notify", ["invocation.settled"]),
  ]);
  const write = await fixture.bind(content);
  // A binding that was stored by an older gateway, which did not check the class of a program.
  const read = await fixture.bind(content, { export_id: "read" });
  const older = { ...read, policy: { class: "inline" as const }, generation: read.generation + 1 };
  await fixture.store.bindings.update(older, read.generation, {});
  await fixture.bind(content, { export_id: "notify", status: "disabled" });
  const catchRefusal = async (body: object, caller: Caller) =>
    await fixture.call(body, caller).then(
      () => null,
      (error: { code: string; details: { rule: string; invocation_id: string }; fix: string }) => error,
    );
  const grant = { ...(await fixture.call({ export_id: "write" })).grant!, tools: ["read"] };
  const delegated = (scopes: "tools:invoke"[], tools: string[] | null): Caller => ({
    ...user,
    actor: "inv_parent",
    delegation: { invocation_id: "inv_parent", scopes, grant: { ...grant, tools } },
  });
  const cases: [object, Caller, string, string][] = [
    [{ export_id: "write" }, guest, "policy.denied", "role"],
    [{ export_id: "write" }, delegated([], null), "policy.denied", "delegation"],
    [{ export_id: "write" }, delegated(["tools:invoke"], ["read"]), "policy.denied", "delegation"],
    [{ export_id: "read" }, user, "class.unsupported", "class"],
  ];
  for (const [body, caller, code, rule] of cases) {
    const refused = await catchRefusal(body, caller);
    expect(refused).toMatchObject({ code, details: { rule } });
    const row = await fixture.kernel.invocations.get(user, refused!.details.invocation_id);
    expect(row).toMatchObject({
      status: "failed",
      error: { code, details: { rule } },
      requested_by: caller.actor,
    });
  }
  await fixture.kernel.bindings.patch(admin, write.binding_id, { status: "disabled" }, undefined);
  expect(await catchRefusal({ export_id: "write" }, user)).toMatchObject({
    code: "export.not_found",
    message: `write is bound by ${write.binding_id}, which is disabled.`,
    fix: `backplane binding enable ${write.binding_id}`,
  });
  await fixture.kernel.bindings.patch(admin, write.binding_id, { status: "active" }, undefined);
  fixture.runner.sandbox = { enabled: false, available: false, reason: "no sandbox here" };
  fixture.clock.monotonic = () => performance.now() + 10_000;
  const unsafe = await catchRefusal({ export_id: "write" }, user);
  expect(unsafe?.code).toBe("sandbox.unavailable");
  expect(unsafe?.fix).toContain(write.binding_id);
});

test("runs a worker without a sandbox only if the operator disabled the sandbox", async () => {
  const fixture = await createTestKernel();
  const bound = await fixture.bind(manifest([toolExport("echo")]), { policy: { class: "worker" } });
  expect(bound.class_lowered_by).not.toBeNull();
  fixture.runner.sandbox = { enabled: true, available: false, reason: "user namespaces are refused" };
  const refused = await fixture.call({ export_id: "echo" }, user).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    code: "sandbox.unavailable",
    message: expect.stringContaining("user namespaces are refused"),
    fix: expect.stringContaining("doctor"),
  });
  fixture.runner.sandbox = { enabled: false, available: false, reason: "switched off" };
  fixture.clock.monotonic = () => performance.now() + 10_000;
  expect(await fixture.call({ export_id: "echo" }, user)).toMatchObject({ status: "succeeded" });
});

test.each(["kernel", "_bridge:web", "sess_1::agent::ab12", "kernel\u200b"])(
  "rejects the reserved session id %j from a client",
  async (session_id) => {
    const fixture = await createTestKernel();
    await fixture.bind(manifest([toolExport("echo")]));
    const refused = await fixture.kernel.invocations
      .invoke(admin, { export_id: "echo", session_id })
      .catch(codeOf);
    expect(refused).toBe("request.invalid");
  },
);

test("rejects calls when the gateway is overloaded, before it writes anything", async () => {
  const fixture = await createTestKernel({ host: { max_running: 2 } });
  await fixture.bind(manifest([toolExport("slow")]));
  fixture.runner.script = async ({ cancelled }) => ended("cancelled", await cancelled);
  const first = await fixture.kernel.invocations.invoke(user, { export_id: "slow" });
  const second = await fixture.kernel.invocations.invoke(user, { export_id: "slow" });
  const third = await fixture.kernel.invocations.invoke(user, { export_id: "slow" }).catch(codeOf);
  expect(third).toBe("request.overloaded");
  const rows = await fixture.kernel.invocations.list(user, {}, { limit: 10 });
  expect(rows.items).toHaveLength(2);
  for (const ticket of [first, second]) await fixture.kernel.invocations.cancel(user, ticket.id);
  expect((await first.settled).status).toBe("cancelled");
});

test("does not count calls that await approval as running", async () => {
  const fixture = await createTestKernel({ host: { max_running: 1 } });
  const content = manifest([toolExport("asks", {}, { requires_approval: true }), toolExport("echo")]);
  await fixture.bind(content);
  await fixture.bind(content, { export_id: "echo" });
  const pending_call = await fixture.kernel.invocations.invoke(user, { export_id: "asks" });
  expect(pending_call.status).toBe("waiting_approval");
  expect((await fixture.call({ export_id: "echo" })).status).toBe("succeeded");
});

test("shows a plugin only the calls that it made, and lets a guest cancel only its own", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("slow")]));
  fixture.runner.script = ({ cancelled }) => cancelled.then(() => ended("cancelled", "cancelled"));
  const { invocations } = fixture.kernel;
  const plugin: Caller = {
    ...user,
    actor: "inv_parent",
    delegation: { invocation_id: "inv_parent", scopes: ["tools:invoke"], grant: grantWith() },
  };
  const [user_call, guest_call] = [
    await invocations.invoke(user, { export_id: "slow" }),
    await invocations.invoke(guest, { export_id: "slow" }),
  ];
  await expect(invocations.get(plugin, user_call.id)).rejects.toMatchObject({ code: "invocation.not_found" });
  await expect(invocations.cancel(guest, user_call.id)).rejects.toMatchObject({ code: "policy.denied" });
  await invocations.cancel(guest, guest_call.id);
  expect((await guest_call.settled).status).toBe("cancelled");
  await invocations.cancel(user, user_call.id);
  expect((await user_call.settled).status).toBe("cancelled");
});

test("ends a call with the code internal when the runner throws", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("echo")]));
  fixture.runner.script = () => {
    throw new TypeError("broken");
  };
  const invocation = await fixture.call({ export_id: "echo" });
  expect(invocation).toMatchObject({ status: "failed", error: { code: "internal" } });
  expect(JSON.stringify(invocation)).not.toContain("broken");
});

test("neither acknowledges nor runs a call whose row the store rejects", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("echo")]));
  const { invocations } = fixture.store;
  const open = invocations.open.bind(invocations);
  fixture.store.invocations.open = () =>
    Promise.reject(Object.assign(new Error("full"), { code: "store.unavailable" }));
  await expect(fixture.call({ export_id: "echo" })).rejects.toMatchObject({ code: "store.unavailable" });
  expect(fixture.runner.requests).toHaveLength(0);
  expect((await fixture.kernel.health()).invocations.running).toBe(0);
  fixture.store.invocations.open = open;
  expect((await fixture.call({ export_id: "echo" }, admin)).status).toBe("succeeded");
});

test("releases the slot reservation of a call whose row the store rejects, and does not count it as running", async () => {
  const fixture = await createTestKernel({ host: { max_running: 1, queue_per_binding: 0 } });
  await fixture.bind(manifest([toolExport("one", { max_concurrency: 1 })]));
  const { invocations } = fixture.store;
  const open = invocations.open.bind(invocations);
  invocations.open = () => Promise.reject(new Error("disk full"));
  await expect(fixture.call({ export_id: "one" })).rejects.toThrow("disk full");
  invocations.open = open;
  expect((await fixture.call({ export_id: "one" })).status).toBe("succeeded");
});

test("records a refusal with its fix and writes an event with its code", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("write", {}, { effect_class: "unknown" })]));
  const refused = await fixture.call({ export_id: "write" }, guest).catch((error: unknown) => error);
  const { invocation_id } = (refused as { details: { invocation_id: string } }).details;
  const row = await fixture.kernel.invocations.get(user, invocation_id);
  const fix = "Use a key with the role user.";
  expect(row.error).toMatchObject({ code: "policy.denied", details: { rule: "role", fix } });
  const [event] = (await fixture.store.outbox.read(0, 100, scope)).filter(
    ({ subject }) => subject.id === invocation_id,
  );
  expect(event).toMatchObject({
    type: "invocation.settled",
    summary: { status: "failed", export_id: "write", error_code: "policy.denied" },
  });
});

test("keeps a result while the store is unavailable and records it afterwards", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(manifest([toolExport("echo")]));
  const { invocations } = fixture.store;
  const settle = invocations.settle.bind(invocations);
  let failures = 3;
  fixture.store.invocations.settle = (...args) =>
    failures-- > 0
      ? Promise.reject(Object.assign(new Error("unavailable"), { code: "store.unavailable" }))
      : settle(...args);
  const invocation = await fixture.call({ export_id: "echo" });
  expect(invocation.status).toBe("succeeded");
  expect(await fixture.kernel.invocations.get(user, invocation.id)).toEqual(invocation);
});

test("lets a delegated token call only the package that owns the tool's name", async () => {
  const fixture = await createTestKernel();
  const first = await fixture.bind(manifest([toolExport("read")], { package_id: "acme/first" }));
  const second = await fixture.bind(manifest([toolExport("read")], { package_id: "evil/second" }));
  const { grant } = await fixture.call({ export_id: "read" });
  const scopes = ["tools:invoke" as const];
  const plugin = {
    ...user,
    delegation: { invocation_id: "inv_parent", scopes, grant: { ...grant!, tools: ["read"] } },
  };
  const read = (body: object) =>
    fixture.call({ export_id: "read", ...body }, plugin).then(
      ({ package_id }) => package_id,
      ({ code }) => String(code),
    );
  expect(await read({})).toBe("acme/first");
  expect(await read({ binding_id: first.binding_id })).toBe("acme/first");
  expect(await read({ binding_id: second.binding_id })).toBe("export.not_found");
  expect(await read({ package_id: "evil/second" })).toBe("export.not_found");
  // A caller with its own credential may use any binding.
  expect((await fixture.call({ binding_id: second.binding_id })).package_id).toBe("evil/second");
});

import type { Invocation, InvocationContext } from "@backplane/contract";
import { ContextSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../../../agent/test/loop/test-session.ts";
import { buildCompleteCompaction, buildCompleteEvent } from "../fixtures/contract-inputs.ts";

const SECRET = "s3cr3t/va+lue ü";
const content = manifest([
  toolExport("full", {
    permissions: {
      network: "egress",
      secret_slots: ["jira_token"],
      gateway_api_scopes: ["chains:read", "tools:invoke"],
      allowed_domains: ["*.example.com"],
    },
  }),
  toolExport("bare"),
]);
const exportReference = (export_id: string) => ({
  package_id: "acme/devkit",
  package_version: "0.1.0",
  export_id,
});

verifies("vai.context", "builds a complete context, omits absent ids and records no secret", async () => {
  const fixture = await createTestSession();
  await fixture.kernel.secrets.put(admin, "jira_token", SECRET);
  await fixture.bind(content, {
    config: { base_url: "https://acme.example.com" },
    secrets: { jira_token: "secret://org_local/jira_token" },
    policy: { allowed_domains: ["api.example.com"] },
  });
  await fixture.kernel.bindings.create(admin, exportReference("bare"));
  const encodings = [SECRET, Buffer.from(SECRET).toString("base64"), encodeURIComponent(SECRET)];
  encodings.push(Buffer.from(SECRET).toString("base64url"), Buffer.from(`me:${SECRET}`).toString("base64"));
  let context: InvocationContext | undefined;
  fixture.runner.script = ({ request, event }) => {
    context = request.context;
    const token = request.context.gateway.delegation_token ?? "";
    event({ type: "progress", said: encodings.join(" "), token });
    const text = JSON.stringify({ encodings, token, secret: SECRET });
    return ok({ content: [{ type: "text", text }], structured_output: { [SECRET]: encodings, token } });
  };
  const run = await fixture.say("/say hi", "sess_1");
  const ids = { session_id: "sess_1", chain_id: run.chain_id, run_id: run.id, trace_id: "tr_1" };
  const done = await fixture.call({ export_id: "full", ...ids }, admin);
  const { org_id, project_id } = scope;
  expect(ContextSchema.parse(context)).toEqual(context);
  expect(context).toEqual({
    invocation_id: done.id,
    org_id,
    project_id,
    ...ids,
    deadline_at: expect.any(String),
    gateway: {
      base_url: "http://127.0.0.1:7420",
      delegation_token: expect.stringMatching(/^vai_dlg_[A-Za-z0-9_-]{43}$/),
      scopes: ["chains:read", "tools:invoke"],
    },
    config: { base_url: "https://acme.example.com" },
    secrets: { jira_token: SECRET },
    grant: done.grant,
  });
  expect(done.grant).toMatchObject({ network: "egress", allowed_domains: ["api.example.com"] });
  const token = context!.gateway.delegation_token!;
  const events = await fixture.store.invocations.listEvents(done.id, 0, 10);
  const recorded = JSON.stringify([done, await fixture.kernel.invocations.get(user, done.id), events]);
  for (const encoding of [...encodings, token]) expect(recorded).not.toContain(encoding);
  expect(events).toHaveLength(1);
  // An org-wide call without any ids gets a trace id and no other.
  const org_wide_caller: Caller = { ...admin, scope: { org_id, project_id: null } };
  await fixture.kernel.bindings.create(org_wide_caller, exportReference("bare"));
  await fixture.call({ export_id: "bare" }, org_wide_caller);
  expect(Object.keys(context!).sort()).toEqual(
    ["config", "deadline_at", "gateway", "grant", "invocation_id", "org_id", "secrets", "trace_id"].sort(),
  );
  expect(context!.gateway).toEqual({ base_url: "http://127.0.0.1:7420", scopes: [] });
});

test("redacts secrets in errors and their details", async () => {
  const fixture = await createTestKernel();
  await fixture.kernel.secrets.put(admin, "jira_token", SECRET);
  await fixture.bind(content, { secrets: { jira_token: "secret://org_local/jira_token" } });
  fixture.runner.script = () =>
    ended("failed", "plugin_failed", {
      error: { code: "plugin_failed", message: `no ${SECRET}`, details: { tried: [SECRET] } },
      stderr_tail: `log ${SECRET}`,
    });
  const failed = await fixture.call({ export_id: "full" });
  expect(failed.error).toEqual({
    code: "plugin_failed",
    message: "no [redacted]",
    details: { tried: ["[redacted]"] },
  });
  expect(JSON.stringify(failed)).not.toContain("s3cr3t");
});

test("redacts the token of a call without secrets", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(
    manifest([toolExport("reach", { permissions: { gateway_api_scopes: ["chains:read"] } })]),
  );
  let token = "";
  fixture.runner.script = ({ request }) => {
    token = request.context.gateway.delegation_token!;
    return ok({ content: [{ type: "text", text: `I have ${token}` }] });
  };
  const done = await fixture.call({ export_id: "reach" });
  expect(token).toMatch(/^vai_dlg_/);
  expect(JSON.stringify(done)).not.toContain(token);
});

test("uses a rotated secret in the next call and withholds a secret that the grant excludes", async () => {
  const fixture = await createTestKernel();
  const put = (value: string) => fixture.kernel.secrets.put(admin, "jira_token", value);
  await put("first-value");
  await fixture.bind(content, { secrets: { jira_token: "secret://org_local/jira_token" } });
  await fixture.call({ export_id: "full" });
  await put("second-value");
  await fixture.call({ export_id: "full" });
  await fixture.call({ export_id: "full", narrow: { secret_slots: [], network: "none" } });
  const { requests } = fixture.runner;
  expect(requests.map((request) => request.context.secrets)).toEqual([
    { jira_token: "first-value" },
    { jira_token: "second-value" },
    {},
  ]);
  expect(requests[2]!.grant).toMatchObject({ network: "none", allowed_domains: [], secret_slots: [] });
  expect(requests[1]!.pool_key).toBe(requests[0]!.pool_key);
  expect(requests[2]!.pool_key).not.toBe(requests[0]!.pool_key);
});

test("builds the request body for each kind of export", async () => {
  const fixture = await createTestKernel();
  const kinds = manifest([
    toolExport("t"),
    hookExport("h", ["run.completed"]),
    { id: "c", kind: "compactor", compactor: {} },
    { id: "a", kind: "harness", harness: {} },
  ]);
  await fixture.kernel.packages.install(admin, fixture.importer.add(kinds));
  for (const { id } of kinds.exports) await fixture.kernel.bindings.create(admin, exportReference(id));
  const results = { "tool.invoke": { content: [] }, "compactor.compact": { summary: { text: "short" } } };
  fixture.runner.script = ({ request }) => ok(results[request.op as keyof typeof results] ?? { fine: true });
  const callExport = async (export_id: string, input: Invocation["input"]) => {
    const done = await fixture.call({ export_id, input });
    const request = fixture.runner.requests.at(-1)!;
    expect(done.status).toBe("succeeded");
    return [request.op, request.body, done.execution_id] as const;
  };
  const [tool_op, tool_body, tool_execution_id] = await callExport("t", { q: 1 });
  expect([tool_op, tool_body]).toEqual(["tool.invoke", { tool_execution_id, input: { q: 1 } }]);
  const [hook_op, hook_body, delivery_id] = await callExport("h", buildCompleteEvent("run.completed"));
  const event = { ...buildCompleteEvent("run.completed"), test: true };
  const delivered = { delivery_id, attempt: 1, event };
  expect([hook_op, hook_body]).toEqual(["hook.handle", delivered]);
  // An id in the caller's input does not replace the id of the execution.
  const own_input = { ...buildCompleteCompaction(), compaction_id: "mine" };
  const [, compactor_body, compaction_id] = await callExport("c", own_input);
  expect(compactor_body).toEqual({ ...buildCompleteCompaction(), compaction_id });
  const [, harness_body, execution_id] = await callExport("a", {
    target: { session_id: "sess_1" },
    policy: { max_depth: 1 },
  });
  // The harness gets every limit that applies to it, including those that the caller left to the gateway.
  expect(harness_body).toEqual({
    mode: "start",
    target: { session_id: "sess_1", execution_id },
    trigger: { type: "user_request", input: [] },
    policy: { max_depth: 1, max_child_runs: 12, max_steps: 300, max_compactions: 10, allow_compaction: true },
  });
});

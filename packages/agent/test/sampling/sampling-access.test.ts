/**
 * Sampling requests that an MCP server sends during a call: refused by default, otherwise limited, risk-assessed and
 * recorded.
 */
import type { BackplaneError, BindingPolicy, Invocation, Json, JsonObject } from "@backplane/contract";
import { ToolExportSchema } from "@backplane/contract/schema";
import { openPostgresStore } from "@backplane/store";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok, ScriptedRunner } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, guest, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../../../test/support/store/postgres.ts";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, createTestSessionIn, type TestSession } from "../loop/test-session.ts";

const SERVER = manifest([], {
  package_id: "acme/asker",
  runtime: { protocol: "mcp.stdio", entrypoint: ["node", "server.js"] },
});
const TOOL = ToolExportSchema.parse({
  id: "mcp_asker_think",
  kind: "tool",
  permissions: {},
  tool: { effect_class: "read_only", risk: "low" },
});
const samplingParams = (text: string, more: JsonObject = {}): JsonObject => ({
  messages: [{ role: "user", content: { type: "text", text } }],
  maxTokens: 5_000,
  ...more,
});

async function createSamplingSession(policy: BindingPolicy) {
  const fixture = await createTestSession();
  fixture.runner.description = () => ({ exports: [TOOL], schemas: {}, warnings: [], info: {} });
  const { binding_id } = await fixture.bind(SERVER, { policy });
  return { ...scriptSamplingServer(fixture), binding_id };
}

/** The server sends one sampling request for each call. */
function scriptSamplingServer(session: TestSession) {
  const answers: Json[] = [];
  let next_params: JsonObject = samplingParams("hi there");
  session.runner.script = async ({ answerRequest }) => {
    const answer = await (
      answerRequest?.("sampling/createMessage", next_params) ?? Promise.resolve("nobody")
    ).catch((error: BackplaneError) => `${error.code}: ${error.message}`);
    answers.push(answer as Json);
    return ok();
  };
  const call = (context?: "conversation" | "headless", caller = user) =>
    session.kernel.invocations.invoke(
      caller,
      { export_id: TOOL.id, input: {} },
      { ...(context && { context }) },
    );
  const listSamplingCalls = async (): Promise<Invocation[]> =>
    (await session.kernel.invocations.list(admin, { export_id: "model_sampling" }, { limit: 50 })).items;
  return {
    ...session,
    answers,
    call,
    listSamplingCalls,
    setSamplingParams: (params: JsonObject) => {
      next_params = params;
    },
  };
}

const listPending = async ({ kernel }: Pick<TestSession, "kernel">) =>
  (await kernel.approvals.list(admin, { status: "pending" }, { limit: 20 })).items;

test("refuses sampling and records nothing without an operator policy", async () => {
  const fixture = await createSamplingSession({});
  await (await fixture.call()).settled;
  expect(fixture.answers).toEqual(["nobody"]);
  expect(await fixture.listSamplingCalls()).toEqual([]);
});

verifies(
  "mcp.server",
  "answers sampling with the gateway's model when the client does not support sampling and the binding allows it",
  async () => {
    const fixture = await createSamplingSession({ sampling: { max_tokens: 100, per_hour: 2 } });
    const { id, settled } = await fixture.call();
    await settled;
    expect(fixture.answers).toEqual([
      {
        role: "assistant",
        content: { type: "text", text: expect.stringContaining("hi there") },
        model: expect.any(String),
        stopReason: "endTurn",
      },
    ]);
    const [row] = await fixture.listSamplingCalls();
    expect(row).toMatchObject({
      status: "succeeded",
      requested_by: user.actor,
      input: { for_invocation: id, for_binding: fixture.binding_id, max_tokens: 100 },
      tool_result: { structured_output: { display: { data: { usage: { total: expect.any(Number) } } } } },
    });
    const request = fixture.events.find(({ kind }) => kind === "llm.call.request");
    expect(request?.payload).toMatchObject({ params: { max_tokens: 100 }, tools: [] });

    // Only text without tools is accepted. An invalid request does not count against the quota.
    fixture.setSamplingParams(samplingParams("x", { tools: [] }));
    await (await fixture.call()).settled;
    fixture.setSamplingParams({
      messages: [{ role: "user", content: { type: "image", data: "" } }],
      maxTokens: 1,
    });
    await (await fixture.call()).settled;
    fixture.setSamplingParams(samplingParams("again"));
    for (let n = 0; n < 2; n++) await (await fixture.call()).settled;
    expect(fixture.answers.slice(1)).toEqual([
      expect.stringContaining("request.invalid: The sampling request is invalid: tools are not supported."),
      expect.stringContaining(
        "request.invalid: The sampling request is invalid: only text content is supported.",
      ),
      expect.objectContaining({ role: "assistant" }),
      expect.stringContaining(
        "request.overloaded: acme/asker has used its quota of 2 model requests per hour.",
      ),
    ]);
  },
);

test("requests approval in a conversation and refuses a headless run and a guest", async () => {
  const fixture = await createSamplingSession({ sampling: { max_tokens: 100, per_hour: 20 } });
  const { settled } = await fixture.call("conversation");
  await until(async () => (await listPending(fixture)).length === 1);
  const [approval] = await listPending(fixture);
  expect(approval).toMatchObject({ tool: "model_sampling", risk: "medium" });
  expect(JSON.stringify(approval)).toContain("hi there");
  await fixture.kernel.approvals.answer(admin, approval!.id, { response: "reject" });
  await settled;
  expect(fixture.answers[0]).toContain("approval.rejected: The model request failed:");

  await (await fixture.call("headless")).settled;
  expect(fixture.answers[1]).toMatch(/policy\.denied: .*cannot ask for approval/);
  await (await fixture.call(undefined, guest)).settled;
  expect(fixture.answers[2]).toMatch(/policy\.denied: .*guest/);
  expect(fixture.events.some(({ kind }) => kind === "llm.call.request")).toBe(false);

  await fixture.kernel.policy.put(admin, "org", { tolerance: { conversation: "medium" } });
  await (await fixture.call("conversation")).settled;
  expect(fixture.answers[3]).toMatchObject({ role: "assistant" });
});

test("withdraws the approval when the call is cancelled", async () => {
  const fixture = await createSamplingSession({ sampling: { max_tokens: 100, per_hour: 20 } });
  const { id } = await fixture.call("conversation");
  await until(async () => (await listPending(fixture)).length === 1);
  await fixture.kernel.invocations.cancel(user, id);
  await until(async () => (await fixture.listSamplingCalls())[0]?.status === "cancelled");
  expect(await listPending(fixture)).toEqual([]);
});

test("keeps the quota across a restart and renews it after an hour", async () => {
  const first = await createSamplingSession({ sampling: { max_tokens: 100, per_hour: 2 } });
  await (await first.call()).settled;
  await first.crash();
  const runner = new ScriptedRunner();
  runner.description = first.runner.description;
  const second = scriptSamplingServer(await createTestSession({ file: first.file, runner }));
  for (let n = 0; n < 2; n++) await (await second.call()).settled;
  expect(second.answers).toEqual([
    expect.objectContaining({ role: "assistant" }),
    expect.stringContaining("request.overloaded: acme/asker has used its quota of 2 model requests per hour"),
  ]);
  second.clock.wall_offset = 3_600_000;
  await (await second.call()).settled;
  expect(second.answers[2]).toMatchObject({ role: "assistant" });
});

test("shares one quota among all nodes", { timeout: 60_000 }, async () => {
  const postgres = await startPostgres();
  onTestFinished(() => postgres.stop());
  const node = async () =>
    scriptSamplingServer(
      await createTestSessionIn(await openPostgresStore({ url: postgres.url, schema: "sampling" }), ""),
    );
  const [first, second] = [await node(), await node()];
  for (const { runner } of [first, second])
    runner.description = () => ({ exports: [TOOL], schemas: {}, warnings: [], info: {} });
  await first.bind(SERVER, { policy: { sampling: { max_tokens: 100, per_hour: 3 } } });
  const calls = [first, second, first, second, first, second].map(async ({ call }) => (await call()).settled);
  await Promise.all(calls);
  const answers = [...first.answers, ...second.answers];
  expect(answers.filter((answer) => typeof answer === "object")).toHaveLength(3);
  expect(answers.filter((answer) => JSON.stringify(answer).includes("request.overloaded"))).toHaveLength(3);
});

test("hides model_sampling from models and refuses a direct invocation", async () => {
  const fixture = await createSamplingSession({ sampling: { max_tokens: 100, per_hour: 20 } });
  const [entry] = await fixture.kernel.catalog.get(admin, "model_sampling");
  expect(entry).toMatchObject({ status: "hidden", origin: "core" });
  const input = { request_id: "x", for_binding: "b", for_invocation: "i", messages: [], max_tokens: 1 };
  const body = { binding_id: "bind_core_model_sampling", input };
  const done = await fixture.kernel.invocations.invoke(admin, body);
  expect(await done.settled).toMatchObject({ tool_result: { is_error: true } });
});

import { BackplaneError, type Json, type JsonObject, type KernelToolCall } from "@backplane/contract";
import { Ajv2020 } from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { type Script, scriptedContext } from "../../../test/support/kernel-plugins/scripted-context.ts";
import { plugin } from "../src/plugin.ts";

const CHILD = "sess_1::agent::0a1b2c3d";
const completed = {
  status: "completed",
  child_id: CHILD,
  final_text: "42",
  steps_used: 3,
  forbidden_tool_hits: [] as string[],
};

interface KernelRequest {
  name: string;
  args: JsonObject;
  as: string | undefined;
}

/** The scripted kernel: `start` and `wait` return or throw these values. */
async function loadAgentTool(
  wait: Json | Error | Promise<Json>,
  start: Json | Error = { child_id: CHILD, strategy: "react" },
) {
  const requests: KernelRequest[] = [];
  const service: Script["service"] = async (name, args, as) => {
    requests.push({ name, args, as });
    const result = name === "subagent.start" ? start : await wait;
    if (result instanceof Error) throw result;
    return result;
  };
  const ctx = scriptedContext({ name: "agent-tool", service });
  await plugin.onLoad!(ctx);
  const tool = ctx.tools[0]!;
  const stop = new AbortController();
  const call: KernelToolCall = {
    id: "call_1",
    invocation_id: "inv_1",
    session_id: "sess_1",
    deadline_at: "2026-05-01T00:05:30.000Z",
    signal: stop.signal,
    as: "as_1",
    progress: () => undefined,
  };
  const runTool = (args: JsonObject) => tool.run(args, call);
  return { ctx, tool, requests, runTool, stop };
}

test("requires approval for every spawn and describes the spawn in at most 80 characters", async () => {
  const { tool, ctx } = await loadAgentTool(completed);
  expect(ctx.tools).toHaveLength(1);
  expect(tool).toMatchObject({
    name: "agent",
    requires_approval: true,
    effect_class: "unknown",
    recoverable: true,
    timeout_ms: 86_430_000,
  });
  expect(await tool.approvalBrief!({ goal: " sort\n the  mail " })).toBe("spawn agent: sort the mail");
  const long = await tool.approvalBrief!({ goal: "x".repeat(500) });
  expect(long).toHaveLength(80);
  expect(plugin.prefixes).toEqual(["agent"]);
});

test("accepts only parameters within the limits", async () => {
  const { tool } = await loadAgentTool(completed);
  const accepts = new Ajv2020({ strict: false }).compile(tool.parameters);
  const good: JsonObject[] = [
    { goal: "x" },
    { goal: "x".repeat(16_384), tools: [], strategy: "react", max_steps: 1_000, max_wall_seconds: 86_400 },
  ];
  const bad: JsonObject[] = [
    {},
    { goal: "" },
    { goal: " \n" },
    { goal: "x".repeat(16_385) },
    { goal: "x", tools: "all" },
    { goal: "x", max_steps: 0 },
    { goal: "x", max_steps: 1_001 },
    { goal: "x", max_wall_seconds: 86_401 },
    { goal: "x", max_wall_seconds: 1.5 },
    { goal: "x", session_id: "sess_2" },
  ];
  expect(good.map((args) => accepts(args))).toEqual(good.map(() => true));
  expect(bad.map((args) => accepts(args))).toEqual(bad.map(() => false));
});

test("announces a completed child from fork to end, on the plugin's session and in the scope of the caller", async () => {
  const { ctx, requests, runTool } = await loadAgentTool(completed);
  const args = {
    goal: "sum it up",
    tools: ["read_file"],
    strategy: "react",
    max_steps: 5,
    max_wall_seconds: 60,
  };
  expect(await runTool(args)).toEqual({
    ok: true,
    brief: "agent: done in 3 steps",
    display: { kind: "markdown", markdown: "42" },
  });
  expect(requests).toEqual([
    { name: "subagent.start", args: { ...args, tool_call_id: "call_1", key: "call_1" }, as: "as_1" },
    { name: "subagent.wait", args: { child_id: CHILD }, as: "as_1" },
  ]);
  const published_as = { session_id: "_bridge:agent-tool", as: "as_1" };
  expect(ctx.emitted).toEqual([
    {
      kind: "x.agent.subagent.started",
      payload: {
        parent_id: "sess_1",
        child_id: CHILD,
        goal: "sum it up",
        strategy: "react",
        tools: ["read_file"],
      },
      ...published_as,
    },
    {
      kind: "x.agent.subagent.completed",
      payload: { child_id: CHILD, final_text: "42", steps_used: 3, forbidden_tool_hits: [] },
      ...published_as,
    },
  ]);
});

test("leaves omitted parameters to the kernel's defaults", async () => {
  const { ctx, requests, runTool } = await loadAgentTool(
    { ...completed, final_text: "", steps_used: 1 },
    {
      child_id: CHILD,
      strategy: "planner",
    },
  );
  expect(await runTool({ goal: "g" })).toMatchObject({
    brief: "agent: done in 1 step",
    display: { markdown: "The sub-agent ended without an answer." },
  });
  expect(requests[0]!.args).toEqual({ goal: "g", tool_call_id: "call_1", key: "call_1" });
  expect(ctx.emitted[0]!.payload).toMatchObject({ strategy: "planner", tools: null });
});

test("publishes the start event before it waits for the end", async () => {
  const { promise, resolve } = Promise.withResolvers<Json>();
  const { ctx, requests, runTool } = await loadAgentTool(promise);
  const running = runTool({ goal: "g" });
  await expect.poll(() => requests.length).toBe(2);
  expect(ctx.emitted.map(({ kind }) => kind)).toEqual(["x.agent.subagent.started"]);
  resolve(completed);
  await running;
  expect(ctx.emitted).toHaveLength(2);
});

test("reports calls outside the allow-list once, to watchers and to the model", async () => {
  const { ctx, runTool } = await loadAgentTool({ ...completed, forbidden_tool_hits: ["rm", "curl"] });
  const result = await runTool({ goal: "g", tools: ["read_file"] });
  expect(result.display).toEqual({
    kind: "markdown",
    markdown: "42\n\n(Refused because they are not in `tools`: rm, curl.)",
  });
  const narrowed = ctx.emitted.filter(({ kind }) => kind === "x.agent.allowlist.narrowed");
  expect(narrowed.map(({ payload }) => payload)).toEqual([
    { child_id: CHILD, attempted: ["rm", "curl"], allowed: ["read_file"] },
  ]);
  const unrestricted = await loadAgentTool({ ...completed, forbidden_tool_hits: ["rm"] });
  await unrestricted.runTool({ goal: "g" });
  expect(unrestricted.ctx.emitted.map(({ kind }) => kind)).not.toContain("x.agent.allowlist.narrowed");
});

test.each([
  ["timeout", "timeout", { reason: "timeout" }],
  ["cancelled", "internal", { reason: "cancelled" }],
  ["rejected", "rejected", { reason: "cancelled", detail: "rejected" }],
  ["llm.failed", "internal", { reason: "cancelled", detail: "llm.failed" }],
])("reports a child that ends with %s as an error of kind %s", async (reason, kind, expected) => {
  const { ctx, runTool } = await loadAgentTool({
    status: "failed",
    child_id: CHILD,
    reason,
    forbidden_tool_hits: [],
  });
  expect(await runTool({ goal: "g" })).toMatchObject({ ok: false, kind });
  expect(ctx.emitted.at(-1)).toMatchObject({
    kind: "x.agent.subagent.failed",
    payload: { child_id: CHILD, ...expected },
  });
});

test("returns the cause of a failed child to the model and to watchers", async () => {
  const error = "The provider answered 401.\nCheck the key.";
  const { ctx, runTool } = await loadAgentTool({
    status: "failed",
    reason: "error",
    error,
    forbidden_tool_hits: ["rm"],
  });
  expect(await runTool({ goal: "g", tools: [] })).toEqual({
    ok: false,
    kind: "internal",
    brief: "agent: failed (error): The provider answered 401.",
    display: {
      kind: "text",
      text: `agent: failed (error): ${error}\n\n(Refused because they are not in \`tools\`: rm.)`,
    },
  });
  expect(ctx.emitted.at(-1)).toMatchObject({
    kind: "x.agent.subagent.failed",
    payload: { child_id: CHILD, reason: "cancelled", detail: "error", error },
  });
});

test("states in the description that the sub-agent receives a copy of the conversation", async () => {
  const { tool } = await loadAgentTool(completed);
  expect(tool.description).toContain("on a copy of this conversation");
  expect(JSON.stringify(tool.parameters)).not.toContain("receives nothing else");
});

test("emits no event for a spawn that the kernel refuses", async () => {
  const kinds = [
    [new BackplaneError("policy.denied", "A sub-agent may not be deeper than 5."), "rejected"],
    [new BackplaneError("request.invalid", "There is no strategy x."), "validation"],
    [new BackplaneError("store.unavailable"), "internal"],
    [new Error("boom"), "internal"],
  ] as const;
  for (const [refusal, kind] of kinds) {
    const { ctx, requests, runTool } = await loadAgentTool(completed, refusal);
    expect(await runTool({ goal: "g" })).toMatchObject({ ok: false, kind, brief: refusal.message });
    expect(requests).toHaveLength(1);
    expect(ctx.emitted).toEqual([]);
  }
});

test("ends a stopped call without waiting for the child, even if it is stopped before the child starts", async () => {
  const never = new Promise<Json>(() => undefined);
  for (const early of [true, false]) {
    const { ctx, requests, runTool, stop } = await loadAgentTool(never);
    const running = runTool({ goal: "g" });
    if (!early) await expect.poll(() => requests.length).toBe(2);
    stop.abort();
    expect(await running).toMatchObject({ ok: false, kind: "internal", brief: "agent: cancelled" });
    expect(ctx.emitted.map(({ kind, payload }) => [kind, payload.reason])).toEqual([
      ["x.agent.subagent.started", undefined],
      ["x.agent.subagent.failed", "cancelled"],
    ]);
  }
});

test("announces the end of the child when the wait fails", async () => {
  const { ctx, runTool } = await loadAgentTool(new BackplaneError("store.unavailable"));
  expect(await runTool({ goal: "g" })).toMatchObject({ ok: false, kind: "internal" });
  expect(ctx.emitted.at(-1)).toMatchObject({
    kind: "x.agent.subagent.failed",
    payload: { reason: "cancelled", detail: "store.unavailable" },
  });
});

test("completes the call when an event cannot be published", async () => {
  const { ctx, runTool } = await loadAgentTool(completed);
  ctx.emit = async () => {
    throw new Error("the queue is full");
  };
  expect(await runTool({ goal: "g" })).toMatchObject({ ok: true });
  expect(ctx.logged.map(({ level }) => level)).toEqual(["warn", "warn"]);
});

test("returns an error for an invalid result of a kernel service", async () => {
  const without_child = await loadAgentTool(completed, {});
  expect(await without_child.runTool({ goal: "g" })).toMatchObject({ ok: false, kind: "internal" });
  const without_end = await loadAgentTool(null);
  expect(await without_end.runTool({ goal: "g" })).toMatchObject({ ok: false, kind: "internal" });
});

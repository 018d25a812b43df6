import type { BusEvent } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  addTool,
  createTestSession,
  gatedTool,
  strategyPlugin,
  type TestSession,
} from "../loop/test-session.ts";

const spawn = (goal: string, more: object = {}) => `/tool agent ${JSON.stringify({ goal, ...more })}`;

/** A test session with the tool `agent`. It approves every approval request and records it in `requests`. */
async function createAgentSession(
  options: Parameters<typeof createTestSession>[0] = {},
): Promise<TestSession & { requests: BusEvent[] }> {
  const { requests, plugin } = autoApprovePlugin();
  const fixture = await createTestSession({ tools: [addTool], plugins: [agentTool, plugin], ...options });
  return { ...fixture, requests };
}

const bridgeEvents = (fixture: TestSession) =>
  fixture.events
    .filter(({ session_id }) => session_id === "_bridge:agent-tool")
    .map(({ kind, payload }) => ({ kind, payload }));

verifies(
  "subagent.tool",
  "runs a sub-agent on a fork of the parent's tape after one approval and returns its answer",
  async () => {
    const fixture = await createAgentSession();
    const run = await fixture.say(spawn('/tool add {"a": 20, "b": 22}'));
    expect(run.status).toBe("completed");
    expect(run.output!.content).toContain("42");
    expect(fixture.requests).toHaveLength(1);
    const [started, completed] = bridgeEvents(fixture);
    expect(started).toMatchObject({ kind: "x.agent.subagent.started", payload: { parent_id: "s1" } });
    const child_id = String(started!.payload.child_id);
    expect(child_id).toMatch(/^s1::agent::[0-9a-f]{8}$/);
    expect(completed).toMatchObject({
      kind: "x.agent.subagent.completed",
      payload: { child_id, steps_used: 2 },
    });
    // The child wrote to its own tape. The parent's tape has one call and its result.
    const parent = await fixture.tape();
    expect(parent.filter(({ kind }) => kind === "tool_call")).toHaveLength(1);
    const child = await fixture.tape(child_id);
    expect(child.filter(({ kind }) => kind === "tool_call").map(({ payload }) => payload.name)).toEqual([
      "agent",
      "add",
    ]);
    const { items } = await fixture.kernel.runs.list(user, { session_id: child_id }, { limit: 5 });
    expect(items).toMatchObject([{ trigger: "subagent", parent_run_id: run.id, status: "completed" }]);
  },
);

verifies(["subagent.enforced", "subagent.tool"], "never runs a tool outside the allow-list", async () => {
  const fixture = await createAgentSession();
  await fixture.say(spawn('/tool add {"a": 1, "b": 1}', { tools: ["agent"] }));
  const narrowed = bridgeEvents(fixture).find(({ kind }) => kind === "x.agent.allowlist.narrowed");
  expect(narrowed?.payload).toMatchObject({ attempted: ["add"], allowed: ["agent"] });
  const { items } = await fixture.kernel.invocations.list(user, { export_id: "add" }, { limit: 5 });
  expect(items).toEqual([]);
  const refused = fixture.events.filter(({ kind }) => kind === "tool.error");
  expect(refused.map(({ payload }) => payload.kind)).toEqual(["rejected"]);
  // A child cannot give its own child a tool that it does not have itself.
  await fixture.say(
    spawn(spawn('/tool add {"a": 1, "b": 1}', { tools: ["add"] }), { tools: ["agent"] }),
    "s2",
  );
  const after = await fixture.kernel.invocations.list(user, { export_id: "add" }, { limit: 5 });
  expect(after.items).toEqual([]);
});

verifies("subagent.tool", "allows five levels of sub-agents with an approval for every spawn", async () => {
  const fixture = await createAgentSession();
  let goal = "/say the bottom";
  for (let depth = 0; depth < 6; depth++) goal = spawn(goal);
  const run = await fixture.say(goal);
  expect(run.status).toBe("completed");
  expect(fixture.requests).toHaveLength(6);
  const started = bridgeEvents(fixture).filter(({ kind }) => kind === "x.agent.subagent.started");
  expect(started).toHaveLength(5);
  expect(String(started.at(-1)!.payload.child_id).split("::agent::")).toHaveLength(6);
});

verifies("subagent.tool", "enforces the limits of the host, whatever a call requests", async () => {
  const host = { subagents: { depth: 1, wall_ms: 1_000, steps: 2 } };
  const fixture = await createAgentSession({ host });
  await fixture.say(spawn(spawn("/say too deep")));
  expect(bridgeEvents(fixture).filter(({ kind }) => kind.endsWith("started"))).toHaveLength(1);
  const steps = Array.from({ length: 4 }, () => '/tool add {"a": 1, "b": 1}').join("\n/then\n");
  await fixture.say(spawn(steps, { max_steps: 100 }), "s2");
  const { items } = await fixture.kernel.runs.list(user, {}, { limit: 1 });
  expect(items[0]).toMatchObject({ iterations: 2, error: { code: "loop.iterations" } });
  await fixture.say(spawn(`/slow 200\n/say ${"word ".repeat(100)}`, { max_wall_seconds: 900 }), "s3");
  expect(bridgeEvents(fixture).at(-1)).toMatchObject({ payload: { reason: "timeout" } });
});

verifies(
  "subagent.tool",
  "enforces wall time and steps, and interrupts the child with its parent",
  async () => {
    const fixture = await createAgentSession();
    const run = await fixture.say(spawn(`/slow 200\n/say ${"word ".repeat(100)}`, { max_wall_seconds: 1 }));
    expect(run.status).toBe("completed");
    expect(bridgeEvents(fixture).at(-1)).toMatchObject({
      kind: "x.agent.subagent.failed",
      payload: { reason: "timeout" },
    });
    const steps = Array.from({ length: 4 }, () => '/tool add {"a": 1, "b": 1}').join("\n/then\n");
    await fixture.say(spawn(steps, { max_steps: 2 }), "s2");
    const { items } = await fixture.kernel.runs.list(user, {}, { limit: 1 });
    expect(items[0]).toMatchObject({ iterations: 2, error: { code: "loop.iterations" } });
    const turn = fixture.say(spawn(`/slow 200\n/say ${"word ".repeat(100)}`), "s3");
    await until(() => bridgeEvents(fixture).filter(({ kind }) => kind.endsWith("started")).length === 3);
    await fixture.kernel.sessions.interrupt(user, { session_id: "s3" });
    expect((await turn).status).toBe("cancelled");
    await until(async () => {
      const list = await fixture.kernel.runs.list(user, {}, { limit: 10 });
      return list.items.every(({ status }) => status !== "running");
    });
  },
);

verifies("subagent.tool", "reports a child's strategy, and the error of a child that fails", async () => {
  const planner = strategyPlugin("planner", ({ phase, last_response }) => {
    if (phase !== "llm") return { next: "llm" };
    return { next: (last_response?.tool_calls.length ?? 0) > 0 ? "tool" : "done" };
  });
  const { plugin } = autoApprovePlugin();
  const fixture = await createTestSession({ tools: [addTool], plugins: [agentTool, plugin, planner] });
  const strategies = () =>
    bridgeEvents(fixture)
      .filter(({ kind }) => kind.endsWith("started"))
      .map(({ payload }) => payload.strategy);
  await fixture.say(spawn("/say hi"));
  await fixture.kernel.config.set(admin, { "kernel.strategy": "planner" });
  await fixture.say(spawn("/say hi"), "s2");
  await fixture.say(spawn("/say hi", { strategy: "react" }), "s2");
  expect(strategies()).toEqual(["react", "planner", "react"]);
  const steps = Array.from({ length: 4 }, () => '/tool add {"a": 1, "b": 1}').join("\n/then\n");
  await fixture.say(spawn(steps, { max_steps: 2 }), "s3");
  const [child] = (await fixture.kernel.runs.list(user, {}, { limit: 1 })).items;
  expect(child!.error!.code).toBe("loop.iterations");
  expect(bridgeEvents(fixture).at(-1)).toMatchObject({
    payload: { detail: "error", error: child!.error!.message },
  });
  const result = fixture.events.filter(({ kind }) => kind === "tool.call.result").at(-1)!;
  expect(JSON.stringify(result.payload)).toContain(child!.error!.message);
});

verifies("bus.scope", "publishes a tool's events in the project that called the tool", async () => {
  const fixture = await createAgentSession();
  const other = { ...user, scope: { ...user.scope, project_id: "proj_other" } };
  const { settled } = await fixture.kernel.runs.start(other, {
    session_id: "x",
    input: { text: spawn("/say hi") },
  });
  expect((await settled).status).toBe("completed");
  const bridged = fixture.events.filter(({ session_id }) => session_id === "_bridge:agent-tool");
  expect(bridged.map(({ project_id }) => project_id)).toEqual(["proj_other", "proj_other"]);
});

verifies("tools.risk", "gives a sub-agent the context of the turn that spawned it", async () => {
  const fixture = await createAgentSession();
  const tolerance = { conversation: "low", background: "none" } as const;
  await fixture.kernel.policy.put(admin, "org", { tolerance });
  const child = '/tool add {"a": 20, "b": 22}';
  await fixture.say(spawn(child));
  expect(fixture.requests.map(({ payload }) => payload.tool_name)).toEqual(["agent"]);
  const run = await fixture.kernel.runs.start(user, { session_id: "s9", input: { text: spawn(child) } });
  await run.settled;
  expect(fixture.requests.map(({ payload }) => payload.tool_name)).toEqual(["agent", "agent", "add"]);
});

verifies("subagent.enforced", "ends a child together with the call that spawned it", async () => {
  const gate = gatedTool("wait");
  const { plugin } = autoApprovePlugin();
  const fixture = await createTestSession({ tools: [gate.tool], plugins: [agentTool, plugin] });
  const turn = fixture.say(`/tool agent ${JSON.stringify({ goal: "/tool wait {}" })}`);
  await until(() => gate.started === 1);
  const { items } = await fixture.kernel.invocations.list(user, { export_id: "agent" }, { limit: 1 });
  await fixture.kernel.invocations.cancel(user, items[0]!.id);
  await turn;
  await until(async () => {
    const runs = await fixture.kernel.runs.list(user, {}, { limit: 10 });
    return runs.items.every(({ status }) => status !== "running");
  });
  const [child] = (await fixture.kernel.runs.list(user, {}, { limit: 1 })).items;
  expect(child).toMatchObject({ trigger: "subagent", status: "cancelled" });
  gate.releases[0]!();
});

verifies("bus.scope", "sends the approvals of sub-agents to the watchers of the parent session", async () => {
  const needsApproval = { ...addTool, name: "needs_approval", requires_approval: true };
  const fixture = await createTestSession({ tools: [needsApproval], plugins: [agentTool] });
  await fixture.kernel.sessions.create(user, { session_id: "s1" });
  const approval_requests: { id: string; target: string }[] = [];
  await fixture.kernel.fanout.attach(
    user,
    { session_id: "s1" },
    {
      since_entry: null,
      adapter_id: "test",
      send({ event }) {
        if (event.kind === "approval.request") {
          const { id, target_session_id } = event.payload as { id: string; target_session_id: string };
          approval_requests.push({ id, target: target_session_id });
        }
        return 0;
      },
      ended: () => {},
    },
  );
  const goal = '/tool needs_approval {"a": 1, "b": 2}';
  const turn = fixture.say(`/tool agent ${JSON.stringify({ goal })}`);
  await until(() => approval_requests.length === 1);
  await fixture.kernel.approvals.answer(admin, approval_requests[0]!.id, { response: "approve" });
  await until(() => approval_requests.length === 2);
  expect(approval_requests[1]!.target).toMatch(/^s1::agent::/);
  await fixture.kernel.approvals.answer(admin, approval_requests[1]!.id, { response: "approve" });
  expect((await turn).output!.content).toContain("3");
});

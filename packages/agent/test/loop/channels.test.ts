/** The channel of a message limits the tools of its turn, and everything that the turn starts stays on that channel. */
import type { KernelPlugin, KernelTool, PluginContext, Policy } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import type { Caller } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "./test-session.ts";

const s1 = { session_id: "s1" };
const desk: Caller = { ...user, channel: "desk" };
const denyAdd: Policy = { channels: { desk: { deny: { tools: ["add"] } } } };
const ADD = '/tool add {"a": 20, "b": 22}';

async function waitForEnd({ kernel }: TestSession, run_id: string) {
  await until(async () => (await kernel.runs.get(user, run_id)).status !== "running");
  return await kernel.runs.get(user, run_id);
}

async function say(fixture: TestSession, caller: Caller, text: string, session_id = "s1") {
  const { run_id } = await fixture.kernel.sessions.sendMessage(caller, { session_id }, { text });
  return await waitForEnd(fixture, run_id);
}

const offeredTools = ({ events }: TestSession): string[][] =>
  events
    .filter(({ kind }) => kind === "llm.call.request")
    .map(({ payload }) => (payload as { tools: { name: string }[] }).tools.map(({ name }) => name));
const countAddCalls = async ({ kernel }: TestSession) =>
  (await kernel.invocations.list(user, { export_id: "add" }, { limit: 9 })).items.length;

/** The first call waits until `finish` is called. */
function waitingTool(): { tool: KernelTool; started: () => boolean; finish: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let count = 0;
  const tool: KernelTool = {
    name: "wait",
    description: "Waits.",
    parameters: { type: "object" },
    effect_class: "read_only",
    async run() {
      count++;
      if (count === 1) await promise;
      return toolOk("waited");
    },
  };
  return { tool, started: () => count > 0, finish: resolve };
}

verifies(
  "tools.category",
  "offers a turn only the tools that its channel allows, and all on another channel",
  async () => {
    const coding: KernelTool = { ...addTool, name: "code", category: "coding" };
    const fixture = await createTestSession({ tools: [addTool, coding] });
    await fixture.kernel.policy.put(admin, "org", {
      channels: { desk: { allowed_tool_categories: ["coding"] } },
    });
    const run = await say(fixture, desk, ADD);
    expect([run.channel, await countAddCalls(fixture)]).toEqual(["desk", 0]);
    expect(offeredTools(fixture)[0]).toEqual(["code"]);
    expect((await say(fixture, { ...user, channel: "ws" }, ADD, "s2")).output!.content).toContain("42");
  },
);

test("assigns the channel of an adapter to the messages that it publishes", async () => {
  let context: PluginContext | undefined;
  const adapter: KernelPlugin = {
    name: "desk",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => [],
    onLoad: (ctx) => {
      context = ctx;
    },
  };
  const fixture = await createTestSession({ plugins: [adapter] });
  await fixture.kernel.policy.put(admin, "org", denyAdd);
  await context!.emit("user.message.received", { text: ADD }, s1);
  const runs = async () => (await fixture.kernel.runs.list(user, s1, { limit: 2 })).items;
  await until(async () => (await runs())[0]?.status === "completed");
  expect(await runs()).toMatchObject([{ channel: "desk", requested_by: "plugin:desk" }]);
  expect(await countAddCalls(fixture)).toBe(0);
});

test("keeps a sub-agent on the channel of its parent", async () => {
  const { plugin } = autoApprovePlugin();
  const fixture = await createTestSession({ plugins: [agentTool, plugin] });
  const spawn = `/tool agent ${JSON.stringify({ goal: ADD })}`;
  expect((await say(fixture, desk, spawn)).output!.content).toContain("42");
  await fixture.kernel.policy.put(admin, "org", denyAdd);
  expect((await say(fixture, desk, spawn, "s2")).output!.content).not.toContain("42");
});

test("gives a message from a limited channel its own turn, without the tools of another channel", async () => {
  const { tool, started, finish } = waitingTool();
  const fixture = await createTestSession({ tools: [addTool, tool] });
  await fixture.kernel.policy.put(admin, "org", denyAdd);
  const first = await fixture.kernel.sessions.sendMessage({ ...user, channel: "ws" }, s1, {
    text: "/tool wait {}",
  });
  await until(started);
  const joined = await fixture.kernel.sessions.sendMessage({ ...user, channel: "api" }, s1, {
    text: "hello",
  });
  expect(joined.run_id).toBe(first.run_id);
  const second = fixture.kernel.sessions.sendMessage(desk, s1, { text: ADD });
  finish();
  const { run_id } = await second;
  expect(run_id).not.toBe(first.run_id);
  await waitForEnd(fixture, run_id);
  expect(await countAddCalls(fixture)).toBe(0);
});

test("keeps the channel of a turn that is resumed after a crash", async () => {
  const { tool, started, finish } = waitingTool();
  const tools = [addTool, tool];
  const first = await createTestSession({ tools });
  await first.kernel.policy.put(admin, "org", denyAdd);
  const { run_id } = await first.kernel.sessions.sendMessage({ ...admin, channel: "desk" }, s1, {
    text: `/tool wait {}\n/then\n${ADD}`,
  });
  await until(started);
  await first.crash();
  finish();
  const second = await createTestSession({ tools, file: first.file });
  expect(await waitForEnd(second, run_id)).toMatchObject({
    channel: "desk",
    resumed: 1,
    status: "completed",
  });
  expect(await countAddCalls(second)).toBe(0);
});

test("keeps the channel when the conversation continues after a late approval", async () => {
  const ask: KernelTool = { ...addTool, name: "ask", requires_approval: true };
  const options = { host: { approval_timeout_ms: 3_600_000 }, tools: [addTool, ask] };
  const first = await createTestSession(options);
  await first.kernel.sessions.sendMessage(desk, s1, { text: '/tool ask {"a": 1, "b": 2}' });
  const pending = async ({ kernel }: TestSession) =>
    (await kernel.approvals.list(admin, { status: "pending" }, { limit: 2 })).items;
  await until(async () => (await pending(first)).length === 1);
  await first.kernel.stop(1_000);
  await first.crash();
  const second = await createTestSession({ ...options, file: first.file });
  const [approval] = await pending(second);
  await second.kernel.approvals.answer(admin, approval!.id, { response: "approve" });
  const runs = async () => (await second.kernel.runs.list(user, s1, { limit: 5 })).items;
  await until(async () => (await runs()).some(({ trigger }) => trigger === "approval"));
  expect((await runs()).map(({ channel }) => channel)).toEqual(["desk", "desk"]);
});

/** Regression tests for faults that a review found. */
import type { KernelPlugin, KernelTool } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { toolOk } from "@backplane/sdk/kernel";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { yesPlugin } from "@backplane/test-kit/kernel/yes-plugin";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession } from "./test-session.ts";

const s1 = { session_id: "s1" };

function gated(): { tool: KernelTool; open: () => void; running: () => number } {
  const gates: (() => void)[] = [];
  const tool: KernelTool = {
    ...addTool,
    name: "wait",
    parameters: { type: "object" },
    async run() {
      await new Promise<void>((resolve) => gates.push(resolve));
      return toolOk("waited");
    },
  };
  return { tool, running: () => gates.length, open: () => void gates.splice(0).map((open) => open()) };
}

verifies("loop.history", "shows the model a result although others write in between", async () => {
  const gate = gated();
  const fixture = await createTestSession({ tools: [gate.tool] });
  const turn = fixture.say("/tool wait {}");
  await until(() => gate.running() === 1);
  const beside = await fixture.kernel.chains.create(user, s1);
  const block = { kind: "input" as const, content: [{ type: "text", text: "beside" }] };
  await fixture.kernel.chains.addBlocks(user, beside.id, [block]);
  gate.open();
  expect((await turn).output!.content).toBe("Tool results:\n- wait: waited");
});

test("serializes a reset and a concurrent message", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  for (let n = 0; n < 10; n++) {
    const both = await Promise.allSettled([
      fixture.say('/tool add {"a": 1, "b": 2}'),
      fixture.kernel.sessions.reset(user, s1),
    ]);
    expect(both[0]).toMatchObject({ status: "fulfilled", value: { status: "completed", iterations: 2 } });
  }
});

verifies(
  "llm.provider",
  "fails a model call when its provider throws or is unloaded",
  async () => {
    const broken: KernelPlugin = {
      name: "broken",
      version: "1.0.0",
      category: "llm-provider",
      subscriptions: () => ["llm.call.request"],
      onEvent: () => Promise.reject(new Error("no such wire")),
    };
    const silent: KernelPlugin = { ...broken, name: "silent", onEvent: async () => {} };
    const fixture = await createTestSession({ plugins: [broken, silent] });
    await fixture.kernel.config.set(admin, {
      "providers.broken.plugin": "broken",
      "providers.silent.plugin": "silent",
      provider: "broken",
    });
    const failed = await fixture.say("hello");
    expect(failed).toMatchObject({ status: "failed", error: { code: "llm.failed" } });
    const errors = fixture.events.filter(
      ({ kind, payload }) => kind === "plugin.error" && payload.name === "broken",
    );
    expect(errors.length).toBeGreaterThan(0);
    await fixture.kernel.config.set(admin, { provider: "silent" });
    const turn = fixture.say("hello", "s2");
    await until(() =>
      fixture.events.some(({ kind, session_id }) => kind === "llm.call.request" && session_id === "s2"),
    );
    await fixture.kernel.plugins.setEnabled(admin, "silent", false);
    expect(await turn).toMatchObject({ status: "failed", error: { code: "llm.failed" } });
  },
  30_000,
);

verifies("bus.correlation", "accepts an answer only from the plugin that was asked", async () => {
  const hijack: KernelPlugin = {
    name: "hijack",
    version: "1.0.0",
    category: "skill",
    subscriptions: () => ["llm.call.request", "strategy.decide.request"],
    async onEvent(event, ctx) {
      const request_id = event.id;
      if (event.kind === "llm.call.request") {
        await ctx.emit("llm.call.response", { text: "HIJACKED", usage: {}, request_id }, event);
      } else
        await ctx.emit("strategy.decide.response", { next: "done", content: "HIJACKED", request_id }, event);
    },
  };
  const fixture = await createTestSession({ plugins: [hijack] });
  expect((await fixture.say("/slow 5\n/say mine")).output!.content).toBe("mine");
});

test("rejects a message that cannot be serialized before it is published", async () => {
  const fixture = await createTestSession();
  const attachments = [{ constructor: { prototype: 1 } }] as never;
  const sent = fixture.kernel.sessions.message(user, s1, { text: "x", attachments });
  await expect(sent).rejects.toMatchObject({ code: "request.invalid" });
});

test("interrupts a turn while an event handler hangs", async () => {
  const gate = gated();
  const stuck: KernelPlugin = {
    name: "stuck",
    version: "1.0.0",
    category: "skill",
    subscriptions: () => ["tool.call.start"],
    onEvent: () => new Promise(() => {}),
  };
  const fixture = await createTestSession({ tools: [gate.tool], plugins: [stuck] });
  const turn = fixture.say("/tool wait {}");
  await until(() => gate.running() === 1);
  const from = performance.now();
  await fixture.kernel.sessions.interrupt(user, s1);
  expect((await turn).status).toBe("cancelled");
  expect(performance.now() - from).toBeLessThan(5_000);
  gate.open();
});

verifies("subagent.enforced", "ends a child together with the call that spawned it", async () => {
  const gate = gated();
  const { yes } = yesPlugin();
  const fixture = await createTestSession({ tools: [gate.tool], plugins: [agentTool, yes] });
  const turn = fixture.say(`/tool agent ${JSON.stringify({ goal: "/tool wait {}" })}`);
  await until(() => gate.running() === 1);
  const { items } = await fixture.kernel.invocations.list(user, { export_id: "agent" }, { limit: 1 });
  await fixture.kernel.invocations.cancel(user, items[0]!.id);
  await turn;
  await until(async () => {
    const runs = await fixture.kernel.runs.list(user, {}, { limit: 10 });
    return runs.items.every(({ status }) => status !== "running");
  });
  const [child] = (await fixture.kernel.runs.list(user, {}, { limit: 1 })).items;
  expect(child).toMatchObject({ trigger: "subagent", status: "cancelled" });
  gate.open();
});

verifies("bus.scope", "rejects changes to the host's plugins by another org or a project", async () => {
  const fixture = await createTestSession();
  for (const scope of [
    { org_id: "org_two", project_id: null },
    { org_id: "org_local", project_id: "proj_default" },
  ]) {
    const other_key = { ...admin, actor: "key_1", scope };
    const change = fixture.kernel.plugins.setEnabled(other_key, "llm-echo", false);
    await expect(change).rejects.toMatchObject({ code: "policy.denied" });
  }
});

test("compacts a short conversation on request and rejects one that is too short", async () => {
  const fixture = await createTestSession();
  for (let n = 0; n < 4; n++) await fixture.say(`/say ${"words that fill a line ".repeat(60)}`);
  const chain = await fixture.kernel.sessions.compact(user, s1);
  expect(chain.origin).toBe("compaction");
  await fixture.say("hi", "s2");
  const short = fixture.kernel.sessions.compact(user, { session_id: "s2" });
  await expect(short).rejects.toMatchObject({ code: "request.invalid" });
});

/** Parts of requirements that the other tests of the loop do not cover. */
import type { KernelPlugin } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession } from "./test-session.ts";

function failing(name: string, more: { delta?: string; retryable?: boolean }): KernelPlugin {
  return {
    name,
    version: "1.0.0",
    category: "llm-provider",
    subscriptions: () => ["llm.call.request"],
    async onEvent(event, ctx) {
      const request_id = event.id;
      const { delta, retryable } = more;
      if (delta !== undefined) await ctx.emit("llm.call.delta", { content: delta, request_id }, event);
      const verdict = retryable === undefined ? {} : { retryable };
      const failure = { error: "cut off", kind: "connection" as const, request_id, ...verdict };
      await ctx.emit("llm.call.error", failure, event);
    },
  };
}

verifies("llm.retry", "does not retry after the first delta or when the provider forbids it", async () => {
  const fixture = await createTestSession({
    plugins: [failing("begun", { delta: "half an ans" }), failing("unwilling", { retryable: false })],
  });
  for (const provider of ["begun", "unwilling"]) {
    await fixture.kernel.config.set(admin, { [`providers.${provider}.plugin`]: provider, provider });
    const run = await fixture.say("hello", provider);
    expect(run).toMatchObject({ status: "failed", error: { code: "llm.failed" } });
    const tries = fixture.events.filter(
      ({ kind, session_id }) => kind === "llm.call.request" && session_id === provider,
    );
    expect(tries).toHaveLength(1);
  }
});

verifies("compact.auto", "uses the bound compactor and its blocks as the new context", async () => {
  const fixture = await createTestSession();
  await fixture.bind(manifest([{ id: "shrink", kind: "compactor", compactor: {} }]), {
    policy: { class: "worker" },
  });
  fixture.runner.script = () =>
    ok({
      seed_blocks: [{ kind: "input", content: [{ type: "text", text: "what matters" }] }],
      summary: { text: "they talked" },
    });
  for (let n = 0; n < 3; n++) await fixture.say(`/say ${"words that fill a line ".repeat(40)}`);
  const requests = fixture.events.filter(({ kind }) => kind === "llm.call.request").length;
  const chain = await fixture.kernel.sessions.compact(user, { session_id: "s1" });
  expect(fixture.runner.requests.map(({ export_id, op }) => [export_id, op])).toEqual([
    ["shrink", "compactor.compact"],
  ]);
  expect(fixture.events.filter(({ kind }) => kind === "llm.call.request")).toHaveLength(requests);
  expect(chain.origin).toBe("compaction");
  await fixture.say("and?");
  const { messages } = fixture.events.findLast(({ kind }) => kind === "llm.call.request")!.payload;
  const shown = JSON.stringify(messages);
  expect([shown.includes("they talked"), shown.includes("what matters")]).toEqual([true, true]);
  expect(shown).not.toContain("words that fill");
});

test("does not interrupt a turn of the same session id in another workspace", async () => {
  const gates: (() => void)[] = [];
  const wait = {
    ...addTool,
    name: "wait",
    parameters: { type: "object" },
    run: async () => {
      await new Promise<void>((resolve) => gates.push(resolve));
      return addTool.run({ a: 1, b: 2 }, {} as never);
    },
  };
  const fixture = await createTestSession({ tools: [wait] });
  const other = { session_id: "s1", workspace: "other" };
  await fixture.kernel.sessions.create(user, other);
  const turn = fixture.say("/tool wait {}");
  await until(() => gates.length === 1);
  expect(await fixture.kernel.sessions.interrupt(user, other)).toBe(false);
  gates[0]!();
  expect((await turn).status).toBe("completed");
});

verifies("bus.scope", "sends the approvals of sub-agents to the watchers of the parent session", async () => {
  const asking = { ...addTool, name: "asking", requires_approval: true };
  const fixture = await createTestSession({ tools: [asking], plugins: [agentTool] });
  await fixture.kernel.sessions.create(user, { session_id: "s1" });
  const shown: { id: string; target: string }[] = [];
  await fixture.kernel.fanout.attach(
    user,
    { session_id: "s1" },
    {
      since_entry: null,
      adapter_id: "test",
      send({ event }) {
        if (event.kind === "approval.request") {
          const { id, target_session_id } = event.payload as { id: string; target_session_id: string };
          shown.push({ id, target: target_session_id });
        }
        return 0;
      },
      ended: () => {},
    },
  );
  const goal = '/tool asking {"a": 1, "b": 2}';
  const turn = fixture.say(`/tool agent ${JSON.stringify({ goal })}`);
  await until(() => shown.length === 1);
  await fixture.kernel.approvals.answer(admin, shown[0]!.id, { response: "approve" });
  await until(() => shown.length === 2);
  expect(shown[1]!.target).toMatch(/^s1::agent::/);
  await fixture.kernel.approvals.answer(admin, shown[1]!.id, { response: "approve" });
  expect((await turn).output!.content).toContain("3");
});

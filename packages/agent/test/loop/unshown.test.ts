/** Halves of requirements that other tests of the loop leave out. */
import type { KernelPlugin } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { manifest } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, openTalk } from "./talk.ts";

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

verifies(
  "llm.retry",
  "after the first delta, or when the provider says no, nothing is tried again",
  async () => {
    const talk = await openTalk({
      plugins: [failing("begun", { delta: "half an ans" }), failing("unwilling", { retryable: false })],
    });
    for (const provider of ["begun", "unwilling"]) {
      await talk.kernel.config.set(admin, { [`providers.${provider}.plugin`]: provider, provider });
      const run = await talk.say("hello", provider);
      expect(run).toMatchObject({ status: "failed", error: { code: "llm.failed" } });
      const tries = talk.events.filter(
        ({ kind, session_id }) => kind === "llm.call.request" && session_id === provider,
      );
      expect(tries).toHaveLength(1);
    }
  },
);

verifies(
  "compact.auto",
  "the bound compactor does it where there is one, and its blocks are the context",
  async () => {
    const talk = await openTalk();
    await talk.bind(manifest([{ id: "shrink", kind: "compactor", compactor: {} }]), {
      policy: { class: "worker" },
    });
    talk.runner.script = () =>
      ok({
        seed_blocks: [{ kind: "input", content: [{ type: "text", text: "what matters" }] }],
        summary: { text: "they talked" },
      });
    for (let n = 0; n < 3; n++) await talk.say(`/say ${"words that fill a line ".repeat(40)}`);
    const asked = talk.events.filter(({ kind }) => kind === "llm.call.request").length;
    const chain = await talk.kernel.sessions.compact(user, { session_id: "s1" });
    expect(talk.runner.orders.map(({ export_id, op }) => [export_id, op])).toEqual([
      ["shrink", "compactor.compact"],
    ]);
    expect(talk.events.filter(({ kind }) => kind === "llm.call.request")).toHaveLength(asked);
    expect(chain.origin).toBe("compaction");
    await talk.say("and?");
    const { messages } = talk.events.findLast(({ kind }) => kind === "llm.call.request")!.payload;
    const shown = JSON.stringify(messages);
    expect([shown.includes("they talked"), shown.includes("what matters")]).toEqual([true, true]);
    expect(shown).not.toContain("words that fill");
  },
);

test("an interrupt in one workspace leaves the other's turn of that name alone", async () => {
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
  const talk = await openTalk({ tools: [wait] });
  const other = { session_id: "s1", workspace: "other" };
  await talk.kernel.sessions.create(user, other);
  const turn = talk.say("/tool wait {}");
  await until(() => gates.length === 1);
  expect(await talk.kernel.sessions.interrupt(user, other)).toBe(false);
  gates[0]!();
  expect((await turn).status).toBe("completed");
});

verifies("bus.scope", "who watches a session is asked for its sub-agents too", async () => {
  const asking = { ...addTool, name: "asking", requires_approval: true };
  const talk = await openTalk({ tools: [asking], plugins: [agentTool] });
  await talk.kernel.sessions.create(user, { session_id: "s1" });
  const shown: { id: string; target: string }[] = [];
  await talk.kernel.fanout.attach(
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
  const turn = talk.say(`/tool agent ${JSON.stringify({ goal })}`);
  await until(() => shown.length === 1);
  await talk.kernel.approvals.answer(admin, shown[0]!.id, { response: "approve" });
  await until(() => shown.length === 2);
  expect(shown[1]!.target).toMatch(/^s1::agent::/);
  await talk.kernel.approvals.answer(admin, shown[1]!.id, { response: "approve" });
  expect((await turn).output!.content).toContain("3");
});

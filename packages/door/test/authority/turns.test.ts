/** Running turns whose key, role or project is revoked: no further step starts, and the run records why. */

import type { KernelTool, Run } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import type { Caller } from "@backplane/ports";
import { defineKernelPlugin, toolOk } from "@backplane/sdk/kernel";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { admin, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "../../../agent/test/loop/test-session.ts";
import { createRevocableKey, type RevocableKey } from "./revocable-key.ts";

/** A tool that revokes the authority while it runs, and then returns a normal result. */
function createRevokingTool(revoke: () => Promise<unknown>): KernelTool {
  return {
    ...addTool,
    name: "revoke",
    parameters: { type: "object", properties: {} },
    async run() {
      await revoke();
      return toolOk("revoked");
    },
  };
}

async function runTurn(fixture: TestSession, caller: Caller, text: string, session_id = "s1"): Promise<Run> {
  const { settled } = await fixture.kernel.runs.start(caller, { session_id, input: { text } });
  return await settled;
}

const countDecisions = (fixture: TestSession) =>
  fixture.events.filter(({ kind }) => kind === "strategy.decide.request").length;
const countModelCalls = (fixture: TestSession) =>
  fixture.events.filter(({ kind }) => kind === "llm.call.request").length;

const REVOCATIONS: [string, string, (fixture: TestSession, key: RevocableKey) => Promise<unknown>][] = [
  ["a revoked key", "authority.key_revoked", (_fixture, key) => key.revoke()],
  [
    "an expired key",
    "authority.key_expired",
    async (fixture) => {
      fixture.clock.wall_offset = 3_600_000;
    },
  ],
  [
    "a disabled role",
    "authority.role_disabled",
    (fixture) => fixture.kernel.policy.patch(admin, "project", { roles: { user: { disabled: true } } }),
  ],
  [
    "an archived project",
    "authority.project_archived",
    (fixture) => fixture.kernel.policy.patch(admin, "project", { archived: true }),
  ],
];

for (const [label, code, revoke] of REVOCATIONS) {
  verifies("sec.revocation", `stops a turn with ${label} before its next step and records why`, async () => {
    let revokeAuthority: () => Promise<unknown> = async () => undefined;
    const fixture = await createTestSession({
      tools: [addTool, createRevokingTool(() => revokeAuthority())],
    });
    const expires_at = new Date(fixture.clock.now() + 1_800_000).toISOString();
    const key = await createRevocableKey(fixture, { expires_at });
    revokeAuthority = () => revoke(fixture, key);
    const run = await runTurn(
      fixture,
      key.caller,
      '/tool revoke {}\n/then\n/tool add {"a":1,"b":2}\n/then\n/say end',
    );
    expect(run).toMatchObject({ status: "failed", error: { code } });
    expect(countModelCalls(fixture)).toBe(1);
    // One decision before the model call and one before the tool call; none after the tool revoked the authority.
    expect(countDecisions(fixture)).toBe(2);
    const calls = (await fixture.kernel.invocations.list(admin, {}, { limit: 10 })).items;
    expect(calls.map(({ export_id }) => export_id)).toEqual(["revoke"]);
    expect(await fixture.kernel.runs.get(admin, run.id)).toMatchObject({ error: { code } });
    // A new turn is rejected too.
    const next = fixture.kernel.runs.start(key.caller, { session_id: "s2", input: { text: "/say hi" } });
    await expect(next).rejects.toMatchObject({ code });
  });
}

verifies("sec.revocation", "cancels a streaming model call when its key is revoked", async () => {
  const fixture = await createTestSession();
  const key = await createRevocableKey(fixture);
  const text = Array.from({ length: 400 }, (_, n) => `word${n}`).join(" ");
  const { run, settled } = await fixture.kernel.runs.start(key.caller, {
    session_id: "s1",
    input: { text: `/slow 1000\n/say ${text}` },
  });
  await until(() => fixture.events.some(({ kind }) => kind === "assistant.message.delta"));
  await key.revoke();
  const ended = await settled;
  expect(ended).toMatchObject({ id: run.id, status: "failed", error: { code: "authority.key_revoked" } });
  expect(ended.output!.content).not.toContain("word399");
});

verifies(
  "sec.revocation",
  "does not start a model call if the key is revoked while the strategy decides",
  async () => {
    let revokeAuthority: () => Promise<unknown> = async () => undefined;
    const slow = defineKernelPlugin({
      name: "strategy-slow",
      version: "1.0.0",
      category: "strategy",
      strategyId: "slow",
      subscriptions: () => ["strategy.decide.request"],
      async onEvent(event, ctx) {
        await revokeAuthority();
        const answer = { next: "llm" as const, provider: "echo", model: "echo", request_id: event.id };
        await ctx.emit("strategy.decide.response", answer, { session_id: event.session_id });
      },
    });
    const fixture = await createTestSession({ plugins: [slow] });
    const key = await createRevocableKey(fixture);
    revokeAuthority = () => key.revoke();
    const { settled } = await fixture.kernel.runs.start(key.caller, {
      session_id: "s1",
      input: { text: "/say hello" },
      strategy: "slow",
    });
    expect(await settled).toMatchObject({ status: "failed", error: { code: "authority.key_revoked" } });
    expect(countModelCalls(fixture)).toBe(0);
  },
);

verifies("sec.revocation", "does not retry a model call after its key was revoked", async () => {
  const fixture = await createTestSession();
  const key = await createRevocableKey(fixture);
  const { settled } = await fixture.kernel.runs.start(key.caller, {
    session_id: "s1",
    input: { text: "/error status 503 times 3\n/say done" },
  });
  await until(() => countModelCalls(fixture) === 1);
  await key.revoke();
  expect(await settled).toMatchObject({ status: "failed", error: { code: "authority.key_revoked" } });
  expect(countModelCalls(fixture)).toBe(1);
});

verifies(
  "sec.revocation",
  "stops a sub-agent with its parent and for the same reason when the key is revoked",
  async () => {
    let revokeAuthority: () => Promise<unknown> = async () => undefined;
    const { plugin } = autoApprovePlugin();
    const fixture = await createTestSession({
      tools: [addTool, createRevokingTool(() => revokeAuthority())],
      plugins: [agentTool, plugin],
    });
    const key = await createRevocableKey(fixture);
    revokeAuthority = () => key.revoke();
    const goal = '/tool revoke {}\n/then\n/tool add {"a":1,"b":2}';
    const run = await runTurn(
      fixture,
      key.caller,
      `/tool agent ${JSON.stringify({ goal })}\n/then\n/say end`,
    );
    expect(run).toMatchObject({ status: "failed", error: { code: "authority.key_revoked" } });
    const runs = (await fixture.kernel.runs.list(admin, {}, { limit: 10 })).items;
    expect(runs.map(({ error }) => error?.code)).toEqual(["authority.key_revoked", "authority.key_revoked"]);
    const tools = (await fixture.kernel.invocations.list(admin, {}, { limit: 10 })).items;
    expect(tools.map(({ export_id }) => export_id).sort()).toEqual(["agent", "revoke"]);
  },
);

verifies(
  "sec.revocation",
  "does not resume an interrupted turn whose key was revoked in the meantime",
  async () => {
    const asks: KernelTool = { ...addTool, name: "asks", requires_approval: true };
    const options = { host: { approval_timeout_ms: 3_600_000 }, tools: [asks] };
    const first = await createTestSession(options);
    const key = await createRevocableKey(first);
    const text = '/tool asks {"a":1,"b":2}\n/then\n/say end';
    await first.kernel.runs.start(key.caller, { session_id: "s1", input: { text } });
    const pending = async (fixture: TestSession) =>
      (await fixture.kernel.approvals.list(admin, { status: "pending" }, { limit: 5 })).items;
    await until(async () => (await pending(first)).length === 1);
    await key.revoke();
    await first.crash();
    const second = await createTestSession({ ...options, file: first.file });
    const ended = async () => (await second.kernel.runs.list(admin, {}, { limit: 5 })).items;
    await until(async () => (await ended()).every(({ status }) => status !== "running"));
    expect(await ended()).toMatchObject([{ status: "failed", error: { code: "authority.key_revoked" } }]);
    expect((await ended())[0]!.resumed).toBeUndefined();
    await until(async () => (await pending(second)).length === 0);
    const call = async () => (await second.kernel.invocations.list(admin, {}, { limit: 5 })).items[0]!;
    await until(async () => (await call()).status !== "waiting_approval");
    expect(await call()).toMatchObject({ status: "failed", error: { code: "authority.key_revoked" } });
    expect(countModelCalls(second)).toBe(0);
  },
);

test("does not continue a turn whose key is revoked while an approval is pending", async () => {
  const asks: KernelTool = { ...addTool, name: "asks", requires_approval: true };
  const fixture = await createTestSession({ tools: [asks] });
  const key = await createRevocableKey(fixture);
  const text = '/tool asks {"a":1,"b":2}\n/then\n/say end';
  const { settled } = await fixture.kernel.runs.start(key.caller, { session_id: "s1", input: { text } });
  await until(async () => (await fixture.kernel.health()).invocations.waiting_approval === 1);
  await key.revoke();
  expect(await settled).toMatchObject({ status: "failed", error: { code: "authority.key_revoked" } });
  const [approval] = (await fixture.kernel.approvals.list(admin, {}, { limit: 5 })).items;
  expect(approval).toMatchObject({ status: "cancelled" });
  expect(approval!.feedback).toContain(key.id);
  expect(countModelCalls(fixture)).toBe(1);
});

verifies(
  "sec.revocation",
  "does not continue a conversation after an approval that outlived its turn if the role is disabled",
  async () => {
    const approval_tool = { ...addTool, requires_approval: true };
    const options = { host: { approval_timeout_ms: 3_600_000 }, tools: [approval_tool] };
    const first = await createTestSession(options);
    const key = await createRevocableKey(first, { role: "admin" });
    const text = '/tool add {"a":1,"b":2}';
    await first.kernel.sessions.sendMessage(key.caller, { session_id: "s1" }, { text });
    await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_call"));
    await first.kernel.stop(1_000);
    await first.crash();
    const second = await createTestSession({ ...options, file: first.file });
    await second.kernel.policy.patch(admin, "org", { roles: { admin: { disabled: true } } });
    const [call] = (await second.kernel.invocations.list(admin, {}, { limit: 5 })).items;
    const state = async () => (await second.kernel.invocations.get(admin, call!.id)).error?.code;
    await until(async () => (await state()) === "authority.role_disabled");
    // A turn that had started would be recorded by now.
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await second.kernel.runs.list(admin, {}, { limit: 5 })).items).toHaveLength(1);
    expect(countModelCalls(second)).toBe(0);
  },
);

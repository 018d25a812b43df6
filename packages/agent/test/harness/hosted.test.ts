/** A harness with an agent loop of its own: its transcript, and the permissions that its agent asks for. */
import {
  addTokenUsage,
  type Block,
  type ChatMessage,
  type JsonObject,
  tokenUsage,
} from "@backplane/contract";
import { admin, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "../loop/test-session.ts";
import { harnessPackage, type ScriptedHarnessCall, scriptHarness } from "./test-harness.ts";

const HOSTED = { mode: "hosted", supports: ["continue", "tool"] };
const ACTION = { agent: "codex", action: "command", target: "rm notes.txt" };

const text = (content: string) => [{ type: "text" as const, text: content }];
const TRANSCRIPT: Block[] = [
  { kind: "response", content: text("Let me look.") },
  { kind: "tool_call", content: [], tool_call_id: "c1", name: "shell", input: { command: "ls" } },
  { kind: "tool_result", content: text("notes.txt"), tool_call_id: "c1" },
];

async function runHosted(
  fixture: TestSession,
  script: (running: ScriptedHarnessCall) => Promise<unknown>,
  session_id = "s1",
) {
  scriptHarness(fixture, async (running) => {
    await script(running);
    return { summary: { text: "There is one file." } };
  });
  const body = { session_id, input: { text: "What is here?" }, harness: { export_id: "triage" } };
  return await (await fixture.kernel.runs.start(user, body)).settled;
}

const headChainId = async (fixture: TestSession, session_id: string) =>
  (await fixture.kernel.sessions.get(user, { session_id })).head_chain_id;

verifies(
  "session.portable",
  "shows the model of the next turn what a hosted harness said and did",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage(HOSTED));
    await fixture.say("/say hello");
    const run = await runHosted(fixture, async ({ caller }) => {
      const chain = await headChainId(fixture, "s1");
      // The harness reads the messages from turns of the built-in loop.
      const before = await fixture.kernel.chains.listBlocks(caller, chain, 0, 100);
      expect(before.map(({ kind }) => kind)).toEqual(["input", "response", "input"]);
      await fixture.kernel.chains.addBlocks(caller, chain, TRANSCRIPT);
    });
    expect(run).toMatchObject({ status: "completed", error: null });
    expect(await fixture.say("/say goodbye")).toMatchObject({ status: "completed" });
    const request = fixture.events.findLast(({ kind }) => kind === "llm.call.request");
    const messages = request!.payload.messages as unknown as ChatMessage[];
    expect(messages.filter(({ role }) => role !== "system")).toMatchObject([
      { role: "user", content: "/say hello" },
      { role: "assistant", content: "hello" },
      { role: "user", content: "What is here?" },
      { role: "assistant", content: text("Let me look.") },
      { role: "assistant", tool_calls: [{ id: "c1", name: "shell", args: { command: "ls" } }] },
      { role: "tool", tool_call_id: "c1" },
      { role: "assistant", content: "There is one file." },
      { role: "user", content: "/say goodbye" },
    ]);
  },
);

test("counts the model calls of a hosted harness for its run, and reports their tokens at its end", async () => {
  const { promise: may_settle, resolve: settleCalls } = Promise.withResolvers<void>();
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage(HOSTED, ["llm:invoke"]));
  const { kernel, store } = fixture;
  const settle = store.llm_calls.settle.bind(store.llm_calls);
  let usage = tokenUsage();
  const cancelled: string[] = [];
  const run = await runHosted(fixture, async ({ caller }) => {
    const [model] = await kernel.llm.listModels(caller);
    const messages: ChatMessage[] = [{ role: "user", content: "/say hello" }];
    const body = { model: model!.id, messages } as unknown as JsonObject;
    const request = { model: model!.id, messages, body, stream: true, tools: [], options: {}, headers: {} };
    const call = (signal = new AbortController().signal) =>
      kernel.llm.call(caller, { protocol: "chat", ...request }, signal);
    for (let n = 0; n < 2; n++)
      for await (const part of (await call()).parts)
        if (part.type === "end") usage = addTokenUsage(usage, part.usage);
    // The last call ends after the run, like a call that is cancelled because its token has expired.
    store.llm_calls.settle = async (...args) => {
      await may_settle;
      return await settle(...args);
    };
    cancelled.push((await call(AbortSignal.abort())).id);
  });
  expect(usage.output).toBeGreaterThan(0);
  expect(run).toMatchObject({ status: "completed", usage, iterations: 2 });
  const published = await store.outbox.read(0, 100, user.scope);
  const event = published.find(({ type }) => type === "run.completed");
  expect(event).toMatchObject({ subject: { id: run.id }, summary: { tokens: usage.total } });
  settleCalls();
  await expect.poll(() => kernel.llm.get(user, cancelled[0]!)).toMatchObject({ status: "cancelled" });
  expect(await kernel.runs.get(user, run.id)).toMatchObject({ usage, iterations: 3 });
});

test("lets a hosted harness write only to the conversation that it continues", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage(HOSTED));
  await fixture.say("/say hello", "other");
  const denied = { code: "policy.denied" };
  const run = await runHosted(fixture, async ({ caller, request }) => {
    expect(request.context.gateway.scopes).toContain("chains:write");
    const { chains } = fixture.kernel;
    const other = await headChainId(fixture, "other");
    await expect(chains.addBlocks(caller, other, TRANSCRIPT)).rejects.toMatchObject(denied);
    await expect(chains.create(caller, { session_id: "s1" })).rejects.toMatchObject(denied);
    const own_chain = await headChainId(fixture, "s1");
    await expect(chains.fork(caller, own_chain, { child_id: "copy" })).rejects.toMatchObject(denied);
  });
  expect(run).toMatchObject({ status: "completed", error: null });
  expect((await fixture.tape("other")).filter(({ meta }) => meta.source === "block")).toEqual([]);
});

test("withholds chains:write from a harness that is not hosted", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage({ supports: ["continue"] }));
  let scopes: readonly string[] = ["none seen"];
  await runHosted(fixture, async ({ request }) => {
    scopes = request.context.gateway.scopes;
  });
  expect(scopes).toEqual(["chains:read", "runs:read", "runs:write", "sessions:read"]);
});

test("requests approval for an action of a harness's agent, and records the answer with its run", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage(HOSTED));
  const { approvals, invocations } = fixture.kernel;
  const body = { binding_id: "bind_core_harness_action", input: ACTION };
  for (const [response, ending] of [
    ["approve", { status: "succeeded", error: null }],
    ["reject", { status: "failed", error: { code: "approval.rejected" } }],
  ] as const) {
    let invocation_id = "";
    const run = await runHosted(fixture, async ({ caller }) => {
      const ticket = await invocations.invoke(caller, body);
      invocation_id = ticket.invocation.id;
      const approval = await approvals.get(admin, ticket.invocation.approval_id!);
      expect(approval).toMatchObject({
        tool: "harness_action",
        session_id: "s1",
        input: ACTION,
        reason: "the tool requires approval",
      });
      await approvals.answer(admin, approval.id, { response });
      await ticket.settled;
    });
    expect(run).toMatchObject({ status: "completed", error: null });
    expect(await invocations.get(user, invocation_id)).toMatchObject({ ...ending, run_id: run.id });
  }
});

test("does not offer harness_action to models", async () => {
  const fixture = await createTestSession();
  await fixture.say("/say hello");
  const request = fixture.events.findLast(({ kind }) => kind === "llm.call.request");
  expect(JSON.stringify(request!.payload.tools)).not.toContain("harness_action");
});

import type { Entry, KernelPlugin, KernelTool } from "@backplane/contract";
import { plugin as echo } from "@backplane/plugin-llm-echo";
import type { Caller } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "./test-session.ts";

const s1 = { session_id: "s1" };

/** A tool that adds its name to `calls` at every call. The first call hangs forever if its arguments set `hang`. */
function countingTool(name: string, effect_class: KernelTool["effect_class"], calls: string[]): KernelTool {
  return {
    name,
    description: "Counts.",
    parameters: { type: "object", properties: { hang: { type: "boolean" } } },
    ...(effect_class === undefined ? {} : { effect_class }),
    run({ hang }) {
      calls.push(name);
      const first = calls.filter((call) => call === name).length === 1;
      return hang === true && first ? new Promise(() => {}) : toolOk(`${name} ran`);
    },
  };
}

const assistantTexts = (tape: readonly Entry[]) =>
  tape.flatMap(({ kind, payload }) =>
    kind === "message" && payload.role === "assistant" ? [payload.content] : [],
  );

/** The roles of messages and the kinds of calls and results, in the order of the tape. */
const contextKinds = (tape: readonly Entry[]) =>
  tape.flatMap(({ kind, payload }) =>
    kind === "message" ? [payload.role] : kind === "event" || kind === "anchor" ? [] : [kind],
  );

async function waitForEnd(fixture: TestSession, run_id: string) {
  await until(async () => (await fixture.kernel.runs.get(user, run_id)).status !== "running");
  return await fixture.kernel.runs.get(user, run_id);
}

/** A caller with an API key that can be revoked. */
async function createKeyHolder({
  kernel,
}: TestSession): Promise<{ caller: Caller; revoke: () => Promise<void> }> {
  const options = { name: "k", role: "user", scopes: ["sessions:write"] };
  const { key, token } = await kernel.keys.create(admin, options as never);
  const caller = await kernel.keys.authenticate(token);
  return { caller, revoke: () => kernel.keys.revoke(admin, key.id) };
}

test("resumes a turn after a crash during its tool calls and repeats only calls that may run twice", async () => {
  const calls: string[] = [];
  const tools = [
    countingTool("look", "read_only", calls),
    countingTool("pay", undefined, calls),
    countingTool("quick", "read_only", calls),
  ];
  const first = await createTestSession({ tools });
  const text =
    '/say working\n/tool look {"hang": true}\n/tool pay {"hang": true}\n/tool quick {}\n/then\n/say over';
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_result"));
  const pendingApprovals = async () =>
    (await first.kernel.approvals.list(user, { status: "pending" }, { limit: 5 })).items;
  await until(async () => (await pendingApprovals()).length === 1);
  await first.kernel.approvals.answer(admin, (await pendingApprovals())[0]!.id, { response: "approve" });
  await until(() => calls.length === 3);
  await first.crash();

  const second = await createTestSession({ tools, file: first.file });
  const run = await waitForEnd(second, run_id);
  expect(run).toMatchObject({ status: "completed", resumed: 1, iterations: 2, output: { content: "over" } });
  expect(calls.toSorted()).toEqual(["look", "look", "pay", "quick"]);
  const tape = await second.tape();
  expect(assistantTexts(tape)).toEqual(["over"]);
  const called_tools = tape.filter(({ kind }) => kind === "tool_call").map(({ payload }) => payload.name);
  expect(called_tools.map((name) => name as string).toSorted()).toEqual(["look", "pay", "quick"]);
  const results = tape.filter(({ kind }) => kind === "tool_result");
  expect(results.filter(({ payload }) => payload.ok === true)).toHaveLength(2);
  expect(results).toHaveLength(3);
  // The model is informed that the outcome of the payment is unknown.
  const request = second.events.findLast(({ kind }) => kind === "llm.call.request")!;
  expect(JSON.stringify(request.payload.messages)).toContain("never run twice");
  const resumed = tape.filter(({ payload }) => payload.name === "x.loop.turn.resumed");
  expect(resumed.map(({ payload }) => payload.data)).toMatchObject([{ run_id, resumed: 1, from: "answer" }]);
  // The first answer is read from the tape, so the model is not called again for it.
  expect(tape.filter(({ payload }) => payload.name === "llm.call.response")).toHaveLength(2);
});

verifies("tools.token-cost", "keeps the tools that the model found before a crash", async () => {
  const calls: string[] = [];
  const weather = { ...countingTool("weather", "read_only", calls), description: "Weather.", deferred: true };
  const tools = [addTool, weather, countingTool("wait", "read_only", calls)];
  const first = await createTestSession({ tools });
  const text =
    '/tool tool_search {"query": "weather"}\n/then\n/tool wait {"hang": true}\n/then\n/tool weather {}\n/then\n/say over';
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(() => calls.length === 1);
  await first.crash();
  const second = await createTestSession({ tools, file: first.file });
  expect((await waitForEnd(second, run_id)).output?.content).toBe("over");
  expect(calls).toEqual(["wait", "wait", "weather"]);
});

test("calls the model again after a crash during its answer", async () => {
  const first = await createTestSession();
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, {
    text: "/slow 50\n/say one two three four five six",
  });
  await until(() => first.events.some(({ kind }) => kind === "assistant.message.delta"));
  await first.crash();
  const second = await createTestSession({ file: first.file });
  expect(await waitForEnd(second, run_id)).toMatchObject({ status: "completed", resumed: 1 });
  expect(assistantTexts(await second.tape())).toEqual(["one two three four five six"]);
  // The session is free again.
  expect(await second.say("and now?")).toMatchObject({ status: "completed" });
});

test("keeps an answer that was given before a crash without calling the model again", async () => {
  const first = await createTestSession();
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, {
    text: '/tool add {"a": 1, "b": 2}',
  });
  await waitForEnd(first, run_id);
  const tape = await first.tape();
  // Simulates a crash between the model's last answer and the end of the turn.
  const last = tape.findIndex(({ kind, payload }) => kind === "message" && payload.role === "assistant");
  const entries_before_answer = tape
    .slice(1, last)
    .map(({ kind, payload, meta, date }) => ({ kind, payload, meta, date }));
  const { node_id: _, ...row } = { ...(await first.kernel.runs.get(user, run_id)), node_id: "" };
  const key = { scope: user.scope, workspace: "default", session_id: "cut" };
  await first.kernel.sessions.create(user, { session_id: "cut" });
  const run = { ...row, id: `${run_id.slice(0, -4)}zzzz`, session_id: "cut", status: "running" as const };
  const open = {
    ...run,
    output: null,
    error: null,
    ended_at: null,
    iterations: 0,
    node_id: "node_dead",
    fence: 0,
    joins: 0,
  };
  await first.store.runs.start(
    open,
    { key, entries: entries_before_answer },
    entries_before_answer.length,
    {},
  );
  await first.crash();
  const second = await createTestSession({ file: first.file });
  expect(await waitForEnd(second, run.id)).toMatchObject({ status: "completed", resumed: 1, iterations: 2 });
  expect(second.events.filter(({ kind }) => kind === "llm.call.request")).toEqual([]);
  expect(assistantTexts(await second.tape("cut"))).toEqual(assistantTexts(tape));
});

test("adds a message to a resumed turn and ends its calls on an interrupt", async () => {
  const calls: string[] = [];
  const hanging: KernelTool = {
    ...countingTool("look", "read_only", calls),
    run: () => new Promise(() => {}),
  };
  const first = await createTestSession({ tools: [hanging] });
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: "/tool look {}" });
  await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_call"));
  await first.crash();
  const second = await createTestSession({ tools: [hanging], file: first.file });
  const joined = await second.kernel.sessions.sendMessage(user, s1, { text: "/say hurry" });
  expect(joined.run_id).toBe(run_id);
  expect(await second.kernel.sessions.interrupt(user, s1)).toBe(true);
  expect(await waitForEnd(second, run_id)).toMatchObject({ status: "cancelled" });
  const tape = await second.tape();
  expect(contextKinds(tape)).toEqual(["user", "tool_call", "user", "tool_result", "assistant"]);
});

test("ends a turn during which the gateway crashed twice and records the reason", async () => {
  const calls: string[] = [];
  const tools = [{ ...countingTool("look", "read_only", calls), run: () => new Promise<never>(() => {}) }];
  const first = await createTestSession({ tools });
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: "/tool look {}" });
  await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_call"));
  await first.crash();
  const second = await createTestSession({ tools, file: first.file });
  await until(async () => (await second.kernel.runs.get(user, run_id)).resumed === 1);
  await second.crash();
  const third = await createTestSession({ tools, file: first.file });
  expect(await waitForEnd(third, run_id)).toMatchObject({
    status: "failed",
    error: { code: "loop.failed", message: expect.stringContaining("twice") },
  });
  const tape = await third.tape();
  expect(contextKinds(tape)).toEqual(["user", "tool_call", "tool_result", "assistant"]);
  expect(await third.say("hello")).toMatchObject({ status: "completed" });
});

test("ends interrupted turns when resuming is off or the caller lost its authority", async () => {
  const slow = "/slow 50\n/say one two three four five six";
  const first = await createTestSession();
  const { caller, revoke } = await createKeyHolder(first);
  const user_run = await first.kernel.sessions.sendMessage(user, s1, { text: slow });
  const key_run = await first.kernel.sessions.sendMessage(caller, { session_id: "s2" }, { text: slow });
  await until(() => first.events.filter(({ kind }) => kind === "assistant.message.delta").length > 2);
  await revoke();
  await first.crash();
  const second = await createTestSession({
    file: first.file,
    host: { resume_turns: false },
  });
  expect(await waitForEnd(second, user_run.run_id)).toMatchObject({
    status: "failed",
    error: { code: "loop.failed" },
  });
  expect(assistantTexts(await second.tape())).toEqual([""]);
  expect((await waitForEnd(second, key_run.run_id)).resumed).toBeUndefined();

  const third = await createTestSession();
  const key_holder = await createKeyHolder(third);
  const revoked_run = await third.kernel.sessions.sendMessage(key_holder.caller, s1, { text: slow });
  await until(() => third.events.some(({ kind }) => kind === "assistant.message.delta"));
  await key_holder.revoke();
  await third.crash();
  const fourth = await createTestSession({ file: third.file });
  expect(await waitForEnd(fourth, revoked_run.run_id)).toMatchObject({
    status: "failed",
    error: { code: "authority.key_revoked" },
  });
});

verifies("tools.context", "returns control to the user after a crash when the result yields", async () => {
  const calls: string[] = [];
  const tools = [countingTool("look", "read_only", calls)];
  const first = await createTestSession({ tools });
  await first.bind(manifest([toolExport("choose")]), { policy: { class: "worker" } });
  first.runner.script = () => ok({ content: [{ type: "text", text: "Which one?" }], yield_to_user: true });
  const text = '/tool choose {}\n/tool look {"hang": true}\n/then\n/say went on';
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_result"));
  await until(() => calls.length === 1);
  await first.crash();
  const second = await createTestSession({ tools, file: first.file });
  expect(await waitForEnd(second, run_id)).toMatchObject({
    status: "completed",
    iterations: 1,
    output: { content: "Which one?" },
  });
});

/** Makes a provider number its tool calls from zero in every answer, as some model servers do. */
const numberingFromZero = (plugin: KernelPlugin): KernelPlugin => ({
  ...plugin,
  onEvent(event, ctx) {
    const emit: typeof ctx.emit = (kind, payload, options) => {
      const { tool_calls } = payload as { tool_calls?: { id: string }[] };
      const renumbered = tool_calls?.map((call, n) => ({ ...call, id: `call_${n}` }));
      return ctx.emit(
        kind,
        renumbered === undefined ? payload : { ...payload, tool_calls: renumbered },
        options,
      );
    };
    return plugin.onEvent!(event, { ...ctx, emit });
  },
});

test("runs a tool call of a later answer even when the model reuses an id", async () => {
  const calls: string[] = [];
  const tools = [countingTool("look", "read_only", calls), countingTool("count", "read_only", calls)];
  const provider = numberingFromZero(echo);
  const first = await createTestSession({ tools, provider });
  const text = '/tool look {"hang": true}\n/then\n/tool count {}\n/then\n/say over';
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(() => calls.length === 1);
  await first.crash();
  const second = await createTestSession({ tools, provider, file: first.file });
  expect(await waitForEnd(second, run_id)).toMatchObject({
    status: "completed",
    output: { content: "over" },
  });
  expect(calls).toEqual(["look", "look", "count"]);
});

verifies("inv.effect-class", "repeats a plugin's read-only tool call after a restart", async () => {
  const calls: string[] = [];
  const tools = [addTool, countingTool("look", "read_only", calls)];
  const first = await createTestSession({ tools });
  await first.kernel.sessions.sendMessage(user, s1, { text: '/tool look {"hang": true}' });
  await until(() => calls.length === 1);
  await first.crash();
  const second = await createTestSession({ tools, file: first.file });
  await until(() => calls.length === 2);
  const result = async () => (await second.tape()).find(({ kind }) => kind === "tool_result");
  await until(async () => (await result()) !== undefined);
  expect((await result())?.payload).toMatchObject({ ok: true });
});

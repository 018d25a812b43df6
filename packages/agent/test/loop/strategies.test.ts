/** The effect of a strategy's decisions on its turn, and the record of the turn. */
import {
  type AgentLoopState,
  type BusEvent,
  type Decision,
  type KernelPlugin,
  LOOP_LIMITS,
  type TokenUsage,
} from "@backplane/contract";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { describe, expect, test } from "vitest";
import { createTestSession, strategyPlugin } from "./test-session.ts";

/** A strategy that makes these decisions one after another and records the states that it receives. */
function scriptedStrategy(...decisions: Decision[]) {
  const states: AgentLoopState[] = [];
  const plugin = strategyPlugin("scripted", (state) => decisions[states.push(state) - 1] ?? { next: "done" });
  return { plugin, states };
}

const memory: KernelPlugin = {
  name: "memory-none",
  version: "1.0.0",
  category: "memory",
  subscriptions: () => ["memory.query"],
  onEvent: async (event, ctx) =>
    void (await ctx.emit("memory.result", { hits: [], request_id: event.id }, event)),
};

async function runTurn(text: string, decisions: Decision[], plugins: KernelPlugin[] = []) {
  const { plugin, states } = scriptedStrategy(...decisions);
  const fixture = await createTestSession({ plugins: [plugin, ...plugins] });
  await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "scripted" });
  const ended = await fixture.say(text);
  const eventsOf = (kind: string) => fixture.events.filter((event: BusEvent) => event.kind === kind);
  return { fixture, ended, states, eventsOf };
}

describe("the order of steps", () => {
  test.for<[string, string, Decision[]]>([
    ["memory after a model call", "/say hi", [{ next: "llm" }, { next: "memory", query: "x" }]],
    ["tools when the model called none", "/say hi", [{ next: "llm" }, { next: "tool" }]],
    ["tools before a model call", "/say hi", [{ next: "tool" }]],
    [
      "memory twice",
      "/say hi",
      [
        { next: "memory", query: "x" },
        { next: "memory", query: "x" },
      ],
    ],
  ])("fails a turn whose strategy requests %s", async ([, text, decisions]) => {
    const { ended } = await runTurn(text, decisions);
    expect(ended).toMatchObject({ status: "failed", error: { code: "loop.failed" } });
  });
});

test("fails a turn with the cause when its strategy throws", async () => {
  const broken = strategyPlugin("broken", () => {
    throw new Error("no plan");
  });
  const fixture = await createTestSession({ plugins: [broken] });
  await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "broken" });
  const ended = await fixture.say("hello");
  expect(ended).toMatchObject({
    status: "failed",
    error: { code: "plugin_failed", message: expect.stringMatching(/broken failed: no plan/) as string },
  });
});

test("sends the system text of the strategy before the conversation", async () => {
  const { eventsOf } = await runTurn("/say hi", [{ next: "llm", system: "Be brief." }]);
  const [request] = eventsOf("llm.call.request");
  expect(request!.payload.messages).toMatchObject([
    { role: "system", content: "Be brief." },
    { role: "user" },
  ]);
});

test("shows the strategy the results of the last step only", async () => {
  const text = '/tool add {"a": 1, "b": 2}\n/then\n/say done';
  const { states, ended } = await runTurn(text, [{ next: "llm" }, { next: "tool" }, { next: "llm" }]);
  expect(states.map(({ phase, tool_results }) => [phase, tool_results.map(({ brief }) => brief)])).toEqual([
    ["start", []],
    ["llm", []],
    ["tool", ["3"]],
    ["llm", []],
  ]);
  expect(ended).toMatchObject({ status: "completed", iterations: 2, output: { content: "done" } });
});

test("records the tool calls of the last answer although they did not run", async () => {
  const { fixture, eventsOf } = await runTurn('/tool add {"a": 1, "b": 2}', [{ next: "llm" }]);
  const last = (await fixture.tape()).at(-1)!;
  expect(last.payload.tool_calls).toMatchObject([{ name: "add" }]);
  expect(eventsOf("tool.call.request")).toEqual([]);
});

test("adds up the usage of all model calls of a turn", async () => {
  const text = '/tool add {"a": 1, "b": 2}\n/then\n/say done';
  const { ended, eventsOf } = await runTurn(text, [{ next: "llm" }, { next: "tool" }, { next: "llm" }]);
  const usages = eventsOf("llm.call.response").map(({ payload }) => payload.usage as TokenUsage);
  expect(usages).toHaveLength(2);
  expect(ended.usage.output).toBe(usages[0]!.output + usages[1]!.output);
  expect(ended.usage.output).toBeGreaterThan(usages[1]!.output);
});

/** A turn of the session s1 that has made its first model call and does not end before `gate` is resolved. */
async function startGatedTurn() {
  const gate = Promise.withResolvers<void>();
  const requested = Promise.withResolvers<void>();
  let steps = 0;
  const slow: KernelPlugin = {
    ...scriptedStrategy().plugin,
    async onEvent(event, ctx) {
      const step = ++steps;
      if (step === 2) {
        requested.resolve();
        await gate.promise;
      }
      const answer = { next: step % 2 === 1 ? "llm" : "done", request_id: event.id };
      await ctx.emit("strategy.decide.response", answer as never, event);
    },
  };
  const fixture = await createTestSession({ plugins: [slow] });
  await fixture.kernel.sessions.create(user, { session_id: "s1", strategy: "scripted" });
  const turn = fixture.say("/say one");
  await requested.promise;
  return { fixture, turn, gate };
}

test("answers a message that arrives after the last model call in the same turn", async () => {
  const { fixture, turn, gate } = await startGatedTurn();
  const { sessions } = fixture.kernel;
  const joined = await sessions.sendMessage(user, { session_id: "s1" }, { text: "/say two" });
  gate.resolve();
  const ended = await turn;
  expect(ended).toMatchObject({ id: joined.run_id, iterations: 2, output: { content: "two" } });
  const answers = (await fixture.tape()).filter(({ payload }) => payload.role === "assistant");
  expect(answers.map(({ payload }) => payload.content)).toEqual(["one", "two"]);
});

test("refuses to start a run while a turn of the session is running", async () => {
  const { fixture, turn, gate } = await startGatedTurn();
  const started = fixture.kernel.runs.start(user, { session_id: "s1", input: { text: "/say two" } });
  await expect(started).rejects.toMatchObject({ code: "session.busy" });
  gate.resolve();
  expect((await turn).output?.content).toBe("one");
});

test("writes a memory at the end of a turn if a memory plugin is loaded", async () => {
  const done: Decision = { next: "done", content: "ok", write: { text: "the user likes tea" } };
  const remembered = await runTurn("hello", [done], [memory]);
  expect(remembered.eventsOf("memory.write").map(({ payload }) => payload.entry)).toEqual([
    { text: "the user likes tea" },
  ]);
  expect((await runTurn("hello", [done])).eventsOf("memory.write")).toEqual([]);
});

test("fails a turn whose model requests too many calls in one step", async () => {
  const calls = (count: number) => Array(count).fill('/tool add {"a": 1, "b": 2}').join("\n");
  const decisions: Decision[] = [{ next: "llm" }, { next: "tool" }];
  const { ended } = await runTurn(calls(LOOP_LIMITS.tools_per_step + 1), decisions);
  expect(ended).toMatchObject({ status: "failed", error: { code: "loop.failed" } });
  expect((await runTurn(calls(LOOP_LIMITS.tools_per_step), decisions)).ended.status).toBe("completed");
});

test("writes an event at the start and at the end of a turn, with the code of a failure", async () => {
  const events = async (decisions: Decision[]) => {
    const { fixture, ended } = await runTurn("/say hi", decisions);
    const all = await fixture.store.outbox.read(0, 100, user.scope);
    return all.flatMap(({ type, subject, summary }) =>
      subject.id === ended.id ? [[type, summary.code]] : [],
    );
  };
  expect(await events([{ next: "llm" }])).toEqual([
    ["run.started", undefined],
    ["run.completed", undefined],
  ]);
  expect(await events([{ next: "tool" }])).toEqual([
    ["run.started", undefined],
    ["run.failed", "loop.failed"],
  ]);
});

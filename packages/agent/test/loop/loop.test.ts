import type { BusEvent, KernelTool } from "@backplane/contract";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, gatedTool, strategyPlugin, type TestSession } from "./test-session.ts";

const kindsOf = (events: readonly BusEvent[], session_id = "s1") =>
  events.filter((event) => event.session_id === session_id).map(({ kind }) => kind);

verifies(
  ["loop.order", "loop.echo"],
  "publishes the events of a turn in a fixed order, without an API key",
  async () => {
    const fixture = await createTestSession();
    const run = await fixture.say('/tool add {"a": 2, "b": 3}');
    expect(run).toMatchObject({
      status: "completed",
      iterations: 2,
      output: { content: "Tool results:\n- add: 5" },
    });
    const published_kinds = kindsOf(fixture.events).filter((kind) => !kind.endsWith(".delta"));
    expect(published_kinds).toEqual([
      "user.message.received",
      "strategy.decide.request",
      "strategy.decide.response",
      "llm.call.request",
      "llm.call.response",
      "strategy.decide.request",
      "strategy.decide.response",
      "tool.call.request",
      "tool.call.start",
      "tool.call.result",
      "strategy.decide.request",
      "strategy.decide.response",
      "llm.call.request",
      "llm.call.response",
      "strategy.decide.request",
      "strategy.decide.response",
      "assistant.message.done",
    ]);
    const text = fixture.events.filter(({ kind }) => kind === "assistant.message.delta");
    expect(text.map(({ payload }) => payload.content).join("")).toBe("Tool results:\n- add: 5");
  },
);

test("keeps the turn on the tape with valid hashes and records its call as an invocation", async () => {
  const fixture = await createTestSession();
  const run = await fixture.say('/tool add {"a": 2, "b": 3}');
  const tape = await fixture.tape();
  expect(tape.map(({ kind }) => kind).filter((kind) => kind !== "event")).toEqual([
    "anchor",
    "message",
    "tool_call",
    "tool_result",
    "message",
  ]);
  expect(tape.at(-1)!.id).toBe(run.output!.entry_id);
  expect(await fixture.kernel.chains.verify(user, run.chain_id)).toBeNull();
  const { items } = await fixture.kernel.invocations.list(user, { session_id: "s1" }, { limit: 10 });
  expect(items).toMatchObject([{ export_id: "add", status: "succeeded", run_id: run.id, class: "inline" }]);
});

verifies(
  "loop.parallel-tools",
  "runs the calls of one step in parallel and keeps results in call order",
  async () => {
    const gate = gatedTool("wait");
    const fixture = await createTestSession({ tools: [gate.tool] });
    const turn = fixture.say('/tool wait {"n": 1}\n/tool wait {"n": 2}\n/tool wait {"n": 3}');
    await until(() => gate.started === 3);
    for (const release of gate.releases.toReversed()) release();
    expect((await turn).output!.content).toBe(
      "Tool results:\n- wait: done 1\n- wait: done 2\n- wait: done 3",
    );
  },
);

verifies(
  "loop.order",
  "ends an interrupted turn without another model call and cancels running tools",
  async () => {
    const gate = gatedTool("wait");
    const fixture = await createTestSession({ tools: [gate.tool] });
    const turn = fixture.say('/tool wait {"n": 1}\n/tool wait {"n": 2}');
    await until(() => gate.started === 2);
    const modelCalls = () => fixture.events.filter(({ kind }) => kind === "llm.call.request").length;
    const before = modelCalls();
    expect(await fixture.kernel.sessions.interrupt(user, { session_id: "s1" })).toBe(true);
    // The tools never return on their own, so the turn can end only because the interrupt cancels them.
    const run = await turn;
    expect(gate.started).toBe(2);
    expect(modelCalls()).toBe(before);
    expect(run).toMatchObject({ status: "cancelled", error: { code: "cancelled" } });
    expect(gate.aborted.sort()).toEqual(["1", "2"]);
    await until(async () => (await fixture.tape()).filter(({ kind }) => kind === "tool_result").length === 2);
    expect(await fixture.kernel.sessions.interrupt(user, { session_id: "s1" })).toBe(false);
    for (const release of gate.releases) release();
    // The calls that the previous turn left behind do not block the next turn.
    expect((await fixture.say("hello")).status).toBe("completed");
  },
);

test("interrupts a turn while the model is answering", async () => {
  const fixture = await createTestSession();
  const turn = fixture.say(`/slow 50\n/say ${"word ".repeat(200)}`);
  await until(() => fixture.events.filter(({ kind }) => kind === "assistant.message.delta").length > 2);
  await fixture.kernel.sessions.interrupt(user, { session_id: "s1" });
  const run = await turn;
  expect(run.status).toBe("cancelled");
  expect(run.output!.content).toMatch(/^word/);
  expect(run.output!.content.length).toBeLessThan(900);
});

verifies(
  ["loop.order", "plug.kernel-error"],
  "ends a turn after 25 model calls with kernel.error and keeps the kernel running",
  async () => {
    const fixture = await createTestSession();
    const steps = Array.from({ length: 30 }, (_, n) => `/tool add {"a": ${n}, "b": 1}`).join("\n/then\n");
    const run = await fixture.say(steps);
    expect(run).toMatchObject({ status: "failed", iterations: 25, error: { code: "loop.iterations" } });
    const error = fixture.events.find(({ kind }) => kind === "kernel.error");
    expect(error?.payload).toMatchObject({ source: "kernel-loop" });
    expect((await fixture.say("hello")).status).toBe("completed");
  },
);

verifies(
  "plug.extras",
  "uses react by default, or the strategy of the config or of the session",
  async () => {
    const plan = strategyPlugin("plan", () => ({ next: "done", content: "planned" }));
    const fixture = await createTestSession({ plugins: [plan] });
    const runWithStrategy = async (session_id: string) => {
      const { strategy, output } = await fixture.say("/say reacted", session_id);
      return [strategy, output?.content];
    };
    expect(await runWithStrategy("default")).toEqual(["react", "reacted"]);
    await fixture.kernel.sessions.create(user, { session_id: "planned", strategy: "plan" });
    expect(await runWithStrategy("planned")).toEqual(["plan", "planned"]);
    await fixture.kernel.sessions.create(user, { session_id: "reacted", strategy: "react" });
    await fixture.kernel.config.set(admin, { "kernel.strategy": "plan" });
    expect(await runWithStrategy("configured")).toEqual(["plan", "planned"]);
    expect(await runWithStrategy("reacted")).toEqual(["react", "reacted"]);
  },
);

verifies("loop.order", "ends only the turn when a strategy violates the step order", async () => {
  const fixture = await createTestSession({
    plugins: [strategyPlugin("disordered", () => ({ next: "tool" }) as never)],
  });
  await fixture.kernel.sessions.create(user, { session_id: "invalid-step", strategy: "disordered" });
  const run = await fixture.say("hello", "invalid-step");
  expect(run).toMatchObject({ status: "failed", strategy: "disordered", error: { code: "loop.failed" } });
  expect((await fixture.say("hello")).status).toBe("completed");
});

verifies("loop.history", "sends the model the messages, calls and results of earlier turns", async () => {
  const fixture = await createTestSession();
  await fixture.say('/tool add {"a": 2, "b": 3}');
  await fixture.say("and now?");
  const request = fixture.events.filter(({ kind }) => kind === "llm.call.request").at(-1)!;
  const roles = (request.payload.messages as { role: string }[]).map(({ role }) => role);
  expect(roles).toEqual(["system", "user", "assistant", "tool", "assistant", "user"]);
});

verifies(
  "llm.retry",
  "retries an error before the first delta three times and honors Retry-After",
  async () => {
    const fixture = await createTestSession();
    const from = performance.now();
    const timed = async (text: string, session_id: string) => {
      const run = await fixture.say(text, session_id);
      return { run, took: performance.now() - from };
    };
    // The turns run concurrently, because each of them waits between its attempts.
    const [retried, limited, gave_up, refused] = await Promise.all([
      timed("/error connection times 2\n/say fine", "s1"),
      timed("/error status 429 retry-after 1 times 1\n/say later", "s2"),
      timed("/error connection", "s3"),
      timed("/error status 400", "s4"),
    ]);
    const errorsOf = (session_id: string) =>
      kindsOf(fixture.events, session_id).filter((kind) => kind === "llm.call.error").length;
    expect(retried.run.output!.content).toBe("fine");
    expect(errorsOf("s1")).toBe(2);
    expect(limited.run.output!.content).toBe("later");
    expect(limited.took).toBeGreaterThan(900);
    expect(gave_up.run).toMatchObject({ status: "failed", error: { code: "llm.failed" } });
    expect(errorsOf("s3")).toBe(4);
    expect(refused.run.status).toBe("failed");
    expect(errorsOf("s4")).toBe(1);
  },
  60_000,
);

test("writes a message that arrives during a turn immediately and answers it in that turn", async () => {
  const gate = gatedTool("wait");
  const fixture = await createTestSession({ tools: [gate.tool] });
  const turn = fixture.say('/tool wait {"n": 1}');
  await until(() => gate.started === 1);
  const joined = await fixture.kernel.sessions.sendMessage(
    user,
    { session_id: "s1" },
    { text: "/say and this" },
  );
  expect((await fixture.tape()).at(-1)).toMatchObject({
    id: joined.entry_id,
    payload: { content: "/say and this" },
  });
  gate.releases[0]!();
  const run = await turn;
  expect(run.id).toBe(joined.run_id);
  expect(run.output!.content).toBe("and this");
});

test("begins a separate turn for a message whose sender has fewer rights", async () => {
  const gate = gatedTool("wait");
  const fixture = await createTestSession({ tools: [gate.tool] });
  const { sessions, runs } = fixture.kernel;
  const session = { session_id: "s1" };
  const first = await sessions.sendMessage(admin, session, { text: '/tool wait {"n": 1}' });
  await until(() => gate.started === 1);
  const turn = sessions.sendMessage(user, session, { text: "/tool plugins_list {}" });
  gate.releases[0]!();
  const { run_id } = await turn;
  expect(run_id).not.toBe(first.run_id);
  await until(async () => (await runs.get(user, run_id)).status !== "running");
  const errors = fixture.events.filter(({ kind }) => kind === "tool.error");
  expect(errors).toMatchObject([{ payload: { brief: "there is no tool plugins_list" } }]);
});

test("begins one turn for two concurrent messages and answers both", async () => {
  const fixture = await createTestSession();
  const both = await Promise.all(
    ["one", "two"].map((text) => fixture.kernel.sessions.sendMessage(user, { session_id: "s1" }, { text })),
  );
  expect(both[1]!.run_id).toBe(both[0]!.run_id);
  await until(async () => (await fixture.kernel.runs.get(user, both[1]!.run_id)).status === "completed");
  const messages = (await fixture.tape()).flatMap(({ kind, payload }) =>
    kind === "message" ? [payload] : [],
  );
  expect(messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
    "one",
    "two",
  ]);
  expect(messages.at(-1)).toMatchObject({ role: "assistant" });
});

test("reports a missing strategy and writes nothing", async () => {
  const fixture = await createTestSession();
  await fixture.kernel.sessions.create(user, { session_id: "lost", strategy: "nowhere" });
  const turn = fixture.kernel.sessions.sendMessage(user, { session_id: "lost" }, { text: "hello" });
  await expect(turn).rejects.toMatchObject({ code: "request.invalid" });
  expect((await fixture.tape("lost")).map(({ kind }) => kind)).toEqual(["anchor"]);
});

test("reports unknown tools, invalid arguments and thrown errors to the model by kind", async () => {
  const broken: KernelTool = {
    ...addTool,
    name: "broken",
    run: () => {
      throw new Error("out of order");
    },
  };
  const fixture: TestSession = await createTestSession({ tools: [addTool, broken] });
  const run = await fixture.say('/tool nothing {}\n/tool add {"a": "x"}\n/tool broken {"a": 1, "b": 2}');
  expect(run.status).toBe("completed");
  const errors = fixture.events
    .filter(({ kind }) => kind === "tool.error")
    .map(({ payload }) => payload.kind);
  expect(new Set(errors)).toEqual(new Set(["not_found", "validation"]));
  const crashed = fixture.events.find(({ kind }) => kind === "tool.call.result");
  expect(crashed?.payload).toMatchObject({ ok: false, envelope: { kind: "crashed", brief: "out of order" } });
});

test("uses the time of the message as the start of the run, however long the setup takes", async () => {
  const fixture = await createTestSession();
  await fixture.say("/say one");
  // Every read of the clock advances it by a millisecond.
  const now = fixture.clock.now.bind(fixture.clock);
  fixture.clock.now = () => {
    fixture.clock.wall_offset++;
    return now();
  };
  const run = await fixture.say("/say two");
  const message = (await fixture.tape()).find(({ payload }) => payload.content === "/say two")!;
  expect(message.date).toBe(run.started_at);
});

verifies(
  "loop.history",
  "shows the model a result even if another chain was written in between",
  async () => {
    const gate = gatedTool("wait");
    const fixture = await createTestSession({ tools: [gate.tool] });
    const turn = fixture.say('/tool wait {"n": 1}');
    await until(() => gate.started === 1);
    const other_chain = await fixture.kernel.chains.create(user, { session_id: "s1" });
    const block = { kind: "input" as const, content: [{ type: "text", text: "on the other chain" }] };
    await fixture.kernel.chains.addBlocks(user, other_chain.id, [block]);
    gate.releases[0]!();
    expect((await turn).output!.content).toBe("Tool results:\n- wait: done 1");
  },
);

test("serializes a reset and a concurrent message", async () => {
  const fixture = await createTestSession();
  await fixture.say("hello");
  for (let n = 0; n < 10; n++) {
    const both = await Promise.allSettled([
      fixture.say('/tool add {"a": 1, "b": 2}'),
      fixture.kernel.sessions.reset(user, { session_id: "s1" }),
    ]);
    expect(both[0]).toMatchObject({ status: "fulfilled", value: { status: "completed", iterations: 2 } });
  }
});

test("rejects an attachment with a `constructor` that has a `prototype`", async () => {
  const fixture = await createTestSession();
  const attachments = [{ constructor: { prototype: 1 } }] as never;
  const sent = fixture.kernel.sessions.sendMessage(user, { session_id: "s1" }, { text: "x", attachments });
  await expect(sent).rejects.toMatchObject({ code: "request.invalid" });
});

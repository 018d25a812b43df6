import type { Entry, KernelPlugin, KernelTool, PluginContext, Run } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { toolOk } from "@backplane/sdk/kernel";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, onTestFinished } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "../loop/test-session.ts";

const s1 = { session_id: "s1" };
const spawn = (goal: string, more: object = {}) => `/tool agent ${JSON.stringify({ goal, ...more })}`;
const withAnswer = (call: string) => `${call}\n/then\n/say the parent is done`;

/** Records its calls. The first call hangs forever when its arguments request it. */
function recordingTool(name: string, effect_class: KernelTool["effect_class"], calls: string[]): KernelTool {
  return {
    name,
    description: "Records.",
    parameters: { type: "object", properties: { hang: { type: "boolean" } } },
    ...(effect_class === undefined ? {} : { effect_class }),
    run({ hang }) {
      calls.push(name);
      const first = calls.filter((call) => call === name).length === 1;
      return hang === true && first ? new Promise(() => {}) : toolOk(`${name} ran`);
    },
  };
}

/** The agent tool, whose requests of one kernel service hang forever before or after the service answers. */
function agentToolHangingAt(service: string, when: "before" | "after"): KernelPlugin {
  const hang = () => new Promise<never>(() => {});
  return {
    ...agentTool,
    onLoad: (ctx: PluginContext) =>
      agentTool.onLoad!({
        ...ctx,
        async service(name, args, as) {
          if (name === service && when === "before") return await hang();
          const answer = await ctx.service(name, args, as);
          return name === service ? await hang() : answer;
        },
      }),
  };
}

/** A session in which every approval request is approved, with tools that record their calls in `calls`. */
async function createAgentSession(
  calls: string[],
  { agent = agentTool, ...more }: Parameters<typeof createTestSession>[0] & { agent?: KernelPlugin } = {},
): Promise<TestSession> {
  const tools = [addTool, recordingTool("look", "read_only", calls), recordingTool("pay", undefined, calls)];
  return await createTestSession({ tools, plugins: [agent, autoApprovePlugin().plugin], ...more });
}

async function waitForEnd({ kernel }: TestSession, run_id: string): Promise<Run> {
  await until(async () => (await kernel.runs.get(user, run_id)).status !== "running");
  return await kernel.runs.get(user, run_id);
}

async function subagentRuns({ kernel }: TestSession): Promise<readonly Run[]> {
  const { items } = await kernel.runs.list(user, {}, { limit: 50 });
  return items.filter(({ trigger }) => trigger === "subagent");
}

const announcedKinds = (...fixtures: TestSession[]) =>
  fixtures.flatMap(({ events }) =>
    events.filter(({ session_id }) => session_id === "_bridge:agent-tool").map(({ kind }) => kind),
  );

const agentResults = (tape: readonly Entry[]) => {
  const ids = tape.flatMap(({ kind, payload }) =>
    kind === "tool_call" && payload.name === "agent" ? [payload.id] : [],
  );
  return tape.filter(({ kind, payload }) => kind === "tool_result" && ids.includes(payload.tool_call_id));
};

const STARTED_AND_COMPLETED = ["x.agent.subagent.started", "x.agent.subagent.completed"];

verifies(
  ["subagent.resume", "inv.effect-class"],
  "resumes a sub-agent after a crash and gives its answer to the call that waits for it",
  async () => {
    const calls: string[] = [];
    const first = await createAgentSession(calls);
    const goal = '/tool pay {}\n/then\n/tool look {"hang": true}\n/then\n/say the child is done';
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: withAnswer(spawn(goal)) });
    await until(() => calls.length === 2);
    await first.crash();

    const second = await createAgentSession(calls, { file: first.file });
    expect(await waitForEnd(second, run_id)).toMatchObject({
      status: "completed",
      resumed: 1,
      iterations: 2,
      output: { content: "the parent is done" },
    });
    expect(calls).toEqual(["pay", "look", "look"]);
    const children = await subagentRuns(second);
    expect(children).toMatchObject([
      { status: "completed", resumed: 1, iterations: 3, parent_run_id: run_id },
    ]);
    expect(children[0]).not.toHaveProperty("subagent");
    const results = agentResults(await second.tape());
    expect(results).toMatchObject([{ payload: { ok: true } }]);
    expect(JSON.stringify(results[0]!.payload)).toContain("the child is done");
    expect(announcedKinds(first, second)).toEqual(STARTED_AND_COMPLETED);
  },
);

verifies(
  "subagent.resume",
  "gives the recorded answer of a sub-agent that ended before the crash",
  async () => {
    const calls: string[] = [];
    const first = await createAgentSession(calls, { agent: agentToolHangingAt("subagent.wait", "after") });
    const goal = "/tool look {}\n/then\n/say the child is done";
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: withAnswer(spawn(goal)) });
    await until(async () => (await subagentRuns(first)).some(({ status }) => status === "completed"));
    await first.crash();

    const second = await createAgentSession(calls, { file: first.file });
    expect(await waitForEnd(second, run_id)).toMatchObject({ status: "completed", resumed: 1 });
    expect(calls).toEqual(["look"]);
    const children = await subagentRuns(second);
    expect(children.map(({ status, resumed }) => ({ status, resumed }))).toEqual([
      { status: "completed", resumed: undefined },
    ]);
    const results = agentResults(await second.tape());
    expect(JSON.stringify(results.map(({ payload }) => payload))).toContain("the child is done");
    expect(announcedKinds(first, second)).toEqual(STARTED_AND_COMPLETED);
  },
);

verifies(
  "subagent.resume",
  "starts the sub-agent of a call that a crash interrupted before the start",
  async () => {
    const calls: string[] = [];
    const first = await createAgentSession(calls, { agent: agentToolHangingAt("subagent.start", "before") });
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, {
      text: withAnswer(spawn("/tool look {}")),
    });
    await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_call"));
    const running = async () =>
      (await first.kernel.invocations.list(user, { export_id: "agent", status: "running" }, { limit: 5 }))
        .items;
    await until(async () => (await running()).length === 1);
    await first.crash();

    const second = await createAgentSession(calls, { file: first.file });
    expect(await waitForEnd(second, run_id)).toMatchObject({ status: "completed", resumed: 1 });
    expect(calls).toEqual(["look"]);
    expect(await subagentRuns(second)).toMatchObject([{ status: "completed", parent_run_id: run_id }]);
    expect(announcedKinds(first, second)).toEqual(STARTED_AND_COMPLETED);
  },
);

verifies(
  "subagent.resume",
  "starts the sub-agent of a call that a crash interrupted after the fork",
  async () => {
    const calls: string[] = [];
    const first = await createAgentSession(calls);
    const { runs } = first.store;
    const started_sessions: string[] = [];
    first.store.runs = {
      ...runs,
      start(run, ...more) {
        if (run.trigger !== "subagent") return runs.start(run, ...more);
        started_sessions.push(run.session_id);
        return new Promise(() => {});
      },
    };
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, {
      text: withAnswer(spawn("/tool look {}")),
    });
    await until(() => started_sessions.length === 1);
    await first.crash();

    const second = await createAgentSession(calls, { file: first.file });
    expect(await waitForEnd(second, run_id)).toMatchObject({ status: "completed", resumed: 1 });
    expect(calls).toEqual(["look"]);
    expect(await subagentRuns(second)).toMatchObject([
      { status: "completed", session_id: started_sessions[0] },
    ]);
    expect(announcedKinds(first, second)).toEqual(STARTED_AND_COMPLETED);
  },
);

verifies("subagent.resume", "ends a sub-agent and its parent after a second crash", async () => {
  const calls: string[] = [];
  const hanging = { ...recordingTool("look", "read_only", calls), run: () => new Promise<never>(() => {}) };
  const first = await createAgentSession(calls, { tools: [hanging] });
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: spawn("/tool look {}") });
  await until(() => announcedKinds(first).length === 1);
  await first.crash();
  const second = await createAgentSession(calls, { tools: [hanging], file: first.file });
  await until(async () => (await subagentRuns(second)).every(({ resumed }) => resumed === 1));
  await until(async () => (await second.kernel.runs.get(user, run_id)).resumed === 1);
  await second.crash();
  const third = await createAgentSession(calls, { tools: [hanging], file: first.file });
  expect(await waitForEnd(third, run_id)).toMatchObject({ status: "failed" });
  await until(async () => (await subagentRuns(third)).every(({ status }) => status === "failed"));
  expect(await subagentRuns(third)).toHaveLength(1);
});

verifies("subagent.resume", "resumes nested sub-agents", async () => {
  const calls: string[] = [];
  const first = await createAgentSession(calls);
  const inner = '/tool look {"hang": true}\n/then\n/say from the bottom';
  const text = withAnswer(spawn(`${spawn(inner)}\n/then\n/say from the middle`));
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(() => calls.length === 1);
  await first.crash();

  const second = await createAgentSession(calls, { file: first.file });
  expect(await waitForEnd(second, run_id)).toMatchObject({ output: { content: "the parent is done" } });
  expect(calls).toEqual(["look", "look"]);
  const children = await subagentRuns(second);
  expect(children.map(({ status, resumed, output }) => [status, resumed, output?.content])).toEqual([
    ["completed", 1, "from the bottom"],
    ["completed", 1, "from the middle"],
  ]);
  expect(announcedKinds(first, second)).toEqual([
    STARTED_AND_COMPLETED[0],
    ...STARTED_AND_COMPLETED,
    STARTED_AND_COMPLETED[1],
  ]);
});

verifies(
  ["subagent.resume", "subagent.enforced"],
  "keeps the allow-list and the steps of a resumed sub-agent",
  async () => {
    const calls: string[] = [];
    const first = await createAgentSession(calls);
    const goal =
      '/tool add {"a": 1, "b": 1}\n/then\n/tool look {"hang": true}\n/then\n/tool pay {}\n/then\n/say no';
    const text = withAnswer(spawn(goal, { tools: ["look"], max_steps: 3 }));
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
    await until(() => calls.length === 1);
    await first.crash();

    const second = await createAgentSession(calls, { file: first.file });
    expect(await waitForEnd(second, run_id)).toMatchObject({ status: "completed" });
    expect(calls).toEqual(["look", "look"]);
    expect(await subagentRuns(second)).toMatchObject([
      { status: "failed", iterations: 3, error: { code: "loop.iterations" } },
    ]);
    const narrowed = second.events.find(({ kind }) => kind === "x.agent.allowlist.narrowed");
    expect(narrowed?.payload).toMatchObject({ attempted: ["add", "pay"], allowed: ["look"] });
  },
);

verifies("subagent.resume", "stops a resumed sub-agent with its parent and at its time limit", async () => {
  const slow = `/slow 200\n/say ${"word ".repeat(500)}`;
  const first = await createAgentSession([]);
  const interrupted = await first.kernel.sessions.sendMessage(user, s1, { text: withAnswer(spawn(slow)) });
  const limited = await first.kernel.sessions.sendMessage(
    user,
    { session_id: "s2" },
    { text: withAnswer(spawn(slow, { max_wall_seconds: 1 })) },
  );
  await until(() => announcedKinds(first).filter((kind) => kind === STARTED_AND_COMPLETED[0]).length === 2);
  await first.crash();

  const second = await createAgentSession([], { file: first.file });
  // On a busy machine the time limit may have passed before the crash.
  const resumedOrEnded = ({ resumed, status }: Run) => resumed === 1 || status !== "running";
  await until(async () => (await subagentRuns(second)).every(resumedOrEnded));
  expect(await second.kernel.sessions.interrupt(user, s1)).toBe(true);
  expect(await waitForEnd(second, interrupted.run_id)).toMatchObject({ status: "cancelled" });
  expect(await waitForEnd(second, limited.run_id)).toMatchObject({ status: "completed" });
  await until(async () => (await subagentRuns(second)).every(({ status }) => status !== "running"));
  const ends = (await subagentRuns(second)).map(({ status, error }) => `${status} ${error?.code}`);
  expect(ends.toSorted()).toEqual(["cancelled cancelled", "failed timeout"]);
});

verifies("subagent.resume", "gives a resumed sub-agent the rest of its time", async () => {
  const first = await createAgentSession([]);
  const text = spawn(`/slow 200\n/say ${"word ".repeat(500)}`, { max_wall_seconds: 97 });
  await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(() => announcedKinds(first).length === 1);
  await first.crash();

  const second = await createAgentSession([], { file: first.file, start: false });
  second.clock.wall_offset = 50_000;
  const deadlines: number[] = [];
  const after = second.clock.after.bind(second.clock);
  second.clock.after = (ms, run) => {
    deadlines.push(second.clock.now() + ms);
    return after(ms, run);
  };
  await second.kernel.start();
  const [child] = await subagentRuns(second);
  await until(() =>
    second.events.some(
      ({ kind, session_id }) => kind === "llm.call.request" && session_id === child!.session_id,
    ),
  );
  const expected = Date.parse(child!.started_at) + 97_000;
  expect(deadlines.filter((deadline) => Math.abs(deadline - expected) < 100)).toHaveLength(1);
});

verifies("subagent.resume", "ends a sub-agent whose call does not run again", async () => {
  const first = await createAgentSession([]);
  const text = withAnswer(spawn(`/slow 200\n/say ${"word ".repeat(500)}`));
  const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text });
  await until(() => announcedKinds(first).length === 1);
  await first.crash();

  const changed: KernelPlugin = { ...agentTool, version: "0.1.1" };
  const second = await createAgentSession([], { agent: changed, file: first.file });
  expect(await waitForEnd(second, run_id)).toMatchObject({ status: "completed", resumed: 1 });
  await until(async () => (await subagentRuns(second)).every(({ status }) => status !== "running"));
  expect(await subagentRuns(second)).toMatchObject([{ status: "failed", error: { code: "loop.failed" } }]);
});

verifies(
  "subagent.resume",
  "ties a resumed sub-agent to its parent although a new message reserved the parent's session first",
  async () => {
    const first = await createAgentSession([]);
    const slow = `/slow 200\n/say ${"word ".repeat(500)}`;
    const { run_id } = await first.kernel.sessions.sendMessage(user, s1, { text: withAnswer(spawn(slow)) });
    await until(() => announcedKinds(first).length === 1);
    await first.crash();

    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on("unhandledRejection", note);
    onTestFinished(() => void process.off("unhandledRejection", note));
    const second = await createAgentSession([], { file: first.file, start: false });
    const { sessions } = second.store;
    const get = sessions.get.bind(sessions);
    const gate = Promise.withResolvers<void>();
    let held = false;
    sessions.get = async (key) => {
      if (key.session_id === "s1" && !held) {
        held = true;
        await gate.promise;
      }
      return await get(key);
    };
    // This message reserves the session before the parent's turn is recovered. It cannot begin a turn of its own.
    const sending = second.kernel.sessions.sendMessage(user, s1, { text: "/say hello", attachments: [] });
    await until(() => held);
    await second.kernel.start();
    const [child] = await subagentRuns(second);
    const callsModel = (session_id: string) =>
      second.events.some((event) => event.kind === "llm.call.request" && event.session_id === session_id);
    await until(() => callsModel(child!.session_id));
    gate.resolve();
    // The message joins the turn of the parent, which holds the session in the store.
    expect(await sending).toMatchObject({ run_id });
    await until(async () => (await second.kernel.runs.get(user, run_id)).resumed === 1);
    await until(() => second.kernel.sessions.interrupt(user, s1));
    expect(await waitForEnd(second, run_id)).toMatchObject({ status: "cancelled" });
    await until(async () => (await subagentRuns(second)).every(({ status }) => status !== "running"));
    expect(await subagentRuns(second)).toMatchObject([{ status: "cancelled", resumed: 1 }]);
    expect(unhandled).toEqual([]);
  },
);

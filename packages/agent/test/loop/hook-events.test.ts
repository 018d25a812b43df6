/** The events about runs, chains and sessions that hooks receive, and the ids of their calls. */
import type { JsonObject } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import type { Caller } from "@backplane/ports";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok, type RunnerScript } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession, type TestSession } from "./test-session.ts";

const TYPES = [
  "run.started",
  "run.completed",
  "run.failed",
  "run.cancelled",
  "chain.created",
  "chain.forked",
  "chain.compacted",
  "session.created",
  "session.archived",
];

interface DeliveredEvent extends JsonObject {
  type: string;
  subject: { kind: string; id: string };
  summary: JsonObject & { task: string; output: string };
}

async function bindHook(fixture: TestSession, scopes: string[] = []): Promise<void> {
  const permissions = { gateway_api_scopes: scopes };
  const content = manifest([
    hookExport("notify", TYPES, { permissions }),
    toolExport("echo"),
    { id: "weave", kind: "compactor", compactor: {} },
    { id: "triage", kind: "harness", harness: {} },
  ]);
  await fixture.bind(content, { export_id: "notify" });
  await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "echo",
  });
}

const hookCalls = (fixture: TestSession) =>
  fixture.runner.requests.filter(({ export_id }) => export_id === "notify");
const deliveredEvents = (fixture: TestSession, type: string) =>
  hookCalls(fixture)
    .map(({ body }) => body.event as DeliveredEvent)
    .filter((event) => event.type === type);

verifies("hook.content", "delivers task, output, ids and trace of a run, with tokens redacted", async () => {
  const fixture = await createTestSession();
  await bindHook(fixture);
  const token = `vai_dlg_${"x".repeat(43)}`;
  const run = await fixture.say(`/say fixed with ${token}`);
  await until(() => deliveredEvents(fixture, "run.completed").length === 1);
  const ids = { session_id: "s1", chain_id: run.chain_id, run_id: run.id, trace_id: run.trace_id };
  expect(run.trace_id).toMatch(/^tr_/);
  expect(deliveredEvents(fixture, "run.completed")).toEqual([
    {
      type: "run.completed",
      occurred_at: expect.any(String),
      subject: { kind: "run", id: run.id },
      summary: {
        task: "/say fixed with [redacted]",
        output: "fixed with [redacted]",
        session_id: "s1",
        workspace: "default",
        status: "completed",
        trigger: "message",
        tokens: run.usage.total,
      },
      ...ids,
    },
  ]);
  expect(deliveredEvents(fixture, "run.started")[0]).toMatchObject({
    summary: { task: "/say fixed with [redacted]", output: "", status: "running" },
    ...ids,
  });
});

const HARNESS_ENDS: { type: string; summary: JsonObject; script: RunnerScript }[] = [
  {
    type: "run.completed",
    summary: { output: "fixed it", status: "completed" },
    script: () => ok({ summary: { text: "fixed it" } }),
  },
  {
    type: "run.failed",
    summary: { output: "", status: "failed", code: "plugin_failed", error: "plugin_failed in the test" },
    script: () => ended("failed", "plugin_failed"),
  },
  {
    type: "run.cancelled",
    summary: { output: "", status: "cancelled", code: "cancelled", error: "cancelled in the test" },
    script: async ({ cancelled }) => {
      await cancelled;
      return ended("cancelled", "cancelled");
    },
  },
];

for (const { type, summary, script } of HARNESS_ENDS)
  verifies("hook.content", `delivers task, output, ids and trace of a harness with ${type}`, async () => {
    const fixture = await createTestSession();
    await bindHook(fixture);
    const binding = { package_id: "acme/devkit", package_version: "0.1.0", export_id: "triage" };
    await fixture.kernel.bindings.create(admin, binding);
    let started = false;
    fixture.runner.script = (running) => {
      if (running.request.op !== "harness.run") return ok(null);
      started = true;
      return script(running);
    };
    const ticket = await fixture.kernel.runs.start(user, {
      session_id: "s1",
      input: { text: "fix the bug" },
      harness: { export_id: "triage" },
    });
    await until(() => started);
    if (type === "run.cancelled") await fixture.kernel.runs.cancel(user, ticket.run.id);
    const run = await ticket.settled;
    await until(() => hookCalls(fixture).some(({ body }) => isEndOf(run.id, body.event as DeliveredEvent)));
    const delivered = hookCalls(fixture).map(({ body }) => body.event as DeliveredEvent);
    expect(delivered.filter((event) => isEndOf(run.id, event))).toEqual([
      {
        type,
        occurred_at: expect.any(String),
        subject: { kind: "run", id: run.id },
        summary: {
          task: "fix the bug",
          session_id: "s1",
          workspace: "default",
          trigger: "api",
          tokens: 0,
          ...summary,
        },
        session_id: "s1",
        chain_id: run.chain_id,
        run_id: run.id,
        trace_id: run.trace_id,
      },
    ]);
  });

function isEndOf(run_id: string, { type, subject }: DeliveredEvent): boolean {
  return subject.id === run_id && type !== "run.started";
}

verifies(
  "hook.content",
  "delivers the summary of a compaction and the ids of chains and sessions",
  async () => {
    const fixture = await createTestSession();
    await bindHook(fixture);
    const { sessions, chains } = fixture.kernel;
    await fixture.say(`/say ${"long ".repeat(400)}`);
    await fixture.say(`/say ${"longer ".repeat(400)}`);
    const compacted = await sessions.compact(user, { session_id: "s1" });
    const fork = await sessions.fork(user, { session_id: "s1" }, { child_id: "s2" });
    await sessions.reset(user, { session_id: "s1" });
    await until(() => deliveredEvents(fixture, "session.archived").length === 1);
    const [created] = deliveredEvents(fixture, "session.created");
    const first = (await chains.list(user, { session_id: "s1" }, { limit: 10 })).items.at(-1)!;
    expect(created).toMatchObject({
      subject: { kind: "session", id: "s1" },
      summary: { task: "Create session s1", output: "", chain_id: first.id },
      session_id: "s1",
      chain_id: first.id,
      trace_id: expect.stringMatching(/^tr_/),
    });
    const [compaction] = deliveredEvents(fixture, "chain.compacted");
    expect(compaction).toMatchObject({
      subject: { kind: "chain", id: compacted.id },
      summary: {
        task: "Compact session s1",
        session_id: "s1",
        parent_chain_id: first.id,
        tokens_before: expect.any(Number),
      },
      session_id: "s1",
      chain_id: compacted.id,
    });
    expect(compaction!.summary.output.length).toBeGreaterThan(0);
    expect(deliveredEvents(fixture, "chain.forked")[0]).toMatchObject({
      summary: { task: "Fork session s2", parent_session_id: "s1" },
      chain_id: fork.head_chain_id,
    });
    expect(deliveredEvents(fixture, "session.archived")[0]).toMatchObject({
      summary: { task: "Archive session s1", output: `chain:${compacted.id}` },
      chain_id: compacted.id,
    });
  },
);

verifies(
  "contract.ids",
  "gives the call of a hook and its nested calls the ids of the run that caused the event",
  async () => {
    const fixture = await createTestSession();
    await bindHook(fixture, ["tools:invoke"]);
    const nested: Promise<unknown>[] = [];
    fixture.runner.script = ({ request }) => {
      const event = request.body.event as DeliveredEvent | undefined;
      if (event?.type !== "run.completed") return ok(request.op === "hook.handle" ? null : undefined);
      const { delegation_token } = request.context.gateway;
      const call = async () => {
        const caller = await fixture.kernel.keys.authenticate(delegation_token!);
        return await fixture.call({ export_id: "echo", trace_id: "tr_own" }, caller);
      };
      const nested_call = call();
      nested.push(nested_call);
      return nested_call.then(() => ok(null));
    };
    const run = await fixture.say("/say hello");
    await until(() => nested.length === 1);
    const ids = { session_id: "s1", chain_id: run.chain_id, run_id: run.id, trace_id: run.trace_id };
    expect(await nested[0]).toMatchObject(ids);
    const { items } = await fixture.kernel.invocations.list(user, { export_id: "notify" }, { limit: 20 });
    const call = items.find(({ input }) => (input as DeliveredEvent).type === "run.completed");
    expect(call).toMatchObject(ids);
    const request = hookCalls(fixture).find(({ invocation_id }) => invocation_id === call!.id)!;
    expect(request.context).toMatchObject(ids);
    expect(request.context.interactive).toBeUndefined();
  },
);

verifies("contract.ids", "keeps one trace for a turn, its calls and its sub-agent", async () => {
  const { plugin } = autoApprovePlugin();
  const fixture = await createTestSession({ tools: [addTool], plugins: [agentTool, plugin] });
  await bindHook(fixture);
  const run = await fixture.say(`/tool agent ${JSON.stringify({ goal: '/tool add {"a": 1, "b": 2}' })}`);
  const { items: calls } = await fixture.kernel.invocations.list(user, {}, { limit: 50 });
  const { items: runs } = await fixture.kernel.runs.list(user, {}, { limit: 10 });
  expect(calls.filter(({ export_kind }) => export_kind === "tool")).toHaveLength(2);
  for (const call of calls.filter(({ export_kind }) => export_kind === "tool")) {
    expect(call.trace_id).toBe(run.trace_id);
    expect(call.run_id).not.toBeNull();
  }
  expect(runs.map(({ trace_id }) => trace_id)).toEqual([run.trace_id, run.trace_id]);
});

verifies(
  "contract.ids",
  "keeps one trace for a requested compaction, its compactor and its hooks",
  async () => {
    const fixture = await createTestSession();
    await bindHook(fixture);
    const { bindings, invocations, sessions } = fixture.kernel;
    await bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id: "weave",
    });
    await fixture.say(`/say ${"long ".repeat(400)}`);
    fixture.runner.script = ({ request }) =>
      ok(request.op === "compactor.compact" ? { summary: { text: "short" } } : null);
    const { id } = await sessions.compact(user, { session_id: "s1" });
    await until(() => deliveredEvents(fixture, "chain.compacted").length === 1);
    const [compactor] = (await invocations.list(user, { export_id: "weave" }, { limit: 5 })).items;
    expect(deliveredEvents(fixture, "chain.compacted")).toMatchObject([
      { chain_id: id, trace_id: compactor!.trace_id },
    ]);
    const { items: hooks } = await invocations.list(user, { export_id: "notify" }, { limit: 20 });
    const calls = hooks.filter(({ chain_id }) => chain_id === id);
    expect(calls.map(({ trace_id }) => trace_id)).toEqual([compactor!.trace_id]);
  },
);

verifies(
  ["hook.contract", "contract.ids"],
  "delivers no event of a run or session that a hook started",
  async () => {
    const fixture = await createTestSession();
    await bindHook(fixture, ["sessions:write", "runs:write"]);
    const started: Promise<unknown>[] = [];
    const start = async (caller: Caller) => {
      await fixture.kernel.sessions.create(caller, { session_id: "s2" });
      const { settled } = await fixture.kernel.runs.start(caller, {
        session_id: "s2",
        input: { text: "/say from the hook" },
      });
      const ended = await settled;
      await until(() =>
        fixture.kernel.sessions.reset(caller, { session_id: "s2" }).then(
          () => true,
          () => false,
        ),
      );
      return ended;
    };
    fixture.runner.script = ({ request }) => {
      const event = request.body.event as DeliveredEvent | undefined;
      if (event?.type !== "run.completed") return ok(null);
      const work = fixture.kernel.keys
        .authenticate(request.context.gateway.delegation_token!)
        .then((caller) => start(caller));
      started.push(work);
      return work.then(() => ok(null));
    };
    const run = await fixture.say("/say hello");
    await until(() => started.length === 1);
    expect(await started[0]).toMatchObject({ status: "completed", trace_id: run.trace_id });
    await until(
      async () =>
        (await fixture.store.outbox.summarize(await fixture.store.outbox.getCursor("hooks"), 1)) === null,
    );
    const marked = (await fixture.store.outbox.read(0, 500)).filter(({ session_id }) => session_id === "s2");
    expect(new Set(marked.map(({ type }) => type))).toEqual(
      new Set(["session.created", "chain.created", "run.started", "run.completed", "session.archived"]),
    );
    expect(marked.every(({ from_hook }) => from_hook)).toBe(true);
    expect(hookCalls(fixture).every(({ context }) => context.session_id === "s1")).toBe(true);
  },
);

verifies(
  ["metrics.door", "contract.ids"],
  "counts every call at the door by kind, class and status, whoever made it",
  async () => {
    const fixture = await createTestSession();
    await bindHook(fixture);
    for (const export_id of ["weave", "triage"]) {
      const binding = { package_id: "acme/devkit", package_version: "0.1.0", export_id };
      await fixture.kernel.bindings.create(admin, binding);
    }
    fixture.runner.script = ({ request }) => {
      if (request.op === "compactor.compact") {
        return ok({ seed_blocks: [], summary: { text: "short" }, diagnostics: {} });
      }
      if (request.op === "harness.run") return ok({ summary: { text: "done" }, artifacts: [] });
      return ok(request.op === "tool.invoke" ? undefined : null);
    };
    await fixture.say(`/say ${"long ".repeat(400)}`);
    const run = await fixture.say('/tool add {"a": 1, "b": 2}');
    const chain = await fixture.kernel.sessions.compact(user, { session_id: "s1" });
    await fixture.call({ export_id: "echo" });
    const harness = { export_id: "triage", session_id: "s1", trace_id: "tr_harness" };
    await fixture.call({ ...harness, input: {} }, admin);
    await expect(fixture.call({ ...harness, input: [] }, admin)).rejects.toMatchObject({
      code: "input.invalid",
    });
    const deliveries = async () =>
      (await fixture.store.outbox.read(0, 500)).filter(({ type }) => TYPES.includes(type)).length;
    const count = async (kind: string, status: string) =>
      (await fixture.kernel.health()).ended
        .filter((ended) => ended.kind === kind && ended.status === status)
        .map(({ class: runs_as, count: ended }) => [runs_as, ended]);
    await until(async () => (await count("hook", "succeeded"))[0]?.[1] === (await deliveries()));
    expect(await count("tool", "succeeded")).toEqual([
      ["inline", 1],
      ["isolated", 1],
    ]);
    expect(await count("compactor", "succeeded")).toEqual([["worker", 1]]);
    expect(await count("harness", "succeeded")).toEqual([["isolated", 1]]);
    expect(await count("harness", "failed")).toEqual([["isolated", 1]]);
    // A compactor and a harness receive the ids of their context, like every other call.
    const contexts = new Map(fixture.runner.requests.map(({ op, context }) => [op, context]));
    expect(contexts.get("compactor.compact")).toMatchObject({ session_id: "s1", chain_id: run.chain_id });
    expect(contexts.get("harness.run")).toMatchObject({ session_id: "s1", trace_id: "tr_harness" });
    expect(chain.parent_chain_id).toBe(run.chain_id);
  },
);

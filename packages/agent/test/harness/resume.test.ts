/** A harness after a crash of its process or of its gateway, and after a person resumes it. */
import type { Json, JsonObject } from "@backplane/contract";
import { hookExport, manifest } from "@backplane/test-kit/kernel/manifests";
import { ended } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, orgUser, scope, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession, watchEntries } from "../loop/test-session.ts";
import { crashOnce, harnessPackage, scriptHarness } from "./test-harness.ts";

const START = { session_id: "s1", input: { text: "fix the bug" }, harness: { export_id: "triage" } };
const hangForever = () => new Promise<never>(() => {});

async function startRun(fixture: TestSession): Promise<{ run_id: string; execution_id: string }> {
  const { run } = await fixture.kernel.runs.start(user, START);
  return { run_id: run.id, execution_id: run.harness!.execution_id };
}

verifies(
  "harness.checkpoint",
  "stores a checkpoint before any later event, and writes the later events in order",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const save = fixture.store.executions.saveCheckpoint.bind(fixture.store.executions);
    const release = Promise.withResolvers<void>();
    fixture.store.executions.saveCheckpoint = async (...args) => {
      await release.promise;
      return await save(...args);
    };
    scriptHarness(fixture, async ({ event }) => {
      event({ type: "progress", message: "before" });
      event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { cursor: 1 } } });
      event({ type: "progress", message: "after" });
      event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { cursor: 2 } } });
      return {};
    });
    const ticket = await fixture.kernel.runs.start(user, START);
    const { execution_id, invocation_id } = ticket.run.harness!;
    const eventNames = async () => {
      const events = await fixture.store.invocations.listEvents(invocation_id, 0, 10);
      return events.map(({ event }) => (event as JsonObject).message ?? event.type);
    };
    await until(async () => (await eventNames()).length > 0);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(await eventNames()).toEqual(["before"]);
    expect(fixture.events.filter(({ kind }) => kind === "x.harness.event")).toHaveLength(1);
    release.resolve();
    expect(await ticket.settled).toMatchObject({ status: "completed" });
    await until(async () => (await eventNames()).length === 4);
    expect(await eventNames()).toEqual(["before", "checkpoint", "after", "checkpoint"]);
    expect(await fixture.kernel.runs.getExecution(user, execution_id)).toMatchObject({
      checkpoint: { kind: "checkpoint", data: { cursor: 2 } },
      checkpoints: 2,
    });
  },
);

test("counts a malformed checkpoint as a violation and keeps the last valid one", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  const good = { kind: "checkpoint", data: 1 };
  scriptHarness(fixture, async ({ event }) => {
    for (const checkpoint of [good, { kind: "checkpoint" }, "x", { data: 2 }])
      event({ type: "checkpoint", checkpoint: checkpoint as Json });
    return {};
  });
  const done = await (await fixture.kernel.runs.start(user, START)).settled;
  const { execution_id, invocation_id } = done.harness!;
  expect(await fixture.kernel.invocations.get(user, invocation_id)).toMatchObject({ violations: 3 });
  expect(await fixture.kernel.runs.getExecution(user, execution_id)).toMatchObject({ checkpoint: good });
});

test("counts a checkpoint without text as a violation of a summary_reseed harness", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage({ fidelity: "summary_reseed" }));
  const good = { kind: "checkpoint", data: { text: "half done" } };
  scriptHarness(fixture, async ({ event }) => {
    for (const data of [good.data, { cursor: 1 }, { text: 2 }, "half done"] as Json[])
      event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data } });
    return {};
  });
  const done = await (await fixture.kernel.runs.start(user, START)).settled;
  const { execution_id, invocation_id } = done.harness!;
  expect(await fixture.kernel.invocations.get(user, invocation_id)).toMatchObject({ violations: 3 });
  expect(await fixture.kernel.runs.getExecution(user, execution_id)).toMatchObject({
    checkpoint: good,
    checkpoints: 1,
  });
});

verifies(
  "harness.checkpoint",
  "restarts a harness with its last checkpoint and the same execution id after its process died",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const bodies: JsonObject[] = [];
    fixture.runner.script = ({ request, event }) => {
      bodies.push(request.body);
      if (bodies.length === 4) return { ...ended("succeeded", ""), error: null, result: {} };
      if (bodies.length > 1)
        event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: bodies.length } });
      return ended("failed", "crashed");
    };
    const done = await (await fixture.kernel.runs.start(user, START)).settled;
    expect(done).toMatchObject({ status: "completed" });
    expect(
      bodies.map(({ mode, checkpoint }) => [mode, (checkpoint as JsonObject | undefined)?.data]),
    ).toEqual([
      ["start", undefined],
      ["start", undefined],
      ["resume", 2],
      ["resume", 3],
    ]);
    const ids = bodies.map(({ target }) => (target as JsonObject).execution_id);
    expect(new Set(ids)).toEqual(new Set([done.harness!.execution_id]));
    // Each attempt publishes on the session whether it started or resumed the harness.
    const started = () => fixture.events.filter(({ kind }) => kind === "x.harness.started");
    await until(() => started().length === 4);
    expect(started().map(({ payload }) => payload.mode)).toEqual(["start", "start", "resume", "resume"]);
  },
);

verifies("harness.checkpoint", "resumes after a gateway crash with the state for its fidelity", async () => {
  const resumed_bodies = new Map<string, JsonObject>();
  for (const fidelity of ["lossless", "checkpoint", "prompt_replay", "summary_reseed"]) {
    const first = await createTestSession();
    await first.bind(harnessPackage({ fidelity }));
    await first.say("/say hello there");
    let stored = false;
    scriptHarness(first, async ({ event }) => {
      event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { text: "half done" } } });
      stored = true;
      return await hangForever();
    });
    const { run_id, execution_id } = await startRun(first);
    await until(() => stored);
    await until(async () => (await first.store.executions.get(scope, execution_id))?.checkpoints === 1);
    await first.crash();

    const second = await createTestSession({ file: first.file, start: false });
    scriptHarness(second, async ({ body }) => {
      resumed_bodies.set(fidelity, body);
      return { summary: { text: "done" } };
    });
    await second.kernel.start();
    await until(async () => (await second.kernel.runs.get(user, run_id)).status !== "running");
    const run = await second.kernel.runs.get(user, run_id);
    expect(run, fidelity).toMatchObject({ status: "completed", output: { content: "done" } });
    const body = resumed_bodies.get(fidelity)!;
    expect(body).toMatchObject({
      mode: "resume",
      target: { session_id: "s1", execution_id },
      trigger: { input: [{ type: "text", text: "fix the bug" }] },
    });
    const { chain_id } = body.target as JsonObject;
    const { head_chain_id } = await second.kernel.sessions.get(user, { session_id: "s1" });
    expect(chain_id).toBe(head_chain_id);
    if (fidelity === "summary_reseed") expect(chain_id).not.toBe(run.chain_id);
    else expect(chain_id).toBe(run.chain_id);
    if (fidelity === "summary_reseed") {
      const chain = await second.kernel.chains.get(user, head_chain_id);
      expect(chain).toMatchObject({ origin: "compaction", parent_chain_id: run.chain_id });
      const blocks = await second.kernel.chains.listBlocks(user, head_chain_id, chain.fork_entry_id, 1);
      expect(JSON.stringify(blocks)).toContain("half done");
    }
  }
  const checkpoint = { kind: "checkpoint", data: { text: "half done" } };
  expect(resumed_bodies.get("lossless")).toMatchObject({ checkpoint });
  expect(resumed_bodies.get("checkpoint")).toMatchObject({ checkpoint });
  const replay = resumed_bodies.get("prompt_replay")!;
  expect(replay).not.toHaveProperty("checkpoint");
  const texts = (replay.chain as { blocks: { content: { text: string }[] }[] }).blocks.map(
    ({ content }) => content[0]?.text,
  );
  expect(texts).toEqual(["/say hello there", "hello there", "fix the bug"]);
  expect(resumed_bodies.get("summary_reseed")).toMatchObject({ summary: { text: "half done" } });
  expect(resumed_bodies.get("summary_reseed")).not.toHaveProperty("checkpoint");
});

const LOREM = "lorem ipsum dolor ".repeat(40);

verifies(
  "compactor.loss",
  "keeps pins, system messages and open tasks when a harness is reseeded, and records tokens and loss",
  async () => {
    const fixture = await createTestSession();
    const { sessions, chains, invocations } = fixture.kernel;
    await fixture.bind(harnessPackage({ fidelity: "summary_reseed" }));
    const hook_package = manifest([hookExport("notify", ["chain.compacted"])], { package_id: "acme/notify" });
    await fixture.bind(hook_package);
    const { head_chain_id: source_id } = await sessions.create(user, { session_id: "s1" });
    const text = (words: string) => [{ type: "text", text: words }];
    const [system, pinned] = await chains.addBlocks(user, source_id, [
      { kind: "system", content: text("You are a coding agent.") },
      { kind: "input", content: text("the deploy key is on the blue shelf") },
      { kind: "response", content: text(LOREM) },
    ]);
    await fixture.say(`/say ${LOREM}`);
    await sessions.pin(user, { session_id: "s1" }, pinned!.entry_id!);
    const watched_entries = await watchEntries(fixture);
    const body = await crashOnce(fixture);
    const { head_chain_id, last_entry_id } = await sessions.get(user, { session_id: "s1" });
    expect((body.target as JsonObject).chain_id).toBe(head_chain_id);
    // Watchers see the entries of the new chain, and the execution targets that chain from now on.
    await expect.poll(() => watched_entries.at(-1)).toBe(last_entry_id);
    const [harness_call] = (await invocations.list(user, { export_id: "triage" }, { limit: 1 })).items;
    const execution = await fixture.kernel.runs.getExecution(user, harness_call!.execution_id);
    expect(execution.target.chain_id).toBe(head_chain_id);
    expect(await sessions.listPins(user, { session_id: "s1" })).toMatchObject([{ in_context: true }]);
    const start = await chains.findViewStart(user, head_chain_id);
    const blocks = await chains.listBlocks(user, head_chain_id, start, 100);
    expect(blocks.map(({ kind, content }) => [kind, content[0]!.text])).toEqual([
      ["system", "half done"],
      ["system", "You are a coding agent."],
      ["input", "the deploy key is on the blue shelf"],
      ["input", "fix the bug"],
    ]);
    const compaction = await sessions.getCompaction(user, head_chain_id);
    expect(compaction).toMatchObject({
      source: { chain_id: source_id },
      tokens_before: expect.any(Number),
      compactor: null,
      diagnostics: { fidelity: "summary_reseed" },
      loss: { kept: 3, condensed: 0, dropped: 3 },
    });
    expect(compaction.tokens_after).toBeLessThan(compaction.tokens_before!);
    const compacted_entries = await sessions.listCompactedEntries(user, head_chain_id);
    expect(compacted_entries.find(({ entry_id }) => entry_id === system!.entry_id)).toMatchObject({
      outcome: "kept",
    });
    // The event of the new chain belongs to the trace of the harness.
    const list = async (export_id: string) =>
      (await invocations.list(user, { export_id }, { limit: 5 })).items;
    await until(async () => (await list("notify")).length === 1);
    const [hook] = await list("notify");
    expect([hook!.trace_id, hook!.run_id]).toEqual([harness_call!.trace_id, harness_call!.run_id]);
  },
);

verifies(
  "harness.limits",
  "resumes a summary_reseed harness on its chain if the policy allows no compaction",
  async () => {
    for (const policy of [{ allow_compaction: false }, { max_compactions: 0 }]) {
      const fixture = await createTestSession();
      await fixture.bind(harnessPackage({ fidelity: "summary_reseed" }));
      await fixture.say(`/say ${LOREM}`);
      const before = await fixture.kernel.sessions.get(user, { session_id: "s1" });
      const body = await crashOnce(fixture, { policy });
      expect(body).toMatchObject({
        mode: "resume",
        summary: { text: "half done" },
        target: { chain_id: before.head_chain_id },
      });
      const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id: "s1" });
      expect(head_chain_id).toBe(before.head_chain_id);
      // No compaction was attempted.
      expect(fixture.events.filter(({ kind }) => kind.startsWith("session.compaction."))).toEqual([]);
    }
  },
);

verifies(
  "harness.checkpoint",
  "replays the target chain after a reset, and the compacted chain after a compaction",
  async () => {
    const replayAfter = async (between: (fixture: TestSession) => Promise<unknown>) => {
      const fixture = await createTestSession();
      await fixture.bind(harnessPackage({ fidelity: "prompt_replay" }));
      for (let n = 0; n < 3; n++) await fixture.say(`/say ${n} ${LOREM}`);
      const target = await fixture.kernel.sessions.get(user, { session_id: "s1" });
      const body = await crashOnce(fixture, { between: () => between(fixture) });
      const head = await fixture.kernel.sessions.get(user, { session_id: "s1" });
      expect(head.head_chain_id).not.toBe(target.head_chain_id);
      const { chain_id, blocks } = body.chain as JsonObject;
      expect((body.target as JsonObject).chain_id).toBe(chain_id);
      return {
        sent: chain_id,
        target: target.head_chain_id,
        head: head.head_chain_id,
        text: JSON.stringify(blocks),
      };
    };
    const reset = await replayAfter(async (fixture) => {
      await fixture.kernel.sessions.reset(user, { session_id: "s1" });
      await fixture.say("/say something else");
    });
    expect(reset.sent).toBe(reset.target);
    expect([reset.text.includes("0 lorem"), reset.text.includes("fix the bug")]).toEqual([true, true]);
    expect(reset.text).not.toContain("something else");
    const compacted = await replayAfter(({ kernel }) => kernel.sessions.compact(user, { session_id: "s1" }));
    expect(compacted.sent).toBe(compacted.head);
    expect(compacted.text).toContain("fix the bug");
  },
);

verifies(
  "harness.contract",
  "finds the child runs of a harness by their keys after a crash and starts none twice",
  async () => {
    const first = await createTestSession();
    await first.bind(harnessPackage());
    const started: string[] = [];
    scriptHarness(first, async ({ run }) => {
      for (const key of ["a", "b"]) {
        const { id, ticket } = await run(key, `child-${key}`, `/say ${key}`);
        await ticket!.settled;
        started.push(id);
      }
      return await hangForever();
    });
    const { run_id, execution_id } = await startRun(first);
    await until(() => started.length === 2);
    await first.crash();

    const second = await createTestSession({ file: first.file, start: false });
    const second_runs: [string, boolean][] = [];
    scriptHarness(second, async ({ run }) => {
      for (const key of ["a", "b", "c"]) {
        const { id, ticket } = await run(key, `child-${key}`, `/say ${key}`);
        second_runs.push([id, ticket === null]);
        await ticket?.settled;
      }
      return { summary: { text: "all" } };
    });
    await second.kernel.start();
    await until(async () => (await second.kernel.runs.get(user, run_id)).status !== "running");
    expect(second_runs.slice(0, 2)).toEqual(started.map((id) => [id, true]));
    expect(second_runs[2]![1]).toBe(false);
    expect(await second.kernel.runs.getExecution(user, execution_id)).toMatchObject({
      used: { child_runs: 3 },
    });
    const { items } = await second.kernel.runs.list(user, {}, { limit: 20 });
    expect(items.filter(({ trigger }) => trigger === "harness")).toHaveLength(3);
  },
);

verifies(
  "harness.contract",
  "leaves a harness to the next gateway when the gateway stops, and ends no run",
  async () => {
    const first = await createTestSession();
    await first.bind(harnessPackage());
    let running = false;
    scriptHarness(first, async ({ cancelled }) => {
      running = true;
      await cancelled;
      throw new Error("stopped");
    });
    first.runner.honors_cancel = true;
    const { run_id } = await startRun(first);
    await until(() => running);
    await first.kernel.stop(1_000);
    expect(await first.store.runs.get(scope, run_id)).toMatchObject({ status: "running" });
    const second = await createTestSession({ file: first.file, start: false });
    scriptHarness(second, async () => ({ summary: { text: "later" } }));
    await second.kernel.start();
    await until(async () => (await second.kernel.runs.get(user, run_id)).status !== "running");
    expect(await second.kernel.runs.get(user, run_id)).toMatchObject({
      status: "completed",
      output: { content: "later" },
    });
  },
);

verifies(
  "harness.contract",
  "resumes a cancelled execution in a new run with the keys of the old one",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    let first_child_id = "";
    scriptHarness(fixture, async ({ event, run, cancelled }) => {
      const { id, ticket } = await run("a", "child", "/say a");
      await ticket!.settled;
      first_child_id = id;
      event({ type: "checkpoint", checkpoint: { kind: "checkpoint", data: { cursor: 7 } } });
      await cancelled;
      return {};
    });
    const { run_id, execution_id } = await startRun(fixture);
    await until(async () => (await fixture.kernel.runs.getExecution(user, execution_id)).checkpoints === 1);
    const resume = { ...START, input: { text: "go on" }, harness: { export_id: "triage", execution_id } };
    await expect(fixture.kernel.runs.start(user, resume)).rejects.toMatchObject({
      code: "execution.running",
    });
    await fixture.kernel.runs.cancel(user, run_id);
    let body: JsonObject = {};
    let second_child_id = "";
    scriptHarness(fixture, async (running) => {
      body = running.body;
      second_child_id = (await running.run("a", "child", "/say a")).id;
      return { summary: { text: "finished" } };
    });
    const done = await (await fixture.kernel.runs.start(user, resume)).settled;
    expect(done).toMatchObject({ status: "completed", harness: { execution_id } });
    expect(done.id).not.toBe(run_id);
    expect(second_child_id).toBe(first_child_id);
    expect(body).toMatchObject({
      mode: "resume",
      target: { session_id: "s1", execution_id },
      trigger: { input: [{ type: "text", text: "go on" }] },
      checkpoint: { kind: "checkpoint", data: { cursor: 7 } },
    });
    const elsewhere = { ...resume, session_id: "other" };
    await expect(fixture.kernel.runs.start(user, elsewhere)).rejects.toMatchObject({
      code: "request.invalid",
    });
  },
);

verifies("harness.contract", "resumes an execution only with the binding that started it", async () => {
  const fixture = await createTestSession();
  const { bindings, runs } = fixture.kernel;
  const harness = (id: string) => ({ id, kind: "harness", harness: {} });
  const first = await fixture.bind(manifest([harness("triage"), harness("review")]));
  const { package_id, package_version } = first;
  await bindings.create(admin, { package_id, package_version, export_id: "review" });
  scriptHarness(fixture, async () => ({ summary: { text: "done" } }));
  const { settled, run } = await runs.start(user, START);
  await settled;
  const { execution_id } = run.harness!;
  const resume = async (target: { export_id: string } | { binding_id: string }) =>
    await (await runs.start(user, { ...START, harness: { ...target, execution_id } })).settled;
  const refusal = {
    code: "request.invalid",
    message: expect.stringContaining(`belongs to the harness triage of ${first.binding_id}`),
  };
  await expect(resume({ export_id: "review" })).rejects.toMatchObject(refusal);
  const { scope } = orgUser;
  const org_wide = await bindings.create(
    { ...admin, scope },
    { package_id, package_version, export_id: "triage" },
  );
  await expect(resume({ binding_id: org_wide.binding_id })).rejects.toMatchObject(refusal);
  expect(fixture.runner.requests).toHaveLength(1);
  expect(await resume({ binding_id: first.binding_id })).toMatchObject({ status: "completed" });
});

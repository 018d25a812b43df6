import type { Entry, KernelPlugin, KernelTool } from "@backplane/contract";
import { toolOk } from "@backplane/sdk/kernel";
import { contextOf } from "@backplane/session";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { addTool, createTestSession, gatedTool } from "./test-session.ts";

const ROUNDS = 60;

const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/** Ends 5 ms after its signal is aborted, or after 40 ms. */
const slowToStop: KernelTool = {
  ...addTool,
  name: "slow_to_stop",
  run: (_args, { signal }) =>
    new Promise((resolve) => {
      signal.addEventListener("abort", () => setTimeout(() => resolve(toolOk("stopped")), 5));
      setTimeout(() => resolve(toolOk("slept")), 40);
    }),
};

const needsApproval: KernelTool = { ...addTool, name: "needs_approval", requires_approval: true };

test("records a result for each call of an interrupted turn before the next message", async () => {
  const fixture = await createTestSession({ tools: [addTool, slowToStop, needsApproval] });
  // The runner of this tool never returns an outcome.
  await fixture.bind(manifest([toolExport("unresponsive")]));
  fixture.runner.honors_cancel = false;
  fixture.runner.script = () => new Promise(() => {});
  const random = createRandom(4711);
  const names = ["add", "slow_to_stop", "needs_approval", "unresponsive"];
  const durations: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const session_id = `s${round % 5}`;
    const calls = Array.from({ length: 1 + random(4) }, () => {
      const name = names[random(names.length)]!;
      return `/tool ${name} ${name === "unresponsive" ? "{}" : '{"a": 1, "b": 2}'}`;
    });
    const text = `${calls.join("\n")}\n/then\n/say done`;
    const { run_id } = await fixture.kernel.sessions.sendMessage(user, { session_id }, { text });
    await pause(random(30));
    const from = performance.now();
    if (await fixture.kernel.sessions.interrupt(user, { session_id })) {
      await until(async () => (await fixture.kernel.runs.get(user, run_id)).status !== "running");
      durations.push(performance.now() - from);
    }
    if (random(2) === 0) await fixture.say("/say next", session_id);
  }
  expect(durations.length).toBeGreaterThan(ROUNDS / 2);
  expect(Math.max(...durations)).toBeLessThan(2_000);
  for (let n = 0; n < 5; n++) {
    const tape = await fixture.tape(`s${n}`);
    expect(findMismatches(tape)).toEqual([]);
    const messages = contextOf(tape);
    expect(JSON.stringify(messages)).not.toContain("no outcome of this call was recorded");
    for (const [at, message] of messages.entries()) {
      if (message.role !== "assistant" || message.tool_calls === undefined) continue;
      const after = messages.slice(at + 1, at + 1 + message.tool_calls.length);
      expect(after.map((message) => message.role === "tool" && message.tool_call_id)).toEqual(
        message.tool_calls.map(({ id }) => id),
      );
    }
  }
});

/** Returns calls without a result before the next message or the end, and results without a call. */
function findMismatches(tape: readonly Entry[]): unknown[] {
  const open = new Set<unknown>();
  const unmatched: unknown[] = [];
  for (const { id: at, kind, payload } of tape) {
    if (kind === "tool_call") open.add(payload.id);
    const done = kind === "tool_result" ? payload.tool_call_id : failedCallId(payload);
    if (done !== undefined && !open.delete(done)) unmatched.push({ at, result_without_call: done });
    if (kind === "message") unmatched.push(...[...open].map((call) => ({ at, call })));
    if (kind === "message") open.clear();
  }
  return [...unmatched, ...open];
}

function failedCallId({ name, data }: Entry["payload"]): unknown {
  return name === "tool.error" ? (data as { id: string }).id : undefined;
}

/** A seeded generator returns the same numbers in every run. */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

test("does not interrupt a turn of the same session id in another workspace", async () => {
  const gate = gatedTool("wait");
  const fixture = await createTestSession({ tools: [gate.tool] });
  const other = { session_id: "s1", workspace: "other" };
  await fixture.kernel.sessions.create(user, other);
  const turn = fixture.say("/tool wait {}");
  await until(() => gate.started === 1);
  expect(await fixture.kernel.sessions.interrupt(user, other)).toBe(false);
  gate.releases[0]!();
  expect((await turn).status).toBe("completed");
});

test("interrupts a turn while an event handler hangs", async () => {
  const gate = gatedTool("wait");
  const stuck: KernelPlugin = {
    name: "stuck",
    version: "1.0.0",
    category: "skill",
    subscriptions: () => ["tool.call.start"],
    onEvent: () => new Promise(() => {}),
  };
  const fixture = await createTestSession({ tools: [gate.tool], plugins: [stuck] });
  const turn = fixture.say("/tool wait {}");
  await until(() => gate.started === 1);
  const from = performance.now();
  await fixture.kernel.sessions.interrupt(user, { session_id: "s1" });
  expect((await turn).status).toBe("cancelled");
  expect(performance.now() - from).toBeLessThan(5_000);
  gate.releases[0]!();
});

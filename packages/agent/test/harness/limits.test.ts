/** The limits of a harness, enforced by the kernel whatever the harness does. */
import type { Run } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../loop/test-session.ts";
import {
  harnessPackage,
  type RunPolicy,
  runHarness,
  type ScriptedHarnessCall,
  scriptHarness,
} from "./test-harness.ts";

const refusal = (limit: string) => ({ code: "harness.limit", details: { limit } });

verifies(
  "harness.limits",
  "starts at most max_child_runs of the runs that a harness requests concurrently",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const results: PromiseSettledResult<unknown>[] = [];
    const { done, used } = await runHarness(fixture, { max_child_runs: 3 }, async ({ run }) => {
      const keys = Array.from({ length: 8 }, (_, n) => `k${n}`);
      const started = keys.map(async (key) => (await run(key, `child-${key}`, "/say x")).ticket!.settled);
      results.push(...(await Promise.allSettled(started)));
    });
    expect(done).toMatchObject({ status: "completed" });
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
    const refused = results.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    for (const { reason } of refused) expect(reason).toMatchObject(refusal("max_child_runs"));
    expect(used).toMatchObject({ child_runs: 3 });
    const children = (await fixture.kernel.runs.list(user, {}, { limit: 20 })).items.filter(
      ({ parent_run_id }) => parent_run_id === done.id,
    );
    expect(children.map(({ trigger, status }) => [trigger, status])).toEqual(
      Array.from({ length: 3 }, () => ["harness", "completed"]),
    );
  },
);

verifies("harness.limits", "ends a child run whose model calls exceed max_steps", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  const ended: Run[] = [];
  const { used } = await runHarness(fixture, { max_steps: 2 }, async ({ run }) => {
    for (const key of ["a", "b"]) {
      const script = '/tool add {"a": 1, "b": 2}\n/then\n/say done';
      ended.push(await (await run(key, key, script)).ticket!.settled);
    }
  });
  expect(ended.map(({ status, error }) => [status, error?.code])).toEqual([
    ["completed", undefined],
    ["failed", "harness.limit"],
  ]);
  expect(used).toMatchObject({ steps: 2 });
});

verifies("harness.limits", "refuses compactions that the policy does not allow", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  await fixture.say(`/say ${"lorem ipsum ".repeat(400)}`, "long");
  await fixture.say(`/say ${"dolor sit ".repeat(400)}`, "long");
  const refused: unknown[] = [];
  const compact = ({ caller }: ScriptedHarnessCall) =>
    fixture.kernel.sessions
      .compact(caller, { session_id: "long" })
      .catch((error) => void refused.push(error));
  await runHarness(fixture, { allow_compaction: false }, compact);
  await runHarness(fixture, { max_compactions: 0 }, compact);
  expect(refused).toMatchObject([refusal("max_compactions"), refusal("max_compactions")]);
  const { used } = await runHarness(fixture, {}, compact);
  expect(refused).toHaveLength(2);
  expect(used).toMatchObject({ compactions: 1 });
});

verifies("harness.limits", "counts only compactions that begin a chain", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  await fixture.say("/say hello", "short");
  const long = ["long1", "long2", "long3"];
  for (const session_id of long)
    for (const words of ["lorem ipsum ", "dolor sit "])
      await fixture.say(`/say ${words.repeat(400)}`, session_id);
  const results: unknown[] = [];
  const { used } = await runHarness(fixture, { max_compactions: 1 }, async ({ caller }) => {
    const compact = (session_id: string) =>
      fixture.kernel.sessions.compact(caller, { session_id }, {}).then(
        ({ origin }) => origin,
        ({ code, message, details }) => ({ code, message, details }),
      );
    results.push(await compact("short"));
    // The limit also holds for compactions that run concurrently.
    results.push(...(await Promise.all(long.map(compact))));
    results.push(await compact("long1"));
  });
  const [short, ...others] = results;
  expect(short).toMatchObject({ code: "request.invalid", message: expect.stringContaining("too short") });
  const refused = others.filter((result) => result !== "compaction");
  expect(refused).toHaveLength(3);
  for (const result of refused)
    expect(result).toMatchObject({ ...refusal("max_compactions"), details: { max: 1, used: 1 } });
  expect(used).toMatchObject({ compactions: 1 });
  const chains = await Promise.all(
    long.map(async (session_id) => {
      const { head_chain_id } = await fixture.kernel.sessions.get(user, { session_id });
      return (await fixture.kernel.chains.get(user, head_chain_id)).origin;
    }),
  );
  expect(chains.filter((origin) => origin === "compaction")).toHaveLength(1);
});

verifies("harness.limits", "ends the execution and its child runs when max_time_ms has passed", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  fixture.runner.script = async ({ request }) => {
    const caller = await fixture.kernel.keys.authenticate(request.context.gateway.delegation_token!);
    const body = { session_id: "child", input: { text: "/slow 60000" } };
    await fixture.kernel.runs.startOnce(caller, body, "slow", "d");
    // The runner enforces the time that the door gives it.
    return { ...ok(null), status: "failed", error: { code: "timeout", message: String(request.timeout_ms) } };
  };
  const harness = { export_id: "triage", policy: { max_time_ms: 5_000 } };
  const body = { session_id: "s1", input: { text: "go" }, harness };
  const done = await (await fixture.kernel.runs.start(user, body)).settled;
  expect(done).toMatchObject({ status: "failed", error: { code: "timeout" } });
  expect(Number(done.error!.message)).toBeLessThanOrEqual(5_000);
  const child = async () =>
    (await fixture.kernel.runs.list(user, { session_id: "child" }, { limit: 1 })).items[0]!;
  await until(async () => (await child()).status !== "running");
  expect(await child()).toMatchObject({ status: "cancelled" });
  fixture.clock.wall_offset += 6_000;
  const { execution_id } = done.harness!;
  const again = { ...body, harness: { export_id: "triage", execution_id } };
  await expect(fixture.kernel.runs.start(user, again)).rejects.toMatchObject(refusal("max_time_ms"));
});

verifies(
  "harness.limits",
  "does not restart an execution after a crash when max_time_ms has passed",
  async () => {
    const first = await createTestSession();
    await first.bind(harnessPackage());
    let started = false;
    scriptHarness(first, async () => {
      started = true;
      return await new Promise<never>(() => {});
    });
    const harness = { export_id: "triage", policy: { max_time_ms: 5_000 } };
    const body = { session_id: "s1", input: { text: "go" }, harness };
    const { run } = await first.kernel.runs.start(user, body);
    await until(() => started);
    await first.crash();
    const second = await createTestSession({ file: first.file, start: false });
    second.clock.wall_offset = 6_000;
    scriptHarness(second, async () => ({ summary: { text: "too late" } }));
    await second.kernel.start();
    await until(async () => (await second.kernel.runs.get(user, run.id)).status !== "running");
    expect(await second.kernel.runs.get(user, run.id)).toMatchObject({
      status: "failed",
      error: {
        code: "timeout",
        message: `The execution ${run.harness!.execution_id} has reached its max_time_ms.`,
      },
    });
    expect(second.runner.requests).toEqual([]);
  },
);

verifies("harness.limits", "refuses a child run that is deeper than max_depth", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  const refused: unknown[] = [];
  await runHarness(fixture, { max_depth: 0 }, async ({ run }) => {
    await run("a", "child", "/say x").catch((error) => void refused.push(error));
  });
  expect(refused).toMatchObject([refusal("max_depth")]);
});

verifies(
  "harness.limits",
  "counts the sub-agents of a child run towards max_depth and max_child_runs",
  async () => {
    const spawn = '/tool agent {"goal": "/say deep"}\n/then\n/say back';
    const { plugin } = autoApprovePlugin();
    const fixture = await createTestSession({ plugins: [agentTool, plugin] });
    await fixture.bind(harnessPackage());
    const runWithPolicy = async (policy: RunPolicy) => {
      const ended: Run[] = [];
      const { used } = await runHarness(fixture, policy, async ({ run }) => {
        ended.push(await (await run("a", `child-${JSON.stringify(policy)}`, spawn)).ticket!.settled);
      });
      const { items } = await fixture.kernel.runs.list(user, {}, { limit: 20 });
      const nested = items.filter(({ parent_run_id }) => parent_run_id === ended[0]!.id);
      return { status: ended[0]!.status, nested: nested.map(({ status }) => status), used };
    };
    expect(await runWithPolicy({ max_depth: 2 })).toMatchObject({
      status: "completed",
      nested: ["completed"],
      used: { child_runs: 2 },
    });
    expect(await runWithPolicy({ max_depth: 1 })).toMatchObject({ nested: [], used: { child_runs: 1 } });
    expect(await runWithPolicy({ max_child_runs: 1 })).toMatchObject({ nested: [], used: { child_runs: 1 } });
  },
);

verifies("harness.limits", "auto-compacts a child run only as often as the policy allows", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  await fixture.kernel.config.set(admin, { "providers.llm-echo.context_window": 2_000 });
  const countCompactions = async (session_id: string, policy: RunPolicy) => {
    const { done, used } = await runHarness(fixture, policy, async ({ run }) => {
      for (let n = 0; n < 8; n++)
        await (await run(`${session_id}${n}`, session_id, `/say ${n} ${"lorem ipsum ".repeat(120)}`)).ticket!
          .settled;
    });
    expect(done.status).toBe("completed");
    return (used as { compactions: number }).compactions;
  };
  expect(await countCompactions("free", {})).toBeGreaterThan(1);
  expect(await countCompactions("once", { max_compactions: 1 })).toBe(1);
  expect(await countCompactions("never", { allow_compaction: false })).toBe(0);
  const started = fixture.events.filter(({ kind }) => kind === "session.compaction.started");
  const countStarted = (id: string) =>
    started.filter(({ payload }) => payload.target_session_id === id).length;
  expect([countStarted("once"), countStarted("never")]).toEqual([1, 0]);
});

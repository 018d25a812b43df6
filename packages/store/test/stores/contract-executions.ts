import type { InvocationRow, NewExecution, SessionKey, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { sampleEnd, sampleRun, tape } from "../support/sample-runs.ts";
import { ids, NOW, sampleExecution, sampleInvocation, sampleSettlement } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function executionCases(store: () => Store): void {
  const harnessCall = (scope: SessionKey["scope"] = freshOrg(), overrides: Partial<InvocationRow> = {}) =>
    sampleInvocation({
      ...scope,
      export_kind: "harness",
      execution_id: ids.next("execution"),
      ...overrides,
    });
  const beginExecution = async (overrides: Partial<NewExecution> = {}) => {
    const row = harnessCall();
    const execution = sampleExecution(row, overrides);
    await store().invocations.open(row, { execution, records: {} });
    return { row, execution };
  };
  const startChild = async (
    scope: SessionKey["scope"],
    execution: { id: string; depth: number },
    name: string,
  ) => {
    const key = { scope, workspace: "default", session_id: name };
    const chain = { id: ids.next("chain"), created_at: NOW };
    await store().sessions.create({ key, name, metadata: {} }, chain, [], {});
    return await store().runs.start(sampleRun(key), tape(key, "go"), 1, {}, undefined, undefined, execution);
  };

  verifies(
    "harness.limits",
    "starts no more child runs than the limit, however many start concurrently",
    async () => {
      const { execution } = await beginExecution();
      const { id, scope } = execution;
      const children = Array.from({ length: 12 }, (_, n) => startChild(scope, { id, depth: 1 }, `c${n}`));
      const results = await Promise.allSettled(children);
      const refused = results.filter(({ status }) => status === "rejected");
      expect(refused).toHaveLength(9);
      for (const { reason } of refused as PromiseRejectedResult[])
        expect(reason).toMatchObject({ code: "harness.limit", details: { limit: "max_child_runs", max: 3 } });
      expect((await store().executions.get(scope, id))?.used.child_runs).toBe(3);
      expect((await store().runs.list(scope, {}, { limit: 20 })).items).toHaveLength(3);
    },
  );

  verifies(
    "harness.limits",
    "counts steps and compactions up to their limits under concurrent use",
    async () => {
      const { execution } = await beginExecution();
      const { executions, sessions } = store();
      const { id, scope } = execution;
      const use = {
        countStep: () => executions.countStep(id),
        async compact() {
          await executions.requireCompaction(id);
          const session_id = ids.next("session");
          const key = { scope, workspace: "default", session_id };
          const newChain = () => ({ id: ids.next("chain"), created_at: NOW });
          const first = newChain();
          await sessions.create({ key, name: "s", metadata: {} }, first, [], {});
          const stale = { chain_id: first.id, last_entry_id: 9 };
          // A compaction that begins no chain is not counted.
          const options = { execution_id: id };
          expect(await sessions.compact(key, stale, newChain(), [], {}, options)).toBeNull();
          await sessions.compact(key, { chain_id: first.id, last_entry_id: 0 }, newChain(), [], {}, options);
        },
      };
      for (const [method, limit, max] of [
        ["countStep", "max_steps", 2],
        ["compact", "max_compactions", 1],
      ] as const) {
        const uses = await Promise.allSettled(Array.from({ length: 8 }, () => use[method]()));
        expect(uses.filter(({ status }) => status === "fulfilled")).toHaveLength(max);
        await expect(use[method]()).rejects.toMatchObject({
          code: "harness.limit",
          details: { limit, max, used: max },
        });
      }
    },
  );

  verifies(
    "harness.limits",
    "refuses a child run that is nested too deeply or starts after the end",
    async () => {
      const { row, execution } = await beginExecution({ depth: 1 });
      const { id, scope } = execution;
      await startChild(scope, { id, depth: 3 }, "deep");
      await expect(startChild(scope, { id, depth: 4 }, "deeper")).rejects.toMatchObject({
        code: "harness.limit",
        details: { limit: "max_depth", max: 2 },
      });
      const harness = { execution_id: id, checkpoint: null, run: null };
      expect(
        await store().invocations.settleHarness(row.id, row.fence, sampleSettlement(), {}, harness),
      ).toEqual({
        entries: null,
      });
      await expect(startChild(scope, { id, depth: 2 }, "late")).rejects.toMatchObject({
        code: "harness.limit",
        details: { limit: "ended" },
      });
      await expect(store().executions.countStep(id)).rejects.toMatchObject({ code: "harness.limit" });
    },
  );

  test("stores all progress before the call of a harness is settled", async () => {
    const { row, execution } = await beginExecution();
    const { invocations } = store();
    const event = { seq: 1, at: new Date(0).toISOString(), event: { type: "progress", text: "last step" } };
    invocations.appendEvents(row.id, [event]);
    const harness = { execution_id: execution.id, checkpoint: null, run: null };
    await invocations.settleHarness(row.id, row.fence, sampleSettlement(), {}, harness);
    expect(await invocations.listEvents(row.id, 0, 10)).toEqual([event]);
  });

  test("reopens an ended execution for only one of two calls that resume it", async () => {
    const { row, execution } = await beginExecution();
    const { id, scope } = execution;
    const { invocations, executions } = store();
    const checkpoint = { kind: "checkpoint", data: { cursor: 3 } };
    const call = { invocation_id: row.id, fence: row.fence };
    expect(await executions.saveCheckpoint(id, call, checkpoint)).toBe(true);
    expect(await executions.saveCheckpoint(id, { ...call, fence: row.fence + 1 }, checkpoint)).toBe(false);
    const harness = { execution_id: id, checkpoint: null, run: null };
    const end = { ...sampleSettlement(), status: "cancelled" as const };
    await invocations.settleHarness(row.id, row.fence, end, {}, harness);
    expect(await invocations.settleHarness(row.id, row.fence, end, {}, harness)).toBeNull();
    expect(await executions.saveCheckpoint(id, call, checkpoint)).toBe(false);
    const ended = (await executions.get(scope, id))!;
    expect(ended).toMatchObject({ status: "cancelled", checkpoint, checkpoints: 1, starts: 0 });
    const resuming = [harnessCall(scope, { execution_id: id }), harnessCall(scope, { execution_id: id })];
    const opened = await Promise.allSettled(
      resuming.map((next) =>
        invocations.open(next, {
          execution: { resumes: { ...ended, trigger: { type: "more" } } },
          records: {},
        }),
      ),
    );
    expect(opened.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    const refused = opened.find(({ status }) => status === "rejected") as PromiseRejectedResult;
    expect(refused.reason).toMatchObject({ code: "execution.running" });
    const winner = resuming[opened.findIndex(({ status }) => status === "fulfilled")]!;
    expect(await executions.get(scope, id)).toMatchObject({
      status: "running",
      invocation_id: winner.id,
      trigger: { type: "more" },
      checkpoint,
      starts: 1,
    });
    expect(await executions.countStart(id, row.id)).toBeNull();
    expect(await executions.countStart(id, winner.id)).toMatchObject({ starts: 2 });
    expect(await executions.get(freshOrg(), id)).toBeNull();
  });

  test("opens and ends the run of a harness with its call, alongside the turns of its session", async () => {
    const row = harnessCall(freshOrg(), { run_id: ids.next("run"), harness_run: { workspace: "default" } });
    const scope = { org_id: row.org_id, project_id: row.project_id };
    const key = { scope, workspace: "default", session_id: "s1" };
    const { invocations, runs, sessions } = store();
    await sessions.create(
      { key, name: "s1", metadata: {} },
      { id: ids.next("chain"), created_at: NOW },
      [],
      {},
    );
    const harness = { execution_id: row.execution_id, invocation_id: row.id, export_id: "triage" };
    const run = sampleRun(key, { id: row.run_id!, harness });
    const opened = await invocations.open(row, {
      execution: sampleExecution(row, { run_id: run.id }),
      run: { row: run, own_entries: 1 },
      tape: tape(key, "fix it"),
      records: {},
    });
    expect(await runs.get(scope, run.id)).toMatchObject({
      status: "running",
      harness,
      chain_id: opened!.chain_id,
      first_entry_id: opened!.last_id,
    });
    const orphans = await runs.claimOrphans("node_other", 9e15, 1_000);
    expect(orphans.map(({ id }) => id)).not.toContain(run.id);
    const turn = sampleRun(key);
    await runs.start(turn, tape(key, "step"), 1, {});
    const other = harnessCall(scope, { run_id: ids.next("run") });
    await expect(
      invocations.open(other, {
        execution: sampleExecution(other),
        run: { row: sampleRun(key, { id: other.run_id! }), own_entries: 1 },
        tape: tape(key, "me too"),
        records: {},
      }),
    ).rejects.toMatchObject({ code: "session.busy" });
    // The answer of the harness is not appended, because it would come between the entries of the turn.
    const settle = (id: string) =>
      invocations.settleHarness(
        row.id,
        row.fence,
        sampleSettlement(),
        {},
        {
          execution_id: row.execution_id,
          checkpoint: { kind: "checkpoint", data: 1 },
          run: { id, end: sampleEnd(), tape: tape(key, "summary") },
        },
      );
    expect(await settle(run.id)).toEqual({ entries: null });
    expect(await runs.get(scope, run.id)).toMatchObject({ status: "completed", output: { content: "done" } });
    expect((await sessions.get(key))?.last_entry_id).toBe(opened!.last_id + 1);
    expect(await store().executions.get(scope, row.execution_id)).toMatchObject({
      status: "succeeded",
      checkpoint: { kind: "checkpoint", data: 1 },
    });
  });
}

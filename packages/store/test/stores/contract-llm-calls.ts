import { type LlmCall, tokenUsage } from "@backplane/contract";
import type { LlmBudgetUse, RunRow, Scope, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { holdOf, sampleEnd, sampleRun, tape } from "../support/sample-runs.ts";
import { freshKey, newChain, newSession, start } from "../support/sample-sessions.ts";
import { ids, sampleEvent, sampleExecution, sampleInvocation, sampleSettlement } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

let sample_count = 0;

function sampleCall(scope: Scope, fields: Partial<LlmCall> = {}): LlmCall {
  return {
    id: `llm_${String(sample_count++).padStart(6, "0")}`,
    ...scope,
    status: "running",
    protocol: "chat",
    operation: "generate",
    stream: true,
    provider: "chat",
    model: "m",
    requested_model: "chat/m",
    actor: "key_1",
    key_id: "key_1",
    invocation_id: null,
    session_id: null,
    run_id: null,
    execution_id: null,
    started_at: "2026-01-01T00:00:00.000Z",
    first_part_ms: null,
    duration_ms: null,
    usage: null,
    stop_reason: null,
    error: null,
    ...fields,
  };
}

export function llmCallCases(store: () => Store): void {
  const DAY = 86_400_000;
  const budget = ({ org_id }: Scope, fields: Partial<LlmBudgetUse> = {}): LlmBudgetUse => ({
    subject: `key:${org_id}`,
    period: "day",
    starts: 0,
    ends: DAY,
    max_requests: Number.MAX_SAFE_INTEGER,
    max_tokens: Number.MAX_SAFE_INTEGER,
    label: "a limit",
    ...fields,
  });

  test("records a call, settles it once and finds it in its scope", async () => {
    const scope = freshOrg();
    const { llm_calls } = store();
    const call = sampleCall(scope, { run_id: `run_${scope.org_id}`, invocation_id: `inv_${scope.org_id}` });
    await llm_calls.open(call, 1, [], 0, "node_a");
    expect(await llm_calls.get(scope, call.id)).toEqual(call);
    const ended: LlmCall = { ...call, status: "succeeded", duration_ms: 7, stop_reason: "stop" };
    expect(await llm_calls.settle(ended, [], 0)).toBe(true);
    expect(await llm_calls.settle({ ...ended, status: "failed" }, [], 0)).toBe(false);
    expect(await llm_calls.get(scope, call.id)).toEqual(ended);
    expect(await llm_calls.get({ ...scope, project_id: null }, call.id)).toEqual(ended);
    expect(await llm_calls.get({ ...scope, project_id: "other" }, call.id)).toBeNull();
    expect(await llm_calls.get(freshOrg(), call.id)).toBeNull();
    const other = sampleCall(scope);
    await llm_calls.open(other, 1, [], 0, "node_a");
    const listIds = async (filter: { run_id?: string; invocation_id?: string }, limit = 5) =>
      (await llm_calls.list(scope, filter, { limit })).items.map(({ id }) => id);
    expect(await listIds({})).toEqual([other.id, call.id]);
    expect(await listIds({}, 1)).toEqual([other.id]);
    expect(await listIds({ run_id: `run_${scope.org_id}` })).toEqual([call.id]);
    expect(await listIds({ invocation_id: `inv_${scope.org_id}` })).toEqual([call.id]);
  });

  verifies("llm.gateway", "counts concurrent model calls towards every budget or none", async () => {
    const scope = freshOrg();
    const { llm_calls } = store();
    const uses = [
      budget(scope, { max_requests: 5 }),
      budget(scope, { subject: `project:${scope.org_id}`, max_requests: 3, label: "the project's limit" }),
    ];
    const open = () => llm_calls.open(sampleCall(scope), 1, uses, 0, "node_a");
    const opened = await Promise.allSettled(Array.from({ length: 8 }, open));
    expect(opened.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
    await expect(open()).rejects.toMatchObject({
      code: "llm.budget_exceeded",
      details: { limit: "the project's limit", ends_at: DAY },
    });
    // Refused calls were not counted for the key either, and left no record.
    await llm_calls.open(sampleCall(scope), 1, [uses[0]!], 0, "node_a");
    await llm_calls.open(sampleCall(scope), 1, [uses[0]!], 0, "node_a");
    await expect(llm_calls.open(sampleCall(scope), 1, [uses[0]!], 0, "node_a")).rejects.toMatchObject({
      code: "llm.budget_exceeded",
    });
    expect((await llm_calls.list(scope, {}, { limit: 20 })).items).toHaveLength(5);
  });

  test("reserves tokens, replaces them with the actual usage and resets in the next period", async () => {
    const scope = freshOrg();
    const { llm_calls } = store();
    const use = budget(scope, { max_tokens: 100 });
    const first = sampleCall(scope);
    await llm_calls.open(first, 1, [use], 80, "node_a");
    await llm_calls.open(sampleCall(scope), 1, [use], 30, "node_a");
    await expect(llm_calls.open(sampleCall(scope), 1, [use], 1, "node_a")).rejects.toMatchObject({
      code: "llm.budget_exceeded",
    });
    await llm_calls.settle({ ...first, status: "succeeded" }, [use], -70);
    await llm_calls.open(sampleCall(scope), 1, [use], 60, "node_a");
    const next = { ...use, starts: DAY, ends: 2 * DAY };
    const later = sampleCall(scope);
    await llm_calls.open(later, 1, [next], 99, "node_a");
    // A call of the previous period no longer changes the count.
    await llm_calls.settle({ ...later, status: "succeeded" }, [use], 1_000);
    await llm_calls.open(sampleCall(scope), 1, [next], 1, "node_a");
    await expect(llm_calls.open(sampleCall(scope), 1, [next], 1, "node_a")).rejects.toMatchObject({
      code: "llm.budget_exceeded",
    });
  });

  const USAGE = { input_other: 100, input_cache_read: 20, input_cache_creation: 3, output: 7 };
  const startRun = async () => {
    const key = freshKey();
    await store().sessions.create(newSession(key), newChain(), [start], {});
    const run = sampleRun(key);
    await store().runs.start(run, tape(key, "hello"), 1, {});
    return { key, scope: key.scope, run };
  };
  const openHarnessRun = async () => {
    const key = freshKey();
    await store().sessions.create(newSession(key), newChain(), [start], {});
    const row = sampleInvocation({
      ...key.scope,
      export_kind: "harness",
      execution_id: ids.next("execution"),
      run_id: ids.next("run"),
      harness_run: { workspace: "default" },
    });
    const run = sampleRun(key, { id: row.run_id! });
    await store().invocations.open(row, {
      execution: sampleExecution(row, { run_id: run.id }),
      run: { row: run, own_entries: 1 },
      tape: tape(key, "fix it"),
      records: {},
    });
    const end = () =>
      store().invocations.settleHarness(
        row.id,
        row.fence,
        sampleSettlement(),
        createEndRecords(key.scope, run, 0),
        {
          execution_id: row.execution_id,
          checkpoint: null,
          run: { id: run.id, end: sampleEnd({ usage: tokenUsage(), iterations: 0 }), tape: null },
        },
      );
    return { scope: key.scope, run, end };
  };
  const createEndRecords = (scope: Scope, { id }: RunRow, tokens: number) => ({
    events: [
      sampleEvent(id, { scope, subject: { kind: "run", id }, summary: { status: "completed", tokens } }),
      sampleEvent("other", { scope, summary: { tokens: 1 } }),
    ],
  });
  const makeCall = async (scope: Scope, fields: Partial<LlmCall>, ending: Partial<LlmCall> | null) => {
    const call = sampleCall(scope, fields);
    await store().llm_calls.open(call, 1, [], 0, "node_a");
    if (ending === null) return call;
    const settle = () => store().llm_calls.settle({ ...call, status: "succeeded", ...ending }, [], 0);
    expect(new Set(await Promise.all([settle(), settle()]))).toEqual(new Set([true, false]));
    return call;
  };
  const readTokens = async (scope: Scope) =>
    (await store().outbox.read(0, 100, scope)).map(({ summary }) => summary.tokens);

  test("adds each ended model call to its run once, concurrently and after the end of the run", async () => {
    const { scope, run, end } = await openHarnessRun();
    const usage = tokenUsage(USAGE);
    await Promise.all(Array.from({ length: 5 }, () => makeCall(scope, { run_id: run.id }, { usage })));
    await makeCall(scope, { run_id: run.id }, { status: "cancelled" });
    await makeCall(scope, { run_id: run.id, operation: "count_tokens" }, { usage });
    await makeCall(scope, {}, { usage });
    const running_call = await makeCall(scope, { run_id: run.id }, null);
    const expected = tokenUsage({
      input_other: 500,
      input_cache_read: 100,
      input_cache_creation: 15,
      output: 35,
    });
    const { runs, llm_calls } = store();
    expect(await runs.get(scope, run.id)).toMatchObject({ usage: expected, iterations: 6 });
    await end();
    expect(await runs.get(scope, run.id)).toMatchObject({ usage: expected, iterations: 6 });
    expect(await readTokens(scope)).toEqual([650, 1]);
    await llm_calls.settle({ ...running_call, status: "cancelled", usage: tokenUsage({ output: 4 }) }, [], 0);
    const { items } = await runs.list(scope, {}, { limit: 5 });
    expect(items).toMatchObject([{ id: run.id, usage: { output: 39, total: 654 }, iterations: 7 }]);
  });

  test("adds model calls to what a turn has used itself, and reports the sum at its end", async () => {
    const { key, scope, run } = await startRun();
    await makeCall(scope, { run_id: run.id }, { usage: tokenUsage(USAGE) });
    // A gateway that takes over a turn must not count these calls as the turn's own.
    const claimed = await store().runs.claimOrphans(ids.next("node"), Date.now(), 1_000);
    const held = claimed.find(({ id }) => id === run.id)!;
    expect(held).toMatchObject({ usage: tokenUsage(), iterations: 0 });
    const own = sampleEnd({ usage: tokenUsage({ output: 1 }), iterations: 2 });
    const ended = await store().runs.end(scope, holdOf(held), 0, own, null, createEndRecords(scope, run, 1));
    const total = { usage: tokenUsage({ ...USAGE, output: 8 }), iterations: 3 };
    expect(ended).toMatchObject(total);
    expect(await store().runs.get(scope, run.id)).toMatchObject(total);
    expect(await readTokens(key.scope)).toEqual([131, 1]);
  });

  test("counts a lost model call for its run, and ignores usage that is not a number of tokens", async () => {
    const { scope, run } = await startRun();
    const fields = { run_id: run.id };
    await makeCall(scope, fields, null);
    await makeCall(scope, { ...fields, operation: "count_tokens" }, null);
    await store().llm_calls.endLost(1_500, null);
    expect(await store().runs.get(scope, run.id)).toMatchObject({ usage: tokenUsage(), iterations: 1 });
    const invalid = { input_other: -5, input_cache_read: 0.5, input_cache_creation: "9", output: 1e300 };
    await makeCall(scope, fields, { usage: invalid as unknown as LlmCall["usage"] });
    const huge = tokenUsage({ output: Number.MAX_SAFE_INTEGER });
    await makeCall(scope, fields, { usage: huge });
    await makeCall(scope, fields, { usage: huge });
    const { usage, iterations } = (await store().runs.get(scope, run.id))!;
    expect([usage.total, iterations]).toEqual([2_000_000_000, 4]);
  });

  test("marks running calls as lost after their deadline", async () => {
    const scope = freshOrg();
    const { llm_calls } = store();
    const [late, early, ended] = [sampleCall(scope), sampleCall(scope), sampleCall(scope)];
    await llm_calls.open(late, 2_000, [], 0, "node_a");
    await llm_calls.open(early, 1_000, [], 0, "node_a");
    await llm_calls.open(ended, 1_000, [], 0, "node_a");
    await llm_calls.settle({ ...ended, status: "failed" }, [], 0);
    expect(await llm_calls.endLost(1_500, null)).toBeGreaterThan(0);
    const readStatus = async ({ id }: LlmCall) => (await llm_calls.get(scope, id))?.status;
    expect([await readStatus(late), await readStatus(early), await readStatus(ended)]).toEqual([
      "running",
      "lost",
      "failed",
    ]);
  });
}

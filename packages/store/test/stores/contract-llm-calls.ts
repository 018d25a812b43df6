import type { LlmCall } from "@backplane/contract";
import type { LlmBudgetUse, Scope, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
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

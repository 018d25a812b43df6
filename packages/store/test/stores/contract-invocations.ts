import type { InvocationRow, NewDelegation, Settlement, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  ids,
  NOW,
  sampleApproval,
  sampleEvent,
  sampleInvocation,
  sampleSettlement,
} from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";
import { readAllPages } from "./all-pages.ts";

export function invocationCases(store: () => Store): void {
  test("returns every field of an opened row, and only within its scope", async () => {
    const scope = freshOrg();
    const row = sampleInvocation({
      ...scope,
      session_id: "sess \u0001'\"-ü",
      input: { text: "\u0000 \ud800" },
    });
    await store().invocations.open(row, { records: {} });
    expect(await store().invocations.get(scope, row.id)).toEqual(row);
    expect(await store().invocations.get({ ...scope, project_id: null }, row.id)).toEqual(row);
    expect(await store().invocations.get({ ...scope, project_id: "proj_other" }, row.id)).toBeNull();
    expect(await store().invocations.get(freshOrg(), row.id)).toBeNull();
  });

  test("returns a complete result block, whether or not it repeats the result", async () => {
    const scope = freshOrg();
    const content = [{ type: "text", text: "x" }];
    const structured_output = { n: 1 };
    const block = { kind: "tool_result", tool_execution_id: "toolx_1", tool: "echo" } as const;
    const other = [{ type: "text", text: "y" }];
    for (const [result, tool_result] of [
      [{ content }, { ...block, is_error: false, content }],
      [
        { content, structured_output },
        { ...block, is_error: true, content, structured_output },
      ],
      [
        { content, structured_output },
        { ...block, is_error: false, content },
      ],
      [{ content }, { ...block, is_error: false, content: other }],
      [null, { ...block, is_error: true, content: other }],
    ] as const) {
      const row = sampleInvocation(scope);
      await store().invocations.open(row, { records: {} });
      const end = sampleSettlement({
        result: result as Settlement["result"],
        tool_result: tool_result as unknown as Settlement["tool_result"],
      });
      await store().invocations.settle(row.id, 1, end, {});
      expect(await store().invocations.get(scope, row.id)).toMatchObject({ result, tool_result });
      expect((await store().invocations.get(scope, row.id))!.tool_result).toEqual(tool_result);
    }
  });

  test("records a refused call in a terminal status, and does not settle it again", async () => {
    const scope = freshOrg();
    const row = sampleInvocation({
      ...scope,
      status: "failed",
      error: { code: "policy.denied", message: "no" },
      started_at: null,
      ended_at: NOW,
    });
    await store().invocations.open(row, { records: {} });
    expect(await store().invocations.get(scope, row.id)).toEqual(row);
    expect(await store().invocations.settle(row.id, 1, sampleSettlement(), {})).toBe(false);
  });

  verifies(
    "inv.record",
    "accepts one of 20 concurrent settlements, with its event, and revokes the token",
    async () => {
      const scope = freshOrg();
      const row = sampleInvocation(scope);
      const delegation = sampleDelegation(row.id, scope);
      await store().invocations.open(row, { delegation, records: {} });
      expect(await store().delegations.findByHash(delegation.token_hash)).toEqual(delegation);
      expect(await store().invocations.settle(row.id, 2, sampleSettlement(), {})).toBe(false);
      const wins = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          store().invocations.settle(row.id, 1, sampleSettlement({ result: { n }, retry_count: n }), {
            events: [sampleEvent(row.id, { scope, summary: { n } })],
          }),
        ),
      );
      expect(wins.filter(Boolean)).toHaveLength(1);
      const settled = await store().invocations.get(scope, row.id);
      const winner = wins.indexOf(true);
      expect(settled).toMatchObject({
        status: "succeeded",
        result: { n: winner },
        retry_count: winner,
        started_at: NOW,
        ended_at: NOW,
      });
      expect((await store().outbox.read(0, 100, scope)).map((event) => event.summary)).toEqual([
        { n: winner },
      ]);
      expect(await store().delegations.findByHash(delegation.token_hash)).toBeNull();
    },
  );

  test("replaces the approval of a waiting row only for the owner of the row and before it runs", async () => {
    const scope = freshOrg();
    const row = sampleInvocation({ ...scope, status: "waiting_approval", started_at: null });
    const first = sampleApproval(row);
    await store().invocations.open({ ...row, approval_id: first.id }, { approval: first, records: {} });
    const second = sampleApproval(row, { replaces: first.id, changed: ["config.region"] });
    const next = { ...row, approval_id: second.id, binding_generation: 7, package_version: "9.9.9" };
    const { invocations } = store();
    expect(await invocations.replaceApproval({ ...next, fence: row.fence + 1 }, second, {})).toBe(false);
    expect(await invocations.replaceApproval(next, second, { events: [sampleEvent(row.id)] })).toBe(true);
    expect(await invocations.get(scope, row.id)).toMatchObject({
      status: "waiting_approval",
      approval_id: second.id,
      binding_generation: 7,
      package_version: "9.9.9",
    });
    expect(await store().approvals.get(scope, second.id)).toMatchObject({ replaces: first.id });
    expect(await invocations.start(row.id, row.fence, NOW, {})).toBe(true);
    expect(await invocations.replaceApproval(next, sampleApproval(row), {})).toBe(false);
  });

  test("resolves an approval once and then starts its call once", async () => {
    const scope = freshOrg();
    const row = sampleInvocation({ ...scope, status: "waiting_approval", started_at: null });
    const new_approval = sampleApproval(row);
    const { covers, ...approval } = new_approval;
    await store().invocations.open(
      { ...row, approval_id: approval.id },
      { approval: new_approval, records: {} },
    );
    expect(await store().approvals.getCoveredDigests(scope, approval.id)).toEqual(covers);
    expect(
      await store().approvals.getCoveredDigests({ ...scope, project_id: "proj_other" }, approval.id),
    ).toBeNull();
    expect(await store().approvals.get(scope, approval.id)).toEqual(approval);
    expect(await store().approvals.get({ ...scope, project_id: "proj_other" }, approval.id)).toBeNull();
    expect((await store().approvals.list(scope, { status: "pending" }, { limit: 5 })).items).toEqual([
      approval,
    ]);
    const answer = {
      status: "approved" as const,
      response: "approve" as const,
      feedback: null,
      answered_by: "key_1",
      resolved_at: NOW,
    };
    const wins = await Promise.all(
      Array.from({ length: 10 }, () => store().approvals.resolve(approval.id, answer, {})),
    );
    expect(wins.filter(Boolean)).toHaveLength(1);
    expect(await store().approvals.get(scope, approval.id)).toEqual({ ...approval, ...answer });
    expect((await store().approvals.list(scope, { status: "pending" }, { limit: 5 })).items).toEqual([]);

    const delegation = sampleDelegation(row.id, scope);
    expect(await store().invocations.start(row.id, 7, NOW, { delegation })).toBe(false);
    expect(await store().delegations.findByHash(delegation.token_hash)).toBeNull();
    expect(await store().invocations.start(row.id, 1, NOW, { delegation })).toBe(true);
    expect(await store().invocations.start(row.id, 1, NOW, {})).toBe(false);
    const earlier_attempts: InvocationRow["earlier_attempts"] = [
      {
        started_at: NOW,
        ended_at: null,
        retried_at: NOW,
        reason: "recovery",
        error: { code: "outcome_unknown", message: "The gateway stopped." },
      },
    ];
    expect(await store().invocations.recordRetry({ ...row, retry_count: 2, earlier_attempts })).toBe(true);
    expect(await store().invocations.get(scope, row.id)).toMatchObject({
      status: "running",
      started_at: NOW,
      retry_count: 2,
      earlier_attempts,
    });
  });

  test("lists the calls that share a trace, oldest first, in pages and within the scope", async () => {
    const scope = freshOrg();
    const trace_id = ids.next("trace");
    const shared = Array.from({ length: 5 }, () => sampleInvocation({ ...scope, trace_id }));
    const other = sampleInvocation({ ...scope, trace_id, project_id: "proj_other" });
    const alone = sampleInvocation({ ...scope, trace_id });
    for (const row of [...shared, other])
      await store().invocations.open({ ...row, shares_trace: true }, { records: {} });
    await store().invocations.open(alone, { records: {} });
    const { invocations } = store();
    const first = await invocations.listTrace(scope, trace_id, { limit: 3 });
    expect(first.items).toEqual(shared.slice(0, 3));
    const second = await invocations.listTrace(scope, trace_id, { limit: 3, after: first.next! });
    expect(second).toEqual({ items: shared.slice(3), next: null });
    const all = await invocations.listTrace({ ...scope, project_id: null }, trace_id, { limit: 9 });
    expect(all.items).toHaveLength(6);
    expect((await invocations.listTrace(freshOrg(), trace_id, { limit: 9 })).items).toEqual([]);
  });

  test("undoes an operation that fails midway, and keeps the others of its batch", async () => {
    const scope = freshOrg();
    const good = sampleInvocation(scope);
    const bad = sampleInvocation(scope);
    const delegation = sampleDelegation(good.id, scope);
    const outcomes = await Promise.allSettled([
      store().invocations.open(good, { delegation, records: {} }),
      // The row of this call is written, then its token violates a constraint.
      store().invocations.open(bad, { delegation: { ...delegation, invocation_id: bad.id }, records: {} }),
      ...Array.from({ length: 20 }, () => store().invocations.open(sampleInvocation(scope), { records: {} })),
    ]);
    expect(outcomes.filter((outcome) => outcome.status === "rejected")).toHaveLength(1);
    const stored = await store().invocations.list(scope, {}, { limit: 100 });
    expect(stored.items).toHaveLength(21);
  });

  test("lists invocations by scope and filter, newest first", async () => {
    const scope = freshOrg();
    const other = { ...scope, project_id: "proj_other" };
    const rows: InvocationRow[] = [];
    for (let n = 0; n < 12; n++) {
      rows.push(
        sampleInvocation({
          ...(n % 4 === 3 ? other : scope),
          export_id: n % 2 === 0 ? "even" : "odd",
          session_id: n < 6 ? "sess_a" : null,
          status: n === 0 ? "waiting_approval" : "running",
        }),
      );
    }
    await Promise.all(rows.map((row) => store().invocations.open(row, { records: {} })));
    const listIndexes = async (
      where: typeof scope | { org_id: string; project_id: null },
      filter: Parameters<Store["invocations"]["list"]>[1],
    ) => {
      const items = await readAllPages((page) => store().invocations.list(where, filter, page));
      return items.map((item) => rows.findIndex((row) => row.id === item.id));
    };
    expect(await listIndexes(scope, {})).toEqual([10, 9, 8, 6, 5, 4, 2, 1, 0]);
    expect(await listIndexes(other, {})).toEqual([11, 7, 3]);
    expect(await listIndexes({ ...scope, project_id: null }, {})).toEqual([
      11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
    ]);
    expect(await listIndexes(scope, { export_id: "even" })).toEqual([10, 8, 6, 4, 2, 0]);
    expect(await listIndexes(scope, { status: "waiting_approval" })).toEqual([0]);
    expect(await listIndexes(scope, { status: ["waiting_approval", "running"] })).toEqual([
      10, 9, 8, 6, 5, 4, 2, 1, 0,
    ]);
    expect(await listIndexes(scope, { status: ["failed", "waiting_approval"] })).toEqual([0]);
    expect(await listIndexes(scope, { status: ["failed", "cancelled"] })).toEqual([]);
    expect(await listIndexes(scope, { session_id: "sess_a" })).toEqual([5, 4, 2, 1, 0]);
    expect(await listIndexes(scope, { session_id: "sess_a", status: ["failed", "running"] })).toEqual([
      5, 4, 2, 1,
    ]);
    expect(await listIndexes(scope, { session_id: "sess_a", export_id: "odd" })).toEqual([5, 1]);
    expect(await listIndexes(scope, { binding_id: "bind_none" })).toEqual([]);
    const [item] = (await store().invocations.list(scope, {}, { limit: 1 })).items;
    expect(Object.keys(item!)).not.toContain("fence");
  });

  verifies("client.profiles", "counts the latest calls to each export per project", async () => {
    const scope = freshOrg();
    const other = { ...scope, project_id: "proj_other" };
    const open = async (where: typeof scope, export_id: string) =>
      await store().invocations.open(sampleInvocation({ ...where, export_id }), { records: {} });
    for (const name of ["oldest", "a", "b", "a"]) await open(scope, name);
    for (const name of ["a", "c"]) await open(other, name);
    await open(freshOrg(), "foreign");
    const countCalls = async (where: Parameters<Store["invocations"]["countCalls"]>[0], latest: number) =>
      Object.fromEntries(await store().invocations.countCalls(where, latest));
    expect(await countCalls(scope, 10)).toEqual({ oldest: 1, a: 2, b: 1 });
    expect(await countCalls(scope, 3)).toEqual({ a: 2, b: 1 });
    expect(await countCalls({ ...scope, project_id: null }, 3)).toEqual({ a: 3, b: 1, c: 1 });
    expect(await countCalls(freshOrg(), 3)).toEqual({});
  });

  test("stores all progress before an invocation is settled", async () => {
    const scope = freshOrg();
    const row = sampleInvocation(scope);
    await store().invocations.open(row, { records: {} });
    const events = Array.from({ length: 5 }, (_, n) => ({
      seq: n + 1,
      at: NOW,
      event: { type: "progress", text: `\u0000${n}` },
    }));
    store().invocations.appendEvents(row.id, events.slice(0, 3));
    store().invocations.appendEvents(row.id, events.slice(2));
    await store().invocations.settle(row.id, 1, sampleSettlement(), {});
    expect(await store().invocations.listEvents(row.id, 0, 100)).toEqual(events);
    expect(await store().invocations.listEvents(row.id, 3, 1)).toEqual([events[3]]);
  });

  test("takes over the rows of an expired node, with a higher fence", async () => {
    const scope = freshOrg();
    const dead = ids.next("node");
    const [first, second] = [ids.next("node"), ids.next("node")];
    const running = Array.from({ length: 6 }, () => sampleInvocation({ ...scope, node_id: dead }));
    const waiting = sampleInvocation({
      ...scope,
      node_id: dead,
      status: "waiting_approval",
      started_at: null,
    });
    const approval = sampleApproval(waiting);
    for (const row of running) await store().invocations.open(row, { records: {} });
    await store().invocations.open(waiting, { approval, records: {} });

    const claims = await Promise.all([
      store().invocations.claimOrphans(first, Date.now(), 1_000),
      store().invocations.claimOrphans(second, Date.now(), 1_000),
    ]);
    const own_claims = claims.map((rows) => rows.filter((row) => row.org_id === scope.org_id));
    const claimed = await Promise.all(running.map((row) => store().invocations.get(scope, row.id)));
    for (const row of claimed) {
      expect([first, second]).toContain(row!.node_id);
      expect(row!.fence).toBeGreaterThan(1);
      const last = own_claims[row!.node_id === first ? 0 : 1]!.find((claim) => claim.id === row!.id);
      expect(last).toEqual(row);
    }
    expect(await store().invocations.settle(running[0]!.id, 1, sampleSettlement(), {})).toBe(false);

    const waiting_claims = await store().invocations.claimWaiting(first, Date.now(), 1_000);
    const pair = waiting_claims.find((item) => item.row.id === waiting.id);
    const { covers: _covers, ...public_approval } = approval;
    expect(pair?.approval).toEqual(public_approval);
    expect(pair?.row).toMatchObject({ node_id: first, fence: 2 });
  });
}

function sampleDelegation(invocation_id: string, scope: NewDelegation["scope"]): NewDelegation {
  return {
    token_hash: ids.next("request"),
    invocation_id,
    scope,
    scopes: ["tools:invoke"],
    expires_at: Date.now() + 60_000,
  };
}

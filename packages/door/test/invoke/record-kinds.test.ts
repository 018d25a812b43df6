/** Calls to hooks, compactors and harnesses leave the same record as calls to tools. */
import type { Invocation } from "@backplane/contract";
import { InvocationSchema } from "@backplane/contract/schema";
import type { InvocationRow } from "@backplane/ports";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ended, ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, scope, type TestKernel, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../../../agent/test/loop/test-session.ts";
import { buildCompleteCompaction } from "../fixtures/contract-inputs.ts";

const content = manifest([
  toolExport("echo"),
  hookExport("notify", ["invocation.settled"]),
  { id: "shrink", kind: "compactor", compactor: {} },
  { id: "flow", kind: "harness", harness: { mode: "composite", fidelity: "checkpoint" } },
]);
const CALLS = [
  { kind: "hook", export_id: "notify", execution_id: /^del_/, class: "worker" },
  { kind: "compactor", export_id: "shrink", execution_id: /^cmp_/, class: "worker" },
  { kind: "harness", export_id: "flow", execution_id: /^exec_/, class: "isolated" },
] as const;

async function listRecords(fixture: TestKernel, export_id: string): Promise<Invocation[]> {
  return (await fixture.kernel.invocations.list(user, { export_id }, { limit: 10 })).items;
}

verifies(
  "inv.record",
  "writes calls to a hook, a compactor and a harness to disk before dispatch and settles each once",
  async () => {
    const fixture = await createTestSession();
    const binding_ids: Record<string, string> = {};
    for (const { id } of content.exports)
      binding_ids[id] = (await fixture.bind(content, { export_id: id })).binding_id;
    await fixture.say(`/say ${"lorem ipsum dolor ".repeat(60)}`);
    await fixture.say(`/say ${"sit amet consectetur ".repeat(60)}`);
    /** The row on disk at the time when the runner gets the call. */
    const rows_at_dispatch = new Map<string, InvocationRow | null>();
    fixture.runner.script = async ({ request }) => {
      rows_at_dispatch.set(
        request.export_id,
        await fixture.store.invocations.get(scope, request.invocation_id),
      );
      return ok(request.export_id === "shrink" ? { summary: { text: "short" } } : {});
    };
    await fixture.call({ export_id: "flow", input: { mode: "start", trigger: { type: "manual" } } });
    await until(() => rows_at_dispatch.has("notify"));
    await until(async () =>
      (await listRecords(fixture, "notify")).every(({ ended_at }) => ended_at !== null),
    );
    const chain = await fixture.kernel.sessions.get(user, { session_id: "s1" });
    await fixture.kernel.sessions.compact(user, { session_id: "s1" });
    for (const { kind, export_id, execution_id, class: isolation } of CALLS) {
      const row = (await listRecords(fixture, export_id)).find(
        ({ id }) => id === rows_at_dispatch.get(export_id)?.id,
      );
      expect(rows_at_dispatch.get(export_id)).toMatchObject({
        export_kind: kind,
        status: "running",
        ended_at: null,
      });
      expect(InvocationSchema.parse(row)).toEqual(row);
      expect(row).toMatchObject({
        id: expect.stringMatching(/^inv_/),
        export_kind: kind,
        export_id,
        binding_id: binding_ids[export_id],
        package_id: "acme/devkit",
        package_version: "0.1.0",
        class: isolation,
        status: "succeeded",
        retry_count: 0,
        org_id: "org_local",
        trace_id: expect.stringMatching(/^tr_/),
        execution_id: expect.stringMatching(execution_id),
        grant: { class: isolation, network: "none", filesystem: "none" },
        error: null,
        tool_result: null,
        started_at: expect.any(String),
        ended_at: expect.any(String),
      });
    }
    // The compaction records the session and the chain that it compacted.
    expect((await listRecords(fixture, "shrink"))[0]).toMatchObject({
      project_id: "proj_default",
      session_id: "s1",
      chain_id: chain.head_chain_id,
      run_id: null,
    });
  },
);

verifies(
  "inv.record",
  "records failed calls to a hook, a compactor and a harness with their codes",
  async () => {
    const fixture = await createTestSession({ host: { deliveries: { ...DELIVERIES, max_attempts: 1 } } });
    for (const { id } of content.exports) await fixture.bind(content, { export_id: id });
    fixture.runner.script = ({ request }) =>
      request.export_id === "echo" ? ok() : ended("failed", "crashed");
    await fixture.call({ export_id: "echo" });
    await fixture.call({ export_id: "shrink", input: buildCompleteCompaction() }, admin);
    await fixture.call({ export_id: "flow", input: {} }, admin);
    await until(async () => (await listRecords(fixture, "notify")).some(({ ended_at }) => ended_at !== null));
    for (const export_id of ["notify", "shrink", "flow"]) {
      // A delivery of a later event to the hook may still be in progress.
      const rows = (await listRecords(fixture, export_id)).filter(({ ended_at }) => ended_at !== null);
      expect(rows.length, export_id).toBeGreaterThan(0);
      expect(rows[0]).toMatchObject({
        status: "failed",
        error: { code: "crashed" },
        ended_at: expect.any(String),
      });
    }
  },
);

const DELIVERIES = { concurrency: 4, per_binding: 2, max_attempts: 3, base_ms: 5, max_ms: 20 };

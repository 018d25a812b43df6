import type { TraceSpan } from "@backplane/contract";
import { hookExport, manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import {
  admin,
  createTestKernel,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

test("lists a call with its nested calls as a trace, but not a single call that specified no trace", async () => {
  const fixture = await createTestKernel();
  const permissions = { gateway_api_scopes: ["tools:invoke"] };
  const content = manifest([toolExport("parent", { permissions }), toolExport("child")]);
  await fixture.bind(content);
  await fixture.bind(content, { export_id: "child" });
  fixture.runner.script = async ({ request }) => {
    if (request.export_id !== "parent") return ok();
    const token = request.context.gateway.delegation_token!;
    const caller = await fixture.kernel.keys.authenticate(token);
    await fixture.call({ export_id: "child" }, caller);
    return ok();
  };
  const parent = await fixture.call({ export_id: "parent" });
  const { items, next } = await fixture.kernel.invocations.listTrace(user, parent.trace_id, { limit: 9 });
  expect(next).toBeNull();
  expect(items).toMatchObject([
    { id: parent.id, parent_id: null, export_id: "parent", status: "succeeded" },
    { parent_id: parent.id, export_id: "child", status: "succeeded", error_code: null },
  ]);
  const alone = await fixture.call({ export_id: "child" });
  expect((await fixture.kernel.invocations.listTrace(user, alone.trace_id, { limit: 9 })).items).toEqual([]);
  const traced = await fixture.call({ export_id: "child", trace_id: "t-mine" });
  const trace = await fixture.kernel.invocations.listTrace(user, "t-mine", { limit: 9 });
  expect(trace.items.map(({ id }) => id)).toEqual([traced.id]);
});

const hooked = manifest([
  toolExport("echo"),
  hookExport("notify", ["invocation.settled", "approval.requested"]),
]);

async function bindHook(fixture: TestKernel, policy = {}): Promise<void> {
  await fixture.bind(hooked, { export_id: "echo", policy });
  await fixture.bind(hooked, { export_id: "notify" });
}

async function readTrace(fixture: TestKernel, trace_id: string, limit = 9): Promise<TraceSpan[]> {
  const spans: TraceSpan[] = [];
  for (let after: string | undefined; ; ) {
    const page = { limit, ...(after === undefined ? {} : { after }) };
    const { items, next } = await fixture.kernel.invocations.listTrace(user, trace_id, page);
    expect(items.length).toBeLessThanOrEqual(limit);
    spans.push(...items);
    if (next === null) return spans;
    after = next;
  }
}

test("lists a call with the hook calls that its events caused, in pages of any size", async () => {
  const fixture = await createTestKernel();
  await bindHook(fixture);
  const { id, trace_id } = await fixture.call({ export_id: "echo" });
  await until(async () => (await readTrace(fixture, trace_id)).length === 2);
  for (const limit of [1, 2, 3]) {
    const spans = await readTrace(fixture, trace_id, limit);
    expect(spans.map((span) => [span.export_id, span.id === id])).toEqual([
      ["echo", true],
      ["notify", false],
    ]);
  }
  const elsewhere = { ...user, scope: { ...user.scope, project_id: "proj_other" } };
  expect((await fixture.kernel.invocations.listTrace(elsewhere, trace_id, { limit: 9 })).items).toEqual([]);
});

test("lists a call that awaits approval with the hook calls that the approval request caused", async () => {
  const fixture = await createTestKernel();
  await bindHook(fixture, { approval: "always" });
  const { invocation } = await fixture.kernel.invocations.invoke(admin, { export_id: "echo" });
  await until(async () => (await readTrace(fixture, invocation.trace_id)).length > 1);
  const [first, second] = await readTrace(fixture, invocation.trace_id);
  expect([first!.id, second!.export_id]).toEqual([invocation.id, "notify"]);
});

test("lists a call with later calls that have its trace id", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(hooked, { export_id: "echo" });
  const first = await fixture.call({ export_id: "echo" });
  const second = await fixture.call({ export_id: "echo", trace_id: first.trace_id });
  const spans = await readTrace(fixture, first.trace_id);
  expect(spans.map(({ id }) => id)).toEqual([first.id, second.id]);
});

test("does not add a call to a foreign trace only because the trace id has the digits of the call's id", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(hooked, { export_id: "echo" });
  const first = await fixture.call({ export_id: "echo", trace_id: "t-mine" });
  const similar_trace_id = first.id.replace(/^inv_/, "tr_");
  const second = await fixture.call({ export_id: "echo", trace_id: similar_trace_id });
  expect((await readTrace(fixture, similar_trace_id)).map(({ id }) => id)).toEqual([second.id]);
});

import type { Approval, KernelTool } from "@backplane/contract";
import { toolOk } from "@backplane/sdk/kernel";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "./test-session.ts";

const deployed_to: string[] = [];
const deploy: KernelTool = {
  name: "deploy",
  description: "Deploys.",
  parameters: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
  requires_approval: true,
  run({ to }) {
    deployed_to.push(to as string);
    return toolOk("deployed");
  },
};
const HOUR = 3_600_000;

/** Starts a run that waits for approval, and returns its id. */
async function requestDeploy({ kernel }: TestSession): Promise<string> {
  const text = '/tool deploy {"to": "prod"}';
  return (await kernel.sessions.sendMessage(user, { session_id: "s1" }, { text })).run_id;
}

async function listPending({ kernel }: TestSession): Promise<readonly Approval[]> {
  return (await kernel.approvals.list(user, { status: "pending" }, { limit: 5 })).items;
}

verifies("loop.history", "continues a conversation after a restart with its full context", async () => {
  const first = await createTestSession();
  await first.say('/tool add {"a": 2, "b": 3}');
  const tape = await first.tape();
  await first.crash();
  const second = await createTestSession({ file: first.file });
  expect(await second.tape()).toEqual(tape);
  await second.say("and now?");
  const request = second.events.find(({ kind }) => kind === "llm.call.request")!;
  const roles = (request.payload.messages as { role: string }[]).map(({ role }) => role);
  expect(roles).toEqual(["system", "user", "assistant", "tool", "assistant", "user"]);
});

verifies(
  "approval.durable",
  "keeps a durable approval across a restart and runs the call once when it is approved afterwards",
  async () => {
    deployed_to.length = 0;
    const options = { host: { approval_timeout_ms: HOUR }, tools: [deploy] };
    const first = await createTestSession(options);
    const run_id = await requestDeploy(first);
    await until(async () => (await listPending(first)).length === 1);
    await first.crash();

    const second = await createTestSession({ ...options, file: first.file });
    const items = await listPending(second);
    expect(items).toMatchObject([{ tool: "deploy", durable: true, session_id: "s1" }]);
    // The turn waits for the answer again after the restart.
    expect(await second.kernel.runs.get(user, run_id)).toMatchObject({ status: "running" });
    await second.kernel.approvals.answer(admin, items[0]!.id, { response: "approve" });
    await until(async () => (await second.tape()).some(({ kind }) => kind === "tool_result"));
    expect(deployed_to).toEqual(["prod"]);
    const result = (await second.tape()).find(({ kind }) => kind === "tool_result");
    expect(result?.payload).toMatchObject({ ok: true, envelope: { brief: "deployed" } });
    await until(async () => (await second.tape()).at(-1)?.payload.role === "assistant");
    expect((await second.tape()).at(-1)?.payload.content).toContain("deployed");
    expect(await second.kernel.runs.get(user, run_id)).toMatchObject({ status: "completed", resumed: 1 });
  },
);

test("continues the conversation after an orderly stop when the approval is answered", async () => {
  deployed_to.length = 0;
  const options = { host: { approval_timeout_ms: HOUR }, tools: [deploy] };
  const first = await createTestSession(options);
  const run_id = await requestDeploy(first);
  await until(async () => (await first.tape()).some(({ kind }) => kind === "tool_call"));
  await first.kernel.stop(1_000);
  await first.crash();
  const second = await createTestSession({ ...options, file: first.file });
  expect(await second.kernel.runs.get(user, run_id)).toMatchObject({
    status: "failed",
    error: { code: "gateway_stopping" },
  });
  const items = await listPending(second);
  await second.kernel.approvals.answer(admin, items[0]!.id, { response: "approve" });
  const last = async () => (await second.tape()).at(-1)?.payload.content;
  await until(async () => JSON.stringify((await last()) ?? "").includes("deployed"));
  expect(deployed_to).toEqual(["prod"]);
});

verifies(
  "approval.durable",
  "asks for approval again when the tool has changed since the first request",
  async () => {
    deployed_to.length = 0;
    const options = { host: { approval_timeout_ms: HOUR } };
    const first = await createTestSession({ ...options, tools: [deploy] });
    await requestDeploy(first);
    await until(async () => (await listPending(first)).length === 1);
    await first.crash();
    const second = await createTestSession({
      ...options,
      tools: [{ ...deploy, description: "Deploys and deletes." }],
      file: first.file,
    });
    const items = await listPending(second);
    await second.kernel.approvals.answer(admin, items[0]!.id, { response: "approve" });
    await until(async () => (await listPending(second)).length === 1);
    const [again] = await listPending(second);
    expect(again).toMatchObject({ replaces: items[0]!.id, invocation_id: items[0]!.invocation_id });
    expect(again!.changed).toContain("package_digest");
    expect(deployed_to).toEqual([]);
  },
);

verifies(
  "approval.shutdown",
  "cancels short approvals immediately on an orderly stop and keeps durable ones",
  async () => {
    for (const [timeout_ms, status] of [
      [30_000, "cancelled"],
      [HOUR, "pending"],
    ] as const) {
      deployed_to.length = 0;
      const fixture = await createTestSession({ host: { approval_timeout_ms: timeout_ms }, tools: [deploy] });
      await requestDeploy(fixture);
      await until(async () => (await listPending(fixture)).length === 1);
      // The grace period is an hour, so a stop that waited for the approval would exceed the timeout of this
      // test.
      await fixture.kernel.stop(HOUR);
      const { items } = await fixture.kernel.approvals.list(user, {}, { limit: 5 });
      expect(items).toMatchObject([{ status }]);
      const reasons = fixture.events
        .filter(({ kind }) => kind === "approval.cancelled")
        .map(({ payload }) => payload.reason);
      expect(reasons).toEqual(status === "cancelled" ? ["shutdown"] : []);
      expect(deployed_to).toEqual([]);
    }
  },
);

test("finds a run by its idempotency key after the gateway died", async () => {
  const first = await createTestSession();
  const body = { session_id: "once", input: { text: "/say hello" } };
  const started = await first.kernel.runs.startOnce(user, body, "k", "d");
  expect(await first.kernel.runs.startOnce(user, body, "k", "d")).toEqual({
    id: started.id,
    entry_id: started.entry_id,
    ticket: null,
  });
  await first.crash();
  const second = await createTestSession({ file: first.file });
  expect(await second.kernel.runs.startOnce(user, body, "k", "d")).toMatchObject({
    id: started.id,
    ticket: null,
  });
  const { items } = await second.kernel.runs.list(user, { session_id: "once" }, { limit: 9 });
  expect(items.map(({ id }) => id)).toEqual([started.id]);
  await expect(second.kernel.runs.startOnce(user, body, "k", "other")).rejects.toMatchObject({
    code: "idempotency.conflict",
  });
});

test("logs no error for a call that returns after the gateway has stopped", async () => {
  const fixture = await createTestSession();
  await fixture.bind(manifest([toolExport("unresponsive")]), { policy: { class: "worker" } });
  fixture.runner.honors_cancel = false;
  const late = Promise.withResolvers<void>();
  fixture.runner.script = async () => {
    await late.promise;
    return ok();
  };
  await fixture.kernel.sessions.sendMessage(user, { session_id: "s1" }, { text: "/tool unresponsive {}" });
  await until(() => fixture.runner.requests.length === 1);
  await fixture.kernel.stop(50);
  late.resolve();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(fixture.logged.filter(({ level }) => level === "error")).toEqual([]);
});

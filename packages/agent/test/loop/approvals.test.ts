import type { BusEvent, JsonObject, KernelPlugin, KernelTool, PluginContext } from "@backplane/contract";
import type { WatchedEvent } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { admin, scope, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, type TestSession } from "./test-session.ts";

const shell_calls: JsonObject[] = [];

const shell: KernelTool = {
  name: "shell",
  description: "Runs a command.",
  parameters: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
  requires_approval: true,
  approvalBrief: ({ command }) => `run: ${command as string}`,
  run(args) {
    shell_calls.push(args);
    return toolOk(`ran ${args.command as string}`);
  },
};

/** An adapter through which a test answers approvals, like a chat client. */
function approvalAdapter(): {
  plugin: KernelPlugin;
  requests: BusEvent<"approval.request">[];
  cancellations: BusEvent[];
  answers: BusEvent[];
  ctx: PluginContext;
} {
  const received = {
    answers: [] as BusEvent[],
    requests: [] as BusEvent<"approval.request">[],
    cancellations: [] as BusEvent[],
    ctx: null as never as PluginContext,
  };
  const plugin: KernelPlugin = {
    name: "surface",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => ["approval.request", "approval.cancelled", "approval.response"],
    onLoad: (ctx) => {
      received.ctx = ctx;
    },
    onEvent(event) {
      if (event.kind === "approval.response") received.answers.push(event);
      else if (event.kind === "approval.request")
        received.requests.push(event as BusEvent<"approval.request">);
      else received.cancellations.push(event);
    },
  };
  return Object.assign(received, { plugin });
}

const answer = (
  ctx: PluginContext,
  id: string,
  response: "approve" | "approve_for_session" | "reject",
  more = {},
) => ctx.emit("approval.response", { id, response, ...more }, { session_id: "kernel" });

async function createApprovalSession(): Promise<{
  fixture: TestSession;
  adapter: ReturnType<typeof approvalAdapter>;
}> {
  shell_calls.length = 0;
  const adapter = approvalAdapter();
  return { fixture: await createTestSession({ tools: [shell], plugins: [adapter.plugin] }), adapter };
}

verifies("approval.flow", "runs a tool only after an approval on the kernel session", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const turn = fixture.say('/tool shell {"command": "ls"}');
  await until(() => adapter.requests.length === 1);
  const [request] = adapter.requests;
  expect(request).toMatchObject({
    session_id: "kernel",
    payload: { tool_name: "shell", params: { command: "ls" }, brief: "run: ls", target_session_id: "s1" },
  });
  expect(shell_calls).toEqual([]);
  await answer(adapter.ctx, request!.payload.id, "approve");
  expect((await turn).output!.content).toContain("ran ls");
  expect(shell_calls).toEqual([{ command: "ls" }]);
});

verifies("approval.flow", "returns a rejection with its reason to the model and runs nothing", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const turn = fixture.say('/tool shell {"command": "rm"}');
  await until(() => adapter.requests.length === 1);
  await answer(adapter.ctx, adapter.requests[0]!.payload.id, "reject", { feedback: "not on this machine" });
  const run = await turn;
  expect(run.status).toBe("completed");
  const error = fixture.events.find(({ kind }) => kind === "tool.error");
  expect(error?.payload).toMatchObject({ kind: "rejected", brief: "not on this machine" });
  expect(shell_calls).toEqual([]);
});

verifies("approval.flow", "publishes an answer from outside the bus with its feedback", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const turn = fixture.say('/tool shell {"command": "rm"}');
  await until(() => adapter.requests.length === 1);
  const { id } = adapter.requests[0]!.payload;
  await fixture.kernel.approvals.answer(admin, id, { response: "reject", feedback: "use trash instead" });
  await turn;
  const answered = fixture.events.filter(({ kind }) => kind === "approval.response");
  expect(answered.map(({ session_id, payload }) => [session_id, payload])).toEqual([
    ["kernel", { id, target_session_id: "s1", response: "reject", feedback: "use trash instead" }],
  ]);
  const sent_messages = fixture.events.filter(({ kind }) => kind === "llm.call.request").at(-1)!
    .payload.messages;
  expect(JSON.stringify(sent_messages)).toContain("use trash instead");
});

verifies(
  ["bus.scope", "approval.flow"],
  "sends an accepted answer of a plugin with its feedback to the session's watchers once",
  async () => {
    const { fixture, adapter } = await createApprovalSession();
    const watch = async (session_id: string) => {
      const approval_events: { kind: string; source: string; payload: object }[] = [];
      const send = ({ event }: WatchedEvent) => {
        if (event.kind.startsWith("approval.")) approval_events.push(event);
        return 0;
      };
      await fixture.kernel.fanout.attach(
        { ...user, scopes: ["sessions:write"] },
        { session_id },
        { adapter_id: "test", since_entry: null, send, ended: () => {} },
      );
      return approval_events;
    };
    const [watcher_events, other_session_events] = [await watch("s1"), await watch("s2")];
    const turn = fixture.say('/tool shell {"command": "rm"}');
    await until(() => adapter.requests.length === 1);
    const { id } = adapter.requests[0]!.payload;
    // Rejected answers do not reach the watchers, even if they contain a session id.
    await answer(adapter.ctx, id, "approve", { digest: "sha256:other", target_session_id: "s1" });
    await answer(adapter.ctx, "appr_00000000000000000000000000", "approve", { target_session_id: "s2" });
    await answer(adapter.ctx, id, "reject", { feedback: "use trash", target_session_id: "s2" });
    await turn;
    const payload = { id, target_session_id: "s1", response: "reject", feedback: "use trash" };
    expect(watcher_events.map(({ kind, source, payload }) => [kind, source, payload])).toEqual([
      ["approval.request", "kernel", expect.objectContaining({ id })],
      ["approval.response", "surface", payload],
    ]);
    expect(other_session_events).toEqual([]);
    // A plugin receives each answer that it published, and each answer over the API, exactly once.
    expect(adapter.answers.map(({ source }) => source)).toEqual(["surface", "surface", "surface"]);
    const second = fixture.say('/tool shell {"command": "ls"}');
    await until(() => adapter.requests.length === 2);
    await fixture.kernel.approvals.answer(admin, adapter.requests[1]!.payload.id, { response: "approve" });
    await second;
    expect(watcher_events.map(({ kind, source }) => [kind, source]).slice(2)).toEqual([
      ["approval.request", "kernel"],
      ["approval.response", "kernel"],
    ]);
    expect(adapter.answers.map(({ source }) => source).slice(3)).toEqual(["kernel"]);
  },
);

verifies(
  "ktool.dispatch",
  "lets a tool deny its own call before an approval is requested, but never approve it",
  async () => {
    shell_calls.length = 0;
    const adapter = approvalAdapter();
    const answers: Record<string, () => unknown> = {
      no: () => false,
      throws: () => Promise.reject(new Error("no answer")),
      odd: () => "yes",
    };
    const careful: KernelTool = {
      ...shell,
      preApprove: ({ command }) => (answers[command as string]?.() ?? true) as boolean,
    };
    const fixture = await createTestSession({ tools: [careful], plugins: [adapter.plugin] });
    const refused = () =>
      fixture.events.filter(({ kind }) => kind === "tool.error").map(({ payload }) => payload);
    for (const [n, command] of Object.keys(answers).entries()) {
      const turn = fixture.say(`/tool shell {"command": "${command}"}`);
      await until(() => refused().length > n || adapter.requests.length > 0);
      expect(adapter.requests).toEqual([]);
      await turn;
    }
    expect(refused()).toMatchObject(Object.keys(answers).map(() => ({ kind: "rejected" })));
    expect(refused()[0]!.brief).toContain("The tool shell denied this call");
    const { items } = await fixture.kernel.invocations.list(user, { export_id: "shell" }, { limit: 9 });
    expect(items.map(({ error }) => error?.code)).toEqual(Object.keys(answers).map(() => "policy.denied"));
    // A call that the tool permits still needs approval.
    const turn = fixture.say('/tool shell {"command": "ls"}');
    await until(() => adapter.requests.length === 1);
    expect(shell_calls).toEqual([]);
    await answer(adapter.ctx, adapter.requests[0]!.payload.id, "reject");
    await turn;
    expect(shell_calls).toEqual([]);
  },
);

verifies("approval.flow", "runs nothing for forged, late, repeated or mismatched answers", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const turn = fixture.say('/tool shell {"command": "one"}\n/tool shell {"command": "two"}');
  await until(() => adapter.requests.length === 2);
  const [first, second] = adapter.requests.map(({ payload }) => payload);
  await answer(adapter.ctx, "appr_00000000000000000000000000", "approve");
  // The digest belongs to the other call, so this answer is for other arguments.
  await answer(adapter.ctx, first!.id, "approve", { digest: second!.digest });
  await answer(adapter.ctx, second!.id, "reject");
  await answer(adapter.ctx, second!.id, "approve");
  await until(
    () =>
      fixture.logged.filter(({ message }) => message.includes("answer to an approval rejected")).length === 3,
  );
  expect(shell_calls).toEqual([]);
  await answer(adapter.ctx, first!.id, "approve");
  await turn;
  await answer(adapter.ctx, first!.id, "approve");
  await until(
    () =>
      fixture.logged.filter(({ message }) => message.includes("answer to an approval rejected")).length === 4,
  );
  expect(shell_calls).toEqual([{ command: "one" }]);
});

verifies(
  "approval.session-cache",
  "limits an approval for the session to the same arguments and session, until it is revoked",
  async () => {
    const { fixture, adapter } = await createApprovalSession();
    const first = fixture.say('/tool shell {"command": "ls"}');
    await until(() => adapter.requests.length === 1);
    await answer(adapter.ctx, adapter.requests[0]!.payload.id, "approve_for_session");
    await first;
    await fixture.say('/tool shell {"command": "ls"}');
    expect([shell_calls.length, adapter.requests.length]).toEqual([2, 1]);
    const other = fixture.say('/tool shell {"command": "ps"}');
    await until(() => adapter.requests.length === 2);
    await answer(adapter.ctx, adapter.requests[1]!.payload.id, "reject");
    await other;
    const elsewhere = fixture.say('/tool shell {"command": "ls"}', "s2");
    await until(() => adapter.requests.length === 3);
    await answer(adapter.ctx, adapter.requests[2]!.payload.id, "reject");
    await elsewhere;
    const [grant] = fixture.kernel.approvals.listGrants(admin);
    await fixture.kernel.approvals.revokeGrant(admin, grant!.id);
    const again = fixture.say('/tool shell {"command": "ls"}');
    await until(() => adapter.requests.length === 4);
    await answer(adapter.ctx, adapter.requests[3]!.payload.id, "reject");
    await again;
    expect(shell_calls).toHaveLength(2);
  },
);

verifies(
  "approval.parallel",
  "requests a separate approval for each identical call in one step",
  async () => {
    const { fixture, adapter } = await createApprovalSession();
    const turn = fixture.say(Array.from({ length: 3 }, () => '/tool shell {"command": "ls"}').join("\n"));
    await until(() => adapter.requests.length === 3);
    const ids = adapter.requests.map(({ payload }) => payload.id);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) await answer(adapter.ctx, id, "approve");
    await turn;
    expect(shell_calls).toHaveLength(3);
  },
);

verifies(
  "approval.timeout",
  "withdraws an unanswered approval after the timeout and leaves nothing pending",
  async () => {
    shell_calls.length = 0;
    const adapter = approvalAdapter();
    const fixture = await createTestSession({
      tools: [shell],
      plugins: [adapter.plugin],
      host: { approval_timeout_ms: 300 },
    });
    const run = await fixture.say('/tool shell {"command": "ls"}');
    expect(run.status).toBe("completed");
    expect(adapter.cancellations.map(({ payload }) => payload)).toMatchObject([
      { reason: "timeout", target_session_id: "s1" },
    ]);
    const { items } = await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 10 });
    expect(items).toEqual([]);
    expect(shell_calls).toEqual([]);
  },
);

test("publishes an answer given over the API once, so that other prompts close", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const turn = fixture.say('/tool shell {"command": "ls"}');
  await until(() => adapter.requests.length === 1);
  await fixture.kernel.approvals.answer(admin, adapter.requests[0]!.payload.id, { response: "approve" });
  await turn;
  const responses = fixture.events.filter(({ kind }) => kind === "approval.response");
  expect(responses).toMatchObject([
    { source: "kernel", payload: { response: "approve", target_session_id: "s1" } },
  ]);
  expect(fixture.logged.filter(({ message }) => message.includes("answer to an approval rejected"))).toEqual(
    [],
  );
});

test("withdraws the approval when the turn is interrupted", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const turn = fixture.say('/tool shell {"command": "ls"}');
  await until(() => adapter.requests.length === 1);
  await fixture.kernel.sessions.interrupt(user, { session_id: "s1" });
  expect((await turn).status).toBe("cancelled");
  await until(() => adapter.cancellations.length === 1);
  expect(adapter.cancellations[0]!.payload).toMatchObject({
    id: adapter.requests[0]!.payload.id,
    reason: "interrupt",
  });
  await answer(adapter.ctx, adapter.requests[0]!.payload.id, "approve");
  await until(() => fixture.logged.some(({ message }) => message.includes("answer to an approval rejected")));
  expect(shell_calls).toEqual([]);
});

verifies("bus.scope", "keeps an approval and its answer in their own project", async () => {
  const { fixture, adapter } = await createApprovalSession();
  const other = { ...user, scope: { ...scope, project_id: "proj_other" } };
  const turn = fixture.kernel.runs.start(other, {
    session_id: "x",
    input: { text: '/tool shell {"command": "ls"}' },
  });
  await until(() => adapter.requests.length === 1);
  expect(adapter.requests[0]).toMatchObject({ project_id: "proj_other" });
  // This context publishes in the default project, where the approval does not exist.
  await answer(adapter.ctx, adapter.requests[0]!.payload.id, "approve");
  await until(() => fixture.logged.some(({ message }) => message.includes("answer to an approval rejected")));
  expect(shell_calls).toEqual([]);
  await expect(fixture.kernel.approvals.get(user, adapter.requests[0]!.payload.id)).rejects.toMatchObject({
    code: "approval.not_found",
  });
  await fixture.kernel.approvals.answer(other, adapter.requests[0]!.payload.id, { response: "approve" });
  await (await turn).settled;
  expect(shell_calls).toHaveLength(1);
});

/** Messages that a plugin sends with its token. A message that starts a turn starts a child run, like POST /v1/runs. */
import type { Json, KernelTool, Run } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { autoApprovePlugin } from "@backplane/test-kit/kernel/auto-approve-plugin";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession, gatedTool, type TestSession } from "../loop/test-session.ts";
import { harnessPackage, runHarness, scriptHarness } from "./test-harness.ts";

const refusal = (limit: string) => ({ code: "harness.limit", details: { limit } });

/** Sends a message as POST /v1/sessions/{id}/messages does; without a key as /ws does. */
async function sendMessage(
  { kernel }: Pick<TestSession, "kernel">,
  caller: Caller,
  session_id: string,
  text: string,
  key?: string,
): Promise<string> {
  if (key === undefined) return (await kernel.sessions.sendMessage(caller, { session_id }, { text })).run_id;
  const { result, stored } = await kernel.idempotency.open(caller, key, `${session_id}${text}`, (once) =>
    kernel.sessions.sendMessage(caller, { session_id }, { text }, once),
  );
  return result?.run_id ?? (JSON.parse(stored!) as { id: string }).id;
}

async function waitForRun({ kernel }: Pick<TestSession, "kernel">, id: string): Promise<Run> {
  await until(async () => (await kernel.runs.get(user, id)).status !== "running");
  return await kernel.runs.get(user, id);
}

async function listRuns({ kernel }: Pick<TestSession, "kernel">, session_id: string): Promise<Run[]> {
  return (await kernel.runs.list(user, { session_id }, { limit: 20 })).items;
}

verifies(
  ["harness.limits", "harness.contract"],
  "counts, links and deduplicates the turn that a message of a harness starts",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const started: string[] = [];
    const refused: unknown[] = [];
    const { done, used } = await runHarness(fixture, { max_child_runs: 1 }, async ({ caller }) => {
      for (let attempt = 0; attempt < 2; attempt++)
        started.push(await sendMessage(fixture, caller, "child", "/say x", "plan"));
      await waitForRun(fixture, started[0]!);
      await sendMessage(fixture, caller, "child", "/say y", "again").catch((error) => refused.push(error));
    });
    expect(new Set(started).size).toBe(1);
    expect(refused).toMatchObject([refusal("max_child_runs")]);
    expect(used).toMatchObject({ child_runs: 1 });
    expect(await listRuns(fixture, "child")).toMatchObject([
      { id: started[0], trigger: "harness", parent_run_id: done.id, status: "completed" },
    ]);
  },
);

verifies("harness.limits", "refuses a message of a harness whose turn is deeper than max_depth", async () => {
  const fixture = await createTestSession();
  await fixture.bind(harnessPackage());
  const refused: unknown[] = [];
  await runHarness(fixture, { max_depth: 0 }, async ({ caller }) => {
    await sendMessage(fixture, caller, "child", "/say x", "a").catch((error) => refused.push(error));
  });
  expect(refused).toMatchObject([refusal("max_depth")]);
  expect(await listRuns(fixture, "child")).toEqual([]);
});

verifies(
  "harness.contract",
  "refuses a message of a harness that would start a turn without a key, and names POST /v1/runs",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const refused: unknown[] = [];
    const { used } = await runHarness(fixture, {}, async ({ caller }) => {
      await sendMessage(fixture, caller, "child", "/say x").catch((error) => refused.push(error));
    });
    expect(refused).toMatchObject([
      { code: "request.invalid", fix: expect.stringContaining("POST /v1/runs") },
    ]);
    expect(used).toMatchObject({ child_runs: 0 });
    expect(await listRuns(fixture, "child")).toEqual([]);
  },
);

verifies("harness.contract", "adds a message of a harness to its running turn without a key", async () => {
  const gate = gatedTool("wait");
  const fixture = await createTestSession({ tools: [gate.tool] });
  await fixture.bind(harnessPackage());
  const joined: string[] = [];
  const { used } = await runHarness(fixture, { max_child_runs: 1 }, async ({ caller, run }) => {
    const { id, ticket } = await run("plan", "child", '/tool wait {"n": 1}\n/then\n/say first');
    await until(() => gate.releases.length === 1);
    joined.push(id, await sendMessage(fixture, caller, "child", "/say second"));
    gate.releases[0]!();
    await ticket!.settled;
  });
  expect(joined[1]).toBe(joined[0]);
  expect(used).toMatchObject({ child_runs: 1 });
  const texts = (await fixture.tape("child")).map(({ payload }) => payload.content);
  expect(texts).toContain("/say second");
});

verifies(
  ["harness.contract", "delegation.token"],
  "refuses a message that would start a turn for a hosted harness, which never gets runs:write",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage({ mode: "hosted", supports: ["continue", "branch_session", "tool"] }));
    const refused: unknown[] = [];
    const { used } = await runHarness(fixture, {}, async ({ caller, request }) => {
      expect(request.context.gateway.scopes).toContain("sessions:write");
      for (const session_id of ["s1", "child"])
        await sendMessage(fixture, caller, session_id, "/say x", session_id).catch((error) =>
          refused.push(error),
        );
    });
    const error = {
      code: "auth.scope",
      details: { needs: "runs:write" },
      fix: expect.stringContaining("POST /v1/runs"),
    };
    expect(refused).toMatchObject([error, error]);
    expect(used).toMatchObject({ child_runs: 0 });
    expect(await listRuns(fixture, "child")).toEqual([]);
  },
);

verifies(
  "harness.contract",
  "refuses a message of a harness to a session that its `supports` list does not allow",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage({ supports: ["branch_session"] }));
    const refused: unknown[] = [];
    await runHarness(fixture, {}, async ({ caller }) => {
      await sendMessage(fixture, caller, "s1", "/say x", "a").catch((error) => refused.push(error));
    });
    expect(refused).toMatchObject([
      { code: "policy.denied", message: expect.stringContaining("does not list continue") },
    ]);
  },
);

verifies(
  ["harness.limits", "delegation.token"],
  "applies scope, link and limits to the message of a tool that a harness calls",
  async () => {
    const fixture = await createTestSession({ plugins: [autoApprovePlugin().plugin] });
    const tool = (id: string, scopes: string[]) =>
      toolExport(id, { permissions: { gateway_api_scopes: scopes } }, { effect_class: "idempotent_write" });
    const [triage] = harnessPackage().exports;
    const content = manifest([
      triage!,
      tool("writer", ["sessions:write"]),
      tool("runner", ["sessions:write", "runs:write"]),
    ]);
    await fixture.bind(content);
    const { package_id, version: package_version } = content;
    for (const export_id of ["writer", "runner"])
      await fixture.kernel.bindings.create(admin, { package_id, package_version, export_id });
    const results: unknown[] = [];
    scriptHarness(fixture, async ({ request, caller }): Promise<Json> => {
      if (request.op === "tool.invoke") {
        const sent = sendMessage(fixture, caller, `of-${request.export_id}`, "/say x");
        results.push(await sent.then((id) => waitForRun(fixture, id)).catch((error: unknown) => error));
        return { content: [{ type: "text", text: "sent" }] };
      }
      for (const export_id of ["writer", "runner", "runner"]) await fixture.call({ export_id }, caller);
      return { summary: { text: "ended" } };
    });
    const harness = { export_id: "triage", policy: { max_child_runs: 1 } };
    const body = { session_id: "s1", input: { text: "go" }, harness };
    const done = await (await fixture.kernel.runs.start(user, body)).settled;
    expect(done).toMatchObject({ status: "completed" });
    expect(results).toMatchObject([
      { code: "auth.scope", details: { needs: "runs:write" } },
      { status: "completed", trigger: "api" },
      refusal("max_child_runs"),
    ]);
    expect(await listRuns(fixture, "of-writer")).toEqual([]);
  },
);

const shell: KernelTool = {
  name: "shell",
  description: "Runs a command.",
  parameters: { type: "object", properties: {} },
  effect_class: "idempotent_write",
  requires_approval: true,
  run: () => toolOk("ran"),
};

verifies(
  "harness.limits",
  "counts and links the turn that continues a child conversation after an approval",
  async () => {
    const options = { tools: [shell], host: { approval_timeout_ms: 60 * 60_000 } };
    const first = await createTestSession(options);
    await first.bind(harnessPackage());
    scriptHarness(first, async ({ run }) => {
      await run("plan", "child", "/tool shell {}\n/then\n/say done");
      return await new Promise<never>(() => {});
    });
    const harness = { export_id: "triage", policy: { max_child_runs: 2 } };
    const started = await first.kernel.runs.start(user, { session_id: "s1", input: { text: "go" }, harness });
    const pending = async ({ kernel }: TestSession) =>
      (await kernel.approvals.list(admin, { status: "pending" }, { limit: 5 })).items;
    await until(async () => (await pending(first)).length === 1);
    // The stop ends the turn of the child and leaves its approval and the harness to the next gateway.
    await first.kernel.stop(1_000);
    await first.crash();

    const second = await createTestSession({ ...options, file: first.file, start: false });
    const finish = Promise.withResolvers<void>();
    scriptHarness(second, async () => {
      await finish.promise;
      return { summary: { text: "ended" } };
    });
    await second.kernel.start();
    expect(await listRuns(second, "child")).toMatchObject([{ error: { code: "gateway_stopping" } }]);
    const [approval] = await pending(second);
    await second.kernel.approvals.answer(admin, approval!.id, { response: "approve" });
    await until(async () => (await listRuns(second, "child")).length === 2);
    const [continued] = await listRuns(second, "child");
    expect(continued).toMatchObject({ trigger: "approval", parent_run_id: started.run.id });
    const { execution_id } = (await second.kernel.runs.get(user, started.run.id)).harness!;
    expect(await second.kernel.runs.getExecution(user, execution_id)).toMatchObject({
      used: { child_runs: 2 },
    });
    finish.resolve();
    await until(async () => (await second.kernel.runs.get(user, started.run.id)).status !== "running");
  },
);

verifies(
  "harness.contract",
  "treats a session with the same id in another workspace as another session",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage({ supports: ["continue", "tool"] }));
    const outcomes: unknown[] = [];
    scriptHarness(fixture, async ({ caller }) => {
      for (const workspace of ["default", "notes"]) {
        const chain_id = (await fixture.kernel.sessions.get(user, { session_id: "s1", workspace }))
          .head_chain_id;
        const adding = fixture.kernel.chains.addBlocks(caller, chain_id, [
          { kind: "input", content: [{ type: "text", text: "x" }] },
        ]);
        outcomes.push(
          await adding.then(
            () => workspace,
            ({ message }: Error) => message,
          ),
        );
      }
      return { summary: { text: "ended" } };
    });
    for (const workspace of ["default", "notes"])
      await fixture.kernel.sessions.create(user, { session_id: "s1", workspace });
    const harness = { export_id: "triage" };
    const ends: Run[] = [];
    for (const workspace of ["default", "notes"]) {
      const body = { session_id: "s1", workspace, input: { text: "go" }, harness };
      ends.push(await (await fixture.kernel.runs.start(user, body)).settled);
    }
    const refused = expect.stringContaining("does not list branch_session");
    expect(outcomes).toEqual(["default", refused, refused, "notes"]);
    const { execution_id } = ends[1]!.harness!;
    await expect(
      fixture.kernel.runs.start(user, {
        session_id: "s1",
        input: { text: "on" },
        harness: { ...harness, execution_id },
      }),
    ).rejects.toMatchObject({
      code: "request.invalid",
      message: `The execution ${execution_id} belongs to session s1 of workspace notes, so it cannot be resumed in session s1.`,
    });
  },
);

verifies("harness.contract", "refuses writes of a harness whose binding was removed", async () => {
  const fixture = await createTestSession();
  const { binding_id } = await fixture.bind(harnessPackage({ supports: ["continue"] }));
  const { head_chain_id } = await fixture.kernel.sessions.create(user, { session_id: "s1" });
  let refused: unknown = null;
  await runHarness(fixture, {}, async ({ caller }) => {
    await fixture.kernel.bindings.remove(admin, binding_id);
    const creating = fixture.kernel.chains.fork(caller, head_chain_id, {});
    refused = await creating.catch((error: unknown) => error);
  });
  expect(refused).toMatchObject({
    code: "policy.denied",
    message: "The harness triage is no longer bound, so it may not create chains.",
  });
});

verifies(
  "tools.context",
  "marks the call of a harness as interactive while its session is watched in the same workspace",
  async () => {
    const fixture = await createTestSession();
    await fixture.bind(harnessPackage());
    const interactive: unknown[] = [];
    scriptHarness(fixture, async ({ request }) => {
      interactive.push(request.context.interactive);
      return { summary: { text: "ended" } };
    });
    const ref = { session_id: "s1", workspace: "notes" };
    await fixture.kernel.sessions.create(user, ref);
    const watcher = { since_entry: null, adapter_id: "test", send: () => 0, ended() {} };
    await fixture.kernel.fanout.attach(user, ref, watcher);
    const start = { input: { text: "go" }, harness: { export_id: "triage" } };
    for (const workspace of ["notes", "default"])
      await (await fixture.kernel.runs.start(user, { ...ref, workspace, ...start })).settled;
    expect(interactive).toEqual([true, undefined]);
  },
);

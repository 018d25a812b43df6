/**
 * Turns are part of the call chain: the tools of a sub-agent may call no more tools than the sub-agent itself, a
 * resumed turn has no wider grant, and a plugin needs the scope compactions:write to request a compaction.
 */
import type { KernelTool } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import { toolOk } from "@backplane/sdk/kernel";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createTestSession } from "../../../agent/test/loop/test-session.ts";

const auto_approve_plugin = {
  name: "yes",
  version: "1.0.0",
  category: "adapter" as const,
  subscriptions: () => ["approval.request"],
  async onEvent(event: { payload: unknown }, ctx: { emit: (...args: never[]) => Promise<unknown> }) {
    const { id } = event.payload as { id: string };
    const answer = [{ id, response: "approve" }, { session_id: "kernel" }] as never[];
    await ctx.emit("approval.response" as never, ...answer);
  },
};

const content = manifest(
  ["outer", "inner"].map((id) => toolExport(id, { permissions: { gateway_api_scopes: ["tools:invoke"] } })),
);

async function bindBoth(fixture: Awaited<ReturnType<typeof createTestSession>>): Promise<void> {
  await fixture.bind(content);
  await fixture.kernel.bindings.create(admin, {
    package_id: "acme/devkit",
    package_version: "0.1.0",
    export_id: "inner",
  });
}

test("refuses a tool of a sub-agent access to tools that the sub-agent may not use", async () => {
  const fixture = await createTestSession({ plugins: [agentTool, auto_approve_plugin as never] });
  await bindBoth(fixture);
  const reached: string[] = [];
  fixture.runner.script = async ({ request }) => {
    if (request.export_id === "inner") return ok();
    const caller = await fixture.kernel.keys.authenticate(request.context.gateway.delegation_token!);
    const outcome = await fixture.kernel.invocations.invoke(caller, { export_id: "inner" }).then(
      async (ticket) => (await ticket.settled).status,
      (error: { code: string }) => error.code,
    );
    reached.push(outcome);
    return ok();
  };
  await fixture.say("/tool outer {}");
  const child = { goal: "/tool outer {}", tools: ["outer"] };
  await fixture.say(`/tool agent ${JSON.stringify(child)}`);
  expect(reached).toEqual(["succeeded", "policy.denied"]);
  const calls = (await fixture.kernel.invocations.list(user, { export_id: "outer" }, { limit: 5 })).items;
  expect(calls.map(({ grant }) => grant!.tools)).toEqual([["outer"], null]);
});

const deploy_tool: KernelTool = {
  name: "deploy",
  description: "Deploys.",
  parameters: { type: "object", properties: {} },
  requires_approval: true,
  run: () => toolOk("deployed"),
};

test("resumes a plugin's turn after a restart with the rights of that plugin", async () => {
  const options = { host: { approval_timeout_ms: 3_600_000 }, tools: [deploy_tool] };
  const first = await createTestSession(options);
  const scopes = ["runs:write", "tools:invoke"] as const;
  await first.bind(
    manifest([
      toolExport(
        "harness",
        { permissions: { gateway_api_scopes: [...scopes] } },
        { effect_class: "unknown" },
      ),
    ]),
  );
  let parent = "";
  first.runner.script = async ({ request }) => {
    const caller = await first.kernel.keys.authenticate(request.context.gateway.delegation_token!);
    parent = request.invocation_id;
    await first.kernel.runs.start(caller, { session_id: "s1", input: { text: "/tool deploy {}" } });
    return ok();
  };
  await first.call({ export_id: "harness", narrow: { tools: ["deploy"] } });
  const listPending = async (fixture: typeof first) =>
    (await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 5 })).items;
  await until(async () => (await listPending(first)).length === 1);
  await first.crash();

  const second = await createTestSession({ ...options, file: first.file });
  const [question] = await listPending(second);
  await second.kernel.approvals.answer(admin, question!.id, { response: "approve" });
  await until(async () => (await second.tape()).at(-1)?.payload.role === "assistant");
  const runs = (await second.kernel.runs.list(user, { session_id: "s1" }, { limit: 5 })).items;
  expect(runs.map(({ requested_by, resumed }) => [requested_by, resumed])).toEqual([[parent, 1]]);
  // The turn is offered the tools in the grant of the first call and not the other tools of the project.
  const model_request = second.events.filter(({ kind }) => kind === "llm.call.request").at(-1)!;
  const offered = (model_request.payload.tools as { name: string }[]).map(({ name }) => name);
  expect(offered).toContain("deploy");
  expect(offered).not.toContain("harness");
});

test("lets a plugin call the project's compactor only with the scope compactions:write", async () => {
  const fixture = await createTestSession();
  const compactor = { id: "shrink", kind: "compactor", compactor: {} };
  const toolWith = (id: string, ...scopes: string[]) =>
    toolExport(id, { permissions: { gateway_api_scopes: scopes } }, { effect_class: "unknown" });
  await fixture.bind(
    manifest([compactor, toolWith("may", "compactions:write"), toolWith("mayNot", "chains:read")]),
  );
  for (const export_id of ["may", "mayNot"]) {
    await fixture.kernel.bindings.create(admin, {
      package_id: "acme/devkit",
      package_version: "0.1.0",
      export_id,
    });
  }
  await fixture.say("hello");
  const results: unknown[] = [];
  fixture.runner.script = async ({ request }) => {
    if (request.export_id === "shrink") return ok({ seed_blocks: [], summary: { text: "short" } });
    const caller = await fixture.kernel.keys.authenticate(request.context.gateway.delegation_token!);
    const done = fixture.kernel.sessions.compact(caller, { session_id: "s1" });
    results.push(
      await done.then(
        ({ origin }) => origin,
        ({ message }: Error) => message,
      ),
    );
    return ok();
  };
  for (const export_id of ["may", "mayNot"]) await fixture.call({ export_id });
  expect(results[0]).toBe("compaction");
  expect(results[1]).toContain("was not granted the scope compactions:write");
  const calls = (await fixture.kernel.invocations.list(user, { export_id: "shrink" }, { limit: 5 })).items;
  expect(calls.map(({ status }) => status)).toEqual(["succeeded"]);
  expect(calls.at(-1)!.grant!.gateway_api_scopes).toEqual([]);
});

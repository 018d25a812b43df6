/** Which session, chain and run ids a caller may use, and to whom a session approval applies (sec.session-ids). */

import type { KernelTool } from "@backplane/contract";
import { plugin as agentTool } from "@backplane/plugin-agent-tool";
import type { Caller } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, until } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { addTool, createTestSession } from "../../../agent/test/loop/test-session.ts";
import { removalManifest } from "../approval/removal-call.ts";
import { createRevocableKey } from "./revocable-key.ts";

const rm = { export_id: "rm", input: { path: "a" }, session_id: "s1" };

/** A session of key A in which a call was approved for the whole session. */
async function createApprovedSession() {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const a = await createRevocableKey(fixture);
  await fixture.kernel.sessions.create(a.caller, { session_id: "s1" });
  const approver = await createRevocableKey(fixture, { scopes: ["approvals:answer"] });
  const call = await fixture.kernel.invocations.invoke(a.caller, rm);
  await fixture.kernel.approvals.answer(approver.caller, call.invocation.approval_id!, {
    response: "approve_for_session",
  });
  expect((await call.settled).status).toBe("succeeded");
  const needsApproval = async (caller: Caller) =>
    (await fixture.kernel.invocations.invoke(caller, rm)).invocation.approval_id !== null;
  expect(await needsApproval(a.caller)).toBe(false);
  return { fixture, a, approver, needsApproval };
}

verifies(
  "sec.session-ids",
  "applies a session approval only to the identity that made the call, not to others in the session",
  async () => {
    const { fixture, a, needsApproval } = await createApprovedSession();
    expect(fixture.kernel.approvals.listGrants(admin)).toMatchObject([
      { session_id: "s1", granted_to: a.id },
    ]);
    const b = await createRevocableKey(fixture);
    expect(await needsApproval(b.caller)).toBe(true);
    expect(await needsApproval(admin)).toBe(true);
    expect(await needsApproval(a.caller)).toBe(false);
  },
);

verifies("sec.session-ids", "ends a session approval when the key of its approver is revoked", async () => {
  const { a, approver, needsApproval } = await createApprovedSession();
  await approver.revoke();
  expect(await needsApproval(a.caller)).toBe(true);
});

verifies(
  "sec.session-ids",
  "does not apply a session approval to a session of the same name in another workspace",
  async () => {
    const approval_tool: KernelTool = { ...addTool, name: "asks", requires_approval: true };
    const session = await createTestSession({ tools: [approval_tool] });
    const { caller } = await createRevocableKey(session);
    const input = { text: '/tool asks {"a":1,"b":2}' };
    const pending = async () =>
      (await session.kernel.approvals.list(admin, { status: "pending" }, { limit: 5 })).items;
    const first = await session.kernel.runs.start(caller, { session_id: "s1", workspace: "one", input });
    await until(async () => (await pending()).length === 1);
    const [question] = await pending();
    await session.kernel.approvals.answer(admin, question!.id, { response: "approve_for_session" });
    await first.settled;
    const again = await session.kernel.runs.start(caller, { session_id: "s1", workspace: "one", input });
    expect((await again.settled).status).toBe("completed");
    expect(await pending()).toEqual([]);
    // The name is free for the other workspace shortly after the turn in the first one has ended.
    await until(() =>
      session.kernel.runs.start(caller, { session_id: "s1", workspace: "two", input }).then(
        () => true,
        () => false,
      ),
    );
    await until(async () => (await pending()).length === 1);
  },
);

verifies(
  "sec.session-ids",
  "rejects a session, chain or run id from a key without a scope for sessions",
  async () => {
    const session = await createTestSession();
    await session.bind(manifest([toolExport("read")]));
    const run = await session.say("/say hi");
    const other_run = await session.say("/say hi", "s2");
    const { caller: outsider } = await createRevocableKey(session, { scopes: ["invocations:write"] });
    const { caller: insider } = await createRevocableKey(session);
    const call = (caller: Caller, body: object) =>
      session.kernel.invocations.invoke(caller, { export_id: "read", ...body }).then(
        async ({ settled }) => (await settled).status,
        (error: { code: string }) => error.code,
      );
    const ids = { session_id: "s1", chain_id: run.chain_id, run_id: run.id };
    for (const [name, id] of Object.entries(ids)) {
      expect([name, await call(outsider, { [name]: id })]).toEqual([name, "auth.scope"]);
      expect([name, await call(insider, { [name]: id })]).toEqual([name, "succeeded"]);
    }
    expect(await call(insider, ids)).toBe("succeeded");
    // Ids that do not exist, or belong to another session or project, are not found.
    expect(await call(insider, { chain_id: "ch_1" })).toBe("chain.not_found");
    expect(await call(insider, { run_id: "run_1" })).toBe("run.not_found");
    expect(await call(insider, { session_id: "s1", chain_id: other_run.chain_id })).toBe("chain.not_found");
    expect(await call(insider, { session_id: "s1", run_id: other_run.id })).toBe("run.not_found");
    const elsewhere: Caller = { ...admin, scope: { ...admin.scope, project_id: "proj_other" } };
    expect(await call(elsewhere, { chain_id: run.chain_id })).not.toBe("succeeded");
    // The id of a session that does not exist is allowed as a label.
    expect(await call(outsider, { session_id: "ticket-42" })).toBe("succeeded");
  },
);

verifies(
  "sec.session-ids",
  "lets a delegated token use its own session id, and others only with a scope for sessions",
  async () => {
    const session = await createTestSession();
    const outer = (id: string, ...scopes: string[]) =>
      toolExport(id, { permissions: { gateway_api_scopes: ["tools:invoke", ...scopes] } });
    await session.bind(manifest([outer("plain"), outer("writer", "sessions:write"), toolExport("inner")]));
    for (const export_id of ["writer", "inner"]) {
      const named = { package_id: "acme/devkit", package_version: "0.1.0", export_id };
      await session.kernel.bindings.create(admin, named);
    }
    await session.say("/say hi", "own");
    await session.say("/say hi", "foreign");
    const results: string[] = [];
    session.runner.script = async ({ request }) => {
      if (request.export_id === "inner") return ok();
      const caller = await session.kernel.keys.authenticate(request.context.gateway.delegation_token!);
      for (const session_id of ["own", "foreign"]) {
        const body = { export_id: "inner", session_id };
        const done = session.kernel.invocations.invoke(caller, body).then(
          async ({ settled }) => (await settled).status,
          (error: { code: string }) => error.code,
        );
        results.push(`${request.export_id} ${session_id} ${await done}`);
      }
      return ok();
    };
    for (const export_id of ["plain", "writer"]) await session.call({ export_id, session_id: "own" }, admin);
    expect(results).toEqual([
      "plain own succeeded",
      "plain foreign auth.scope",
      "writer own succeeded",
      "writer foreign succeeded",
    ]);
  },
);

verifies(
  "sec.session-ids",
  "does not let a call act for a turn by passing the session id of the turn",
  async () => {
    let release = () => {};
    const wait: KernelTool = {
      ...addTool,
      name: "wait",
      parameters: { type: "object", properties: {} },
      run: () =>
        new Promise((resolve) => {
          release = () => resolve(toolOk("done"));
        }),
    };
    const session = await createTestSession({ tools: [wait], plugins: [agentTool] });
    const turn = await session.kernel.runs.start(admin, {
      session_id: "s1",
      input: { text: "/tool wait {}" },
    });
    await until(async () => (await session.kernel.health()).invocations.running === 1);
    const { caller } = await createRevocableKey(session);
    const ticket = await session.kernel.invocations.invoke(caller, {
      export_id: "agent",
      input: { goal: "/say I act for the admin" },
      session_id: "s1",
    });
    if (ticket.invocation.approval_id !== null) {
      await session.kernel.approvals.answer(admin, ticket.invocation.approval_id, { response: "approve" });
    }
    const spawned = await ticket.settled;
    expect(JSON.stringify(spawned.result ?? spawned.error)).toContain(
      "Only a tool call of a running turn can spawn a sub-agent.",
    );
    const runs = (await session.kernel.runs.list(admin, {}, { limit: 10 })).items;
    expect(runs.map(({ trigger }) => trigger)).toEqual(["api"]);
    release();
    expect((await turn.settled).status).toBe("completed");
  },
);

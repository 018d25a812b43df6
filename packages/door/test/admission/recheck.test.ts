/** Calls that are resumed from their row are admitted again, with their recorded role and the current policy. */

import type { Policy } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import {
  admin,
  createTestKernel,
  type TestKernel,
  until,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const content = manifest([toolExport("ask", {}, { requires_approval: true }), toolExport("read")]);
const setPolicy = (fixture: TestKernel, policy: Policy) => fixture.kernel.policy.put(admin, "org", policy);

/** Starts a call that awaits approval. `answer` approves it and resolves to the ended call. */
async function startWaitingCall(fixture: TestKernel, caller: Caller) {
  const ticket = await fixture.kernel.invocations.invoke(caller, { export_id: "ask" });
  return {
    async answer(target: TestKernel = fixture) {
      const approval_id = ticket.invocation.approval_id!;
      await target.kernel.approvals.answer(admin, approval_id, { response: "approve" });
      const read = async () => await target.kernel.invocations.get(admin, ticket.id);
      await until(async () => (await read()).ended_at !== null);
      return await read();
    },
  };
}

test("checks an approved call again with its recorded role and the current policy", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(content);
  const deny_for_users = { roles: { user: { deny: { tools: ["ask"] } } } };
  const [user_call, admin_call] = [
    await startWaitingCall(fixture, user),
    await startWaitingCall(fixture, admin),
  ];
  await setPolicy(fixture, deny_for_users);
  expect(await user_call.answer()).toMatchObject({
    status: "failed",
    error: {
      code: "policy.denied",
      message:
        "The call was approved, but is no longer admitted. The role user may not use ask: the tool is denied.",
      details: { rule: "role" },
    },
  });
  expect(await admin_call.answer()).toMatchObject({ status: "succeeded" });
  const last = await startWaitingCall(fixture, admin);
  await setPolicy(fixture, { allowed_origins: ["core"] });
  expect(await last.answer()).toMatchObject({
    error: { code: "policy.denied", details: { rule: "origin" } },
  });
});

test("checks an approved call again after a restart with its recorded channel", async () => {
  const first = await createTestKernel({ host: { approval_timeout_ms: 3_600_000 } });
  await first.bind(content);
  const [mcp_call, ws_call] = [
    await startWaitingCall(first, { ...user, channel: "mcp" }),
    await startWaitingCall(first, { ...user, channel: "ws" }),
  ];
  await setPolicy(first, { channels: { mcp: { deny: { tools: ["ask"] } } } });
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  expect((await mcp_call.answer(second)).error).toMatchObject({
    code: "policy.denied",
    details: { rule: "channel" },
  });
  expect(await ws_call.answer(second)).toMatchObject({ status: "succeeded" });
});

verifies(
  "approval.durable",
  "checks calls again after a restart with their recorded role and the current policy",
  async () => {
    const first = await createTestKernel({ host: { approval_timeout_ms: 3_600_000 } });
    await first.bind(content);
    await first.bind(content, { export_id: "read" });
    first.runner.script = () => new Promise<never>(() => {});
    const [user_call, admin_call] = [
      await startWaitingCall(first, user),
      await startWaitingCall(first, admin),
    ];
    const interrupted = [];
    for (const caller of [user, admin])
      interrupted.push(await first.kernel.invocations.invoke(caller, { export_id: "read" }));
    await until(() => first.runner.requests.length === 2);
    await setPolicy(first, { roles: { user: { deny: { tools: ["*"] } } } });
    await first.crash();

    const second = await createTestKernel({ file: first.file });
    const ends = [];
    for (const { id } of interrupted) {
      await until(async () => (await second.kernel.invocations.get(admin, id)).ended_at !== null);
      ends.push(await second.kernel.invocations.get(admin, id));
    }
    expect(ends[0]!.error).toMatchObject({
      code: "outcome_unknown",
      message: expect.stringContaining("The role user may not use read"),
      details: { refused: "policy.denied", rule: "role" },
    });
    expect(ends[1]).toMatchObject({ status: "succeeded", retry_count: 1 });
    expect(await user_call.answer(second)).toMatchObject({ error: { code: "policy.denied" } });
    expect(await admin_call.answer(second)).toMatchObject({ status: "succeeded" });
    expect(second.runner.requests).toHaveLength(2);
  },
);

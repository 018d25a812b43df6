import type { Approval } from "@backplane/contract";
import { ApprovalSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, scope, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { removalManifest, requestRemoval } from "../approval/removal-call.ts";

verifies(
  "api.approvals",
  "reads, lists and answers approvals once, and lists and revokes session grants",
  async () => {
    const fixture = await createTestKernel();
    await fixture.bind(removalManifest);
    const { approvals } = fixture.kernel;
    const { ticket, approval } = await requestRemoval(fixture, { path: "a" }, "sess_1");
    expect(ApprovalSchema.parse(approval)).toEqual(approval);
    expect(approval).toMatchObject({
      invocation_id: ticket.id,
      tool: "rm",
      input: { path: "a" },
      risk: "high",
      status: "pending",
      durable: false,
    });
    expect(ticket.invocation.status).toBe("waiting_approval");
    expect(fixture.runner.requests).toHaveLength(0);
    expect((await approvals.list(user, { status: "pending" }, { limit: 10 })).items).toEqual([approval]);
    const answered = await approvals.answer(admin, approval.id, { response: "approve_for_session" });
    expect(answered).toMatchObject({
      status: "approved",
      response: "approve_for_session",
      answered_by: "admin",
    });
    expect((await ticket.settled).status).toBe("succeeded");
    const second_answer = approvals.answer(admin, approval.id, { response: "reject" });
    await expect(second_answer).rejects.toMatchObject({ code: "approval.closed" });
    // Identical calls in that session run without approval; any other call needs its own approval.
    expect(
      (await fixture.call({ export_id: "rm", input: { path: "a" }, session_id: "sess_1" })).approval_id,
    ).toBeNull();
    const others = [
      await requestRemoval(fixture, { path: "b" }, "sess_1"),
      await requestRemoval(fixture, { path: "a" }, "sess_2"),
      await requestRemoval(fixture, { path: "a" }),
    ];
    for (const other of others) expect(other.approval.status).toBe("pending");
    const [grant] = approvals.listGrants(user);
    expect(grant).toMatchObject({
      session_id: "sess_1",
      tool: "rm",
      granted_by: "admin",
      digest: approval.digest,
    });
    const outsider: Caller = { ...user, scope: { ...scope, project_id: "proj_other" } };
    expect(approvals.listGrants(outsider)).toEqual([]);
    const foreign = approvals.revokeGrant(outsider, grant!.id);
    await expect(foreign).rejects.toMatchObject({ code: "approval.not_found" });
    await approvals.revokeGrant(user, grant!.id);
    const trail = (await fixture.kernel.audit.list(admin, {}, { limit: 10 })).items;
    expect(
      trail.map(({ action, actor, details }) => [action, actor, details.response ?? details.tool]),
    ).toEqual(
      expect.arrayContaining([
        ["approval_grant.revoke", user.actor, "rm"],
        ["approval.approved", "admin", "approve_for_session"],
      ]),
    );
    expect((await requestRemoval(fixture, { path: "a" }, "sess_1")).approval.status).toBe("pending");
    await expect(approvals.get(outsider, approval.id)).rejects.toMatchObject({ code: "approval.not_found" });
    await expect(
      approvals.answer(guest, others[0]!.approval.id, { response: "approve" }),
    ).rejects.toMatchObject({
      code: "policy.denied",
    });
  },
);

test("asks for approval again in a session when the previous call was approved only once", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const { approvals } = fixture.kernel;
  const { ticket, approval } = await requestRemoval(fixture, { path: "a" }, "sess_1");
  await approvals.answer(admin, approval.id, { response: "approve" });
  expect((await ticket.settled).status).toBe("succeeded");
  expect(approvals.listGrants(user)).toEqual([]);
  expect((await requestRemoval(fixture, { path: "a" }, "sess_1")).approval.status).toBe("pending");
});

test("runs nothing after a rejection and returns its feedback", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const { ticket, approval } = await requestRemoval(fixture);
  await fixture.kernel.approvals.answer(admin, approval.id, {
    response: "reject",
    feedback: "not on a Friday",
  });
  expect(await ticket.settled).toMatchObject({
    status: "failed",
    error: { code: "approval.rejected", message: "not on a Friday" },
    tool_result: { is_error: true },
  });
  expect(fixture.runner.requests).toHaveLength(0);
});

test("accepts one of a hundred concurrent answers and none with a forged digest", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const { ticket, approval } = await requestRemoval(fixture);
  const forged = fixture.kernel.approvals.answer(admin, approval.id, {
    response: "approve",
    digest: "sha256:00",
  });
  await expect(forged).rejects.toMatchObject({ code: "approval.changed" });
  const answers = await Promise.allSettled(
    Array.from({ length: 100 }, (_, i) =>
      fixture.kernel.approvals.answer(admin, approval.id, {
        response: i % 2 === 0 ? "approve" : "reject",
        digest: approval.digest,
      }),
    ),
  );
  expect(answers.filter((answer) => answer.status === "fulfilled")).toHaveLength(1);
  await ticket.settled;
  expect(fixture.runner.requests.length).toBeLessThanOrEqual(1);
});

test("expires an unanswered approval and leaves nothing pending", async () => {
  const fixture = await createTestKernel({ host: { approval_timeout_ms: 30 } });
  await fixture.bind(removalManifest);
  const timers = fixture.clock.timers;
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => requestRemoval(fixture, { i })));
  for (const { ticket } of all) {
    expect(await ticket.settled).toMatchObject({ status: "failed", error: { code: "approval.expired" } });
  }
  const pending = await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 10 });
  expect(pending.items).toEqual([]);
  await expect(
    fixture.kernel.approvals.answer(admin, all[0]!.approval.id, { response: "approve" }),
  ).rejects.toMatchObject({ code: "approval.closed" });
  await until(() => fixture.clock.timers <= timers + 1);
  expect(fixture.runner.requests).toHaveLength(0);
});

test("does not run a call that changed between the request for approval and the answer", async () => {
  const fixture = await createTestKernel();
  const binding = await fixture.bind(removalManifest);
  const id = binding.binding_id;
  const approve = (approval: Approval) =>
    fixture.kernel.approvals.answer(admin, approval.id, { response: "approve" });
  const off = await requestRemoval(fixture);
  await fixture.kernel.bindings.patch(admin, id, { status: "disabled" }, undefined);
  await approve(off.approval);
  expect(await off.ticket.settled).toMatchObject({
    error: { code: "binding.not_active", details: { rule: "binding" } },
  });
  await fixture.kernel.bindings.patch(admin, id, { status: "active" }, undefined);
  const upgraded = await requestRemoval(fixture);
  await fixture.kernel.packages.install(
    admin,
    fixture.importer.add({ ...removalManifest, version: "0.2.0" }),
  );
  await fixture.kernel.bindings.patch(admin, id, { package_version: "0.2.0" }, undefined);
  await approve(upgraded.approval);
  // Another version needs a new approval, which a person may reject.
  const pending = async () =>
    (await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 5 })).items;
  await until(async () => (await pending()).length === 1);
  const [next_approval] = await pending();
  expect(next_approval).toMatchObject({ replaces: upgraded.approval.id, package_version: "0.2.0" });
  await fixture.kernel.approvals.answer(admin, next_approval!.id, { response: "reject" });
  expect(await upgraded.ticket.settled).toMatchObject({ error: { code: "approval.rejected" } });
  const removed = await requestRemoval(fixture);
  await fixture.kernel.bindings.remove(admin, id);
  await approve(removed.approval);
  expect(await removed.ticket.settled).toMatchObject({ error: { code: "approval.changed" } });
  expect(fixture.runner.requests).toHaveLength(0);
});

test("cancels the approval of a cancelled call", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const { ticket, approval } = await requestRemoval(fixture);
  await fixture.kernel.invocations.cancel(user, ticket.id);
  expect((await ticket.settled).status).toBe("cancelled");
  expect((await fixture.kernel.approvals.get(user, approval.id)).status).toBe("cancelled");
});

test("requires approval for every call to a binding if its policy is always, and for none if it is never", async () => {
  const fixture = await createTestKernel();
  const two = manifest([
    toolExport("strict", {}, { requires_approval: true }),
    toolExport("easy", {}, { requires_approval: false }),
  ]);
  const { binding_id } = await fixture.bind(two, { policy: { approval: "never" } });
  await fixture.bind(two, { export_id: "easy", policy: { approval: "always" } });
  const call = await fixture.kernel.invocations.invoke(user, { export_id: "easy" });
  expect(call.invocation.status).toBe("waiting_approval");
  expect(await fixture.call({ export_id: "strict" })).toMatchObject({
    status: "succeeded",
    approval_id: null,
    allowed_by: binding_id,
  });
});

test("rejects a session approval for a call without a session", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const { approvals } = fixture.kernel;
  const { ticket, approval } = await requestRemoval(fixture);
  const refused = approvals.answer(admin, approval.id, { response: "approve_for_session" });
  await expect(refused).rejects.toMatchObject({ code: "request.invalid" });
  expect((await approvals.get(admin, approval.id)).status).toBe("pending");
  await approvals.answer(admin, approval.id, { response: "approve" });
  expect((await ticket.settled).status).toBe("succeeded");
});

test("rejects calls as overloaded while too many await approval", async () => {
  const fixture = await createTestKernel({ host: { max_waiting: 2 } });
  await fixture.bind(removalManifest);
  const { approval } = await requestRemoval(fixture, { path: "a" });
  await requestRemoval(fixture, { path: "b" });
  const third = fixture.kernel.invocations.invoke(user, { export_id: "rm", input: { path: "c" } });
  await expect(third).rejects.toMatchObject({
    code: "request.overloaded",
    details: { retry_after_ms: expect.any(Number) },
  });
  await fixture.kernel.approvals.answer(admin, approval.id, { response: "reject" });
  expect((await requestRemoval(fixture, { path: "c" })).approval.status).toBe("pending");
});

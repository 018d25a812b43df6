/** New approvals: their brief, their events, a new one after a change, and none while a session approval holds. */
import { admin, createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createRevocableKey } from "../authority/revocable-key.ts";
import { removalManifest, requestRemoval } from "./removal-call.ts";

test("shortens a long brief to 80 characters", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const short = await requestRemoval(fixture, { path: "a" });
  expect(short.approval.brief).toBe('rm {"path":"a"}');
  const { brief } = (await requestRemoval(fixture, { path: "x".repeat(100) })).approval;
  expect(brief).toHaveLength(80);
  expect(brief.endsWith("x…")).toBe(true);
});

test("writes an event with the request and one with the answer", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const { ticket, approval } = await requestRemoval(fixture);
  fixture.clock.wall_offset += 5_000;
  await fixture.kernel.approvals.answer(admin, approval.id, { response: "approve" });
  const { started_at, created_at } = await ticket.settled;
  // The call starts when it is approved, not when it was requested.
  expect(Date.parse(started_at!) - Date.parse(created_at)).toBeGreaterThanOrEqual(5_000);
  const events = (await fixture.store.outbox.read(0, 100, user.scope)).filter(
    ({ subject }) => subject.id === approval.id,
  );
  expect(events.map(({ type, summary }) => [type, summary])).toEqual([
    ["approval.requested", { invocation_id: ticket.id, tool: "rm", risk: "high" }],
    ["approval.resolved", { invocation_id: ticket.id, tool: "rm", status: "approved" }],
  ]);
});

test("asks for approval again if the call changed after its approval was requested", async () => {
  const fixture = await createTestKernel();
  const { binding_id } = await fixture.bind(removalManifest);
  const { ticket, approval } = await requestRemoval(fixture);
  const { bindings, approvals, invocations } = fixture.kernel;
  await bindings.patch(admin, binding_id, { config: { region: "north" } }, undefined);
  await approvals.answer(admin, approval.id, { response: "approve" });
  await expect.poll(async () => (await invocations.get(user, ticket.id)).approval_id).not.toBe(approval.id);
  expect(fixture.runner.requests).toEqual([]);
});

test("ends an approval for the session when the key of its approver is revoked", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  const approver = await createRevocableKey(fixture, { role: "admin" });
  const { ticket, approval } = await requestRemoval(fixture, { path: "a" }, "sess_1");
  await fixture.kernel.approvals.answer(approver.caller, approval.id, { response: "approve_for_session" });
  await ticket.settled;
  const again = await requestRemoval(fixture, { path: "a" }, "sess_1");
  expect(again.ticket.invocation.approval_id).toBeNull();
  await approver.revoke();
  expect((await requestRemoval(fixture, { path: "a" }, "sess_1")).approval.status).toBe("pending");
});

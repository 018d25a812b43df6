/** Approvals that outlive their gateway, or are answered on another gateway. */

import { ok } from "@backplane/test-kit/kernel/scripted-runner";
import { admin, createTestKernel, scope, until, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { removalManifest, requestRemoval } from "./removal-call.ts";

const HOUR = 3_600_000;

test("cancels short approvals within a second of a stop and leaves durable ones pending", async () => {
  const fixture = await createTestKernel();
  const binding = await fixture.bind(removalManifest);
  const short = await requestRemoval(fixture, { n: 1 });
  await fixture.kernel.bindings.patch(
    admin,
    binding.binding_id,
    { policy: { approval_timeout_ms: HOUR } },
    undefined,
  );
  const long = await requestRemoval(fixture, { n: 2 });
  expect(long.approval.durable).toBe(true);
  const began = performance.now();
  await fixture.kernel.stop(5_000);
  expect(performance.now() - began).toBeLessThan(1_000);
  expect(await short.ticket.settled).toMatchObject({ status: "failed", error: { code: "gateway_stopping" } });
  expect((await fixture.kernel.approvals.get(user, short.approval.id)).status).toBe("cancelled");
  expect((await fixture.kernel.approvals.get(user, long.approval.id)).status).toBe("pending");
  expect((await long.ticket.settled).status).toBe("waiting_approval");
});

test("runs a call once on the next gateway when its durable approval is answered after a crash", async () => {
  const first = await createTestKernel();
  const binding = await first.bind(removalManifest, { policy: { approval_timeout_ms: HOUR } });
  const long = await requestRemoval(first, { n: 1 });
  const rejected = await requestRemoval(first, { n: 2 });
  await first.kernel.bindings.patch(admin, binding.binding_id, { policy: {} }, undefined);
  const short = await requestRemoval(first, { n: 3 });
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  const { approvals, invocations } = second.kernel;
  expect(await invocations.get(user, short.ticket.id)).toMatchObject({ error: { code: "approval.expired" } });
  expect((await approvals.get(user, short.approval.id)).status).toBe("expired");
  await approvals.answer(admin, long.approval.id, { response: "approve", digest: long.approval.digest });
  await approvals.answer(admin, rejected.approval.id, { response: "reject" });
  await until(async () => (await invocations.get(user, long.ticket.id)).status === "succeeded");
  await until(async () => (await invocations.get(user, rejected.ticket.id)).status === "failed");
  expect(second.runner.requests.map((request) => request.body.input)).toEqual([{ n: 1 }]);
});

test("wakes a waiting call when another gateway receives the answer", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest);
  fixture.runner.script = () => ok();
  const { ticket, approval } = await requestRemoval(fixture);
  await fixture.store.approvals.resolve(
    approval.id,
    {
      status: "approved",
      response: "approve",
      feedback: null,
      answered_by: "key_elsewhere",
      resolved_at: new Date().toISOString(),
    },
    {
      events: [
        {
          id: fixture.deps.ids.next("event"),
          type: "approval.resolved",
          scope,
          occurred_at: Date.now(),
          subject: { kind: "approval", id: approval.id },
          summary: {},
        },
      ],
    },
  );
  expect((await ticket.settled).status).toBe("succeeded");
});

test("sends a watcher no settled record when the gateway stops during a durable approval", async () => {
  const fixture = await createTestKernel();
  await fixture.bind(removalManifest, { policy: { approval_timeout_ms: 24 * HOUR } });
  const { ticket } = await requestRemoval(fixture);
  const items: string[] = [];
  const watched = (async () => {
    const stop = new AbortController();
    for await (const item of fixture.kernel.invocations.watch(user, ticket.id, 0, stop.signal))
      items.push("settled" in item ? item.settled.status : "event");
  })();
  await fixture.kernel.stop(0);
  await watched;
  expect(items).toEqual([]);
  expect((await fixture.kernel.invocations.get(user, ticket.id)).status).toBe("waiting_approval");
});

test("applies an answer at the next start if it was written just before a crash", async () => {
  const first = await createTestKernel();
  await first.bind(removalManifest);
  const calls = {
    approved: await requestRemoval(first, { n: 1 }),
    rejected: await requestRemoval(first, { n: 2 }),
    unanswered: await requestRemoval(first),
  };
  const resolution = {
    response: null,
    feedback: null,
    answered_by: "admin",
    resolved_at: "2026-01-01T00:00:00Z",
  };
  // The answer is on disk, and the gateway dies before it wakes the waiting call.
  await first.store.approvals.resolve(calls.approved.approval.id, { ...resolution, status: "approved" }, {});
  await first.store.approvals.resolve(calls.rejected.approval.id, { ...resolution, status: "rejected" }, {});
  await first.crash();
  const second = await createTestKernel({ file: first.file });
  const readEnd = async (id: string) => {
    await until(async () => (await second.kernel.invocations.get(user, id)).ended_at !== null);
    const { status, error } = await second.kernel.invocations.get(user, id);
    return error?.code ?? status;
  };
  expect(await readEnd(calls.approved.ticket.id)).toBe("succeeded");
  expect(await readEnd(calls.rejected.ticket.id)).toBe("approval.rejected");
  expect(await readEnd(calls.unanswered.ticket.id)).toBe("approval.expired");
  expect(second.runner.requests.map((request) => request.invocation_id)).toEqual([calls.approved.ticket.id]);
});

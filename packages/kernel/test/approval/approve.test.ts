import type { Approval } from "@backplane/contract";
import { ApprovalSchema } from "@backplane/contract/schema";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import type { Caller } from "../../src/ports/index.ts";
import { admin, guest, type House, openHouse, scope, until, user } from "../support/house.ts";
import { manifest, tool } from "../support/manifests.ts";
import { ok } from "../support/scripted-runner.ts";

const content = manifest([tool("rm", {}, { effect_class: "non_idempotent_write", requires_approval: true })]);
const HOUR = 3_600_000;

async function asked(house: House, input: object = { path: "a" }, session_id?: string) {
  const body = {
    export_id: "rm",
    input: input as never,
    ...(session_id === undefined ? {} : { session_id }),
  };
  const ticket = await house.kernel.invocations.invoke(user, body);
  const id = ticket.invocation.approval_id;
  const approval = id === null ? null : await house.kernel.approvals.get(user, id);
  return { ticket, approval: approval as Approval };
}

verifies(
  "api.approvals",
  "approvals are read, listed, answered once, and session grants listed and revoked",
  async () => {
    const house = await openHouse();
    await house.bind(content);
    const { approvals } = house.kernel;
    const { ticket, approval } = await asked(house, { path: "a" }, "sess_1");
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
    expect(house.runner.orders).toHaveLength(0);
    expect((await approvals.list(user, { status: "pending" }, { limit: 10 })).items).toEqual([approval]);
    const answered = await approvals.answer(admin, approval.id, { response: "approve_for_session" });
    expect(answered).toMatchObject({
      status: "approved",
      response: "approve_for_session",
      answered_by: "admin",
    });
    expect((await ticket.settled).status).toBe("succeeded");
    const late = approvals.answer(admin, approval.id, { response: "reject" });
    await expect(late).rejects.toMatchObject({ code: "approval.closed" });
    // Identical calls of that session run without asking; anything else asks.
    expect(
      (await house.call({ export_id: "rm", input: { path: "a" }, session_id: "sess_1" })).approval_id,
    ).toBeNull();
    const others = [
      await asked(house, { path: "b" }, "sess_1"),
      await asked(house, { path: "a" }, "sess_2"),
      await asked(house, { path: "a" }),
    ];
    for (const other of others) expect(other.approval.status).toBe("pending");
    const [grant] = approvals.grants(user);
    expect(grant).toMatchObject({
      session_id: "sess_1",
      tool: "rm",
      granted_by: "admin",
      digest: approval.digest,
    });
    const stranger: Caller = { ...user, scope: { ...scope, project_id: "proj_other" } };
    expect(approvals.grants(stranger)).toEqual([]);
    const foreign = approvals.revokeGrant(stranger, grant!.id);
    await expect(foreign).rejects.toMatchObject({ code: "approval.not_found" });
    await approvals.revokeGrant(user, grant!.id);
    const trail = (await house.kernel.audit.list(admin, {}, { limit: 10 })).items;
    expect(
      trail.map(({ action, actor, details }) => [action, actor, details.response ?? details.tool]),
    ).toEqual(
      expect.arrayContaining([
        ["approval_grant.revoke", user.actor, "rm"],
        ["approval.approved", "admin", "approve_for_session"],
      ]),
    );
    expect((await asked(house, { path: "a" }, "sess_1")).approval.status).toBe("pending");
    await expect(approvals.get(stranger, approval.id)).rejects.toMatchObject({ code: "approval.not_found" });
    await expect(
      approvals.answer(guest, others[0]!.approval.id, { response: "approve" }),
    ).rejects.toMatchObject({
      code: "policy.denied",
    });
  },
);

test("a rejection carries its feedback, and nothing runs", async () => {
  const house = await openHouse();
  await house.bind(content);
  const { ticket, approval } = await asked(house);
  await house.kernel.approvals.answer(admin, approval.id, {
    response: "reject",
    feedback: "not on a Friday",
  });
  expect(await ticket.settled).toMatchObject({
    status: "failed",
    error: { code: "approval.rejected", message: "not on a Friday" },
    tool_result: { is_error: true },
  });
  expect(house.runner.orders).toHaveLength(0);
});

test("of a hundred answers at once one counts, and a forged digest never does", async () => {
  const house = await openHouse();
  await house.bind(content);
  const { ticket, approval } = await asked(house);
  const forged = house.kernel.approvals.answer(admin, approval.id, {
    response: "approve",
    digest: "sha256:00",
  });
  await expect(forged).rejects.toMatchObject({ code: "approval.changed" });
  const answers = await Promise.allSettled(
    Array.from({ length: 100 }, (_, i) =>
      house.kernel.approvals.answer(admin, approval.id, {
        response: i % 2 === 0 ? "approve" : "reject",
        digest: approval.digest,
      }),
    ),
  );
  expect(answers.filter((one) => one.status === "fulfilled")).toHaveLength(1);
  await ticket.settled;
  expect(house.runner.orders.length).toBeLessThanOrEqual(1);
});

test("an approval that nobody answers expires, and nothing stays pending", async () => {
  const house = await openHouse({ host: { approval_timeout_ms: 30 } });
  await house.bind(content);
  const timers = house.clock.timers;
  const all = await Promise.all(Array.from({ length: 50 }, (_, i) => asked(house, { i })));
  for (const { ticket } of all) {
    expect(await ticket.settled).toMatchObject({ status: "failed", error: { code: "approval.expired" } });
  }
  const pending = await house.kernel.approvals.list(user, { status: "pending" }, { limit: 10 });
  expect(pending.items).toEqual([]);
  await expect(
    house.kernel.approvals.answer(admin, all[0]!.approval.id, { response: "approve" }),
  ).rejects.toMatchObject({ code: "approval.closed" });
  await until(() => house.clock.timers <= timers + 1);
  expect(house.runner.orders).toHaveLength(0);
});

test("what changed between question and answer does not run", async () => {
  const house = await openHouse();
  const binding = await house.bind(content);
  const id = binding.binding_id;
  const approve = (approval: Approval) =>
    house.kernel.approvals.answer(admin, approval.id, { response: "approve" });
  const off = await asked(house);
  await house.kernel.bindings.patch(admin, id, { status: "disabled" }, undefined);
  await approve(off.approval);
  expect(await off.ticket.settled).toMatchObject({
    error: { code: "binding.not_active", details: { rule: "binding" } },
  });
  await house.kernel.bindings.patch(admin, id, { status: "active" }, undefined);
  const upgraded = await asked(house);
  await house.kernel.packages.install(admin, house.importer.add({ ...content, version: "0.2.0" }));
  await house.kernel.bindings.patch(admin, id, { package_version: "0.2.0" }, undefined);
  await approve(upgraded.approval);
  expect(await upgraded.ticket.settled).toMatchObject({ error: { code: "approval.changed" } });
  const removed = await asked(house);
  await house.kernel.bindings.remove(admin, id);
  await approve(removed.approval);
  expect(await removed.ticket.settled).toMatchObject({ error: { code: "approval.changed" } });
  expect(house.runner.orders).toHaveLength(0);
});

test("a cancel ends the question too", async () => {
  const house = await openHouse();
  await house.bind(content);
  const { ticket, approval } = await asked(house);
  await house.kernel.invocations.cancel(user, ticket.id);
  expect((await ticket.settled).status).toBe("cancelled");
  expect((await house.kernel.approvals.get(user, approval.id)).status).toBe("cancelled");
});

test("policy can ask for more approval than the tool, never for less", async () => {
  const house = await openHouse();
  const two = manifest([
    tool("strict", {}, { requires_approval: true }),
    tool("easy", {}, { requires_approval: false }),
  ]);
  await house.bind(two, { policy: { approval: "never" } });
  await house.bind(two, { export_id: "easy", policy: { approval: "always" } });
  for (const export_id of ["strict", "easy"]) {
    const ticket = await house.kernel.invocations.invoke(user, { export_id });
    expect(ticket.invocation.status).toBe("waiting_approval");
  }
});

test("an orderly stop ends short questions within a second and leaves durable ones pending", async () => {
  const house = await openHouse();
  const binding = await house.bind(content);
  const short = await asked(house, { n: 1 });
  await house.kernel.bindings.patch(
    admin,
    binding.binding_id,
    { policy: { approval_timeout_ms: HOUR } },
    undefined,
  );
  const long = await asked(house, { n: 2 });
  expect(long.approval.durable).toBe(true);
  const began = performance.now();
  await house.kernel.stop(5_000);
  expect(performance.now() - began).toBeLessThan(1_000);
  expect(await short.ticket.settled).toMatchObject({ status: "failed", error: { code: "gateway_stopping" } });
  expect((await house.kernel.approvals.get(user, short.approval.id)).status).toBe("cancelled");
  expect((await house.kernel.approvals.get(user, long.approval.id)).status).toBe("pending");
  expect((await long.ticket.settled).status).toBe("waiting_approval");
});

test("a durable question survives a crash, is answered by the next gateway and runs there once", async () => {
  const first = await openHouse();
  const binding = await first.bind(content, { policy: { approval_timeout_ms: HOUR } });
  const long = await asked(first, { n: 1 });
  const rejected = await asked(first, { n: 2 });
  await first.kernel.bindings.patch(admin, binding.binding_id, { policy: {} }, undefined);
  const short = await asked(first, { n: 3 });
  await first.crash();
  const second = await openHouse({ file: first.file });
  const { approvals, invocations } = second.kernel;
  expect(await invocations.get(user, short.ticket.id)).toMatchObject({ error: { code: "approval.expired" } });
  expect((await approvals.get(user, short.approval.id)).status).toBe("expired");
  await approvals.answer(admin, long.approval.id, { response: "approve", digest: long.approval.digest });
  await approvals.answer(admin, rejected.approval.id, { response: "reject" });
  await until(async () => (await invocations.get(user, long.ticket.id)).status === "succeeded");
  await until(async () => (await invocations.get(user, rejected.ticket.id)).status === "failed");
  expect(second.runner.orders.map((order) => order.body.input)).toEqual([{ n: 1 }]);
});

test("an answer that another gateway took reaches the waiting call", async () => {
  const house = await openHouse();
  await house.bind(content);
  house.runner.script = () => ok();
  const { ticket, approval } = await asked(house);
  await house.store.approvals.resolve(
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
          id: house.deps.ids.next("event"),
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

test("for a call without a session there is no session to approve for", async () => {
  const house = await openHouse();
  await house.bind(content);
  const { approvals } = house.kernel;
  const { ticket, approval } = await asked(house);
  const refused = approvals.answer(admin, approval.id, { response: "approve_for_session" });
  await expect(refused).rejects.toMatchObject({ code: "request.invalid" });
  expect((await approvals.get(admin, approval.id)).status).toBe("pending");
  await approvals.answer(admin, approval.id, { response: "approve" });
  expect((await ticket.settled).status).toBe("succeeded");
});

test("a watcher of a durable question hears no end when only the gateway ends", async () => {
  const house = await openHouse();
  await house.bind(content, { policy: { approval_timeout_ms: 24 * HOUR } });
  const { ticket } = await asked(house);
  const items: string[] = [];
  const watched = (async () => {
    const stop = new AbortController();
    for await (const item of house.kernel.invocations.watch(user, ticket.id, 0, stop.signal))
      items.push("settled" in item ? item.settled.status : "event");
  })();
  await house.kernel.stop(0);
  await watched;
  expect(items).toEqual([]);
  expect((await house.kernel.invocations.get(user, ticket.id)).status).toBe("waiting_approval");
});

test("more questions than a person can answer are refused with 429, and room comes back", async () => {
  const house = await openHouse({ host: { max_waiting: 2 } });
  await house.bind(content);
  const { approval } = await asked(house, { path: "a" });
  await asked(house, { path: "b" });
  const third = house.kernel.invocations.invoke(user, { export_id: "rm", input: { path: "c" } });
  await expect(third).rejects.toMatchObject({
    code: "request.overloaded",
    details: { retry_after_ms: expect.any(Number) },
  });
  await house.kernel.approvals.answer(admin, approval.id, { response: "reject" });
  expect((await asked(house, { path: "c" })).approval.status).toBe("pending");
});

test("an answer that its gateway did not live to act on is kept to by the next", async () => {
  const first = await openHouse();
  await first.bind(content);
  const said = {
    yes: await asked(first, { n: 1 }),
    no: await asked(first, { n: 2 }),
    nothing: await asked(first),
  };
  const resolution = {
    response: null,
    feedback: null,
    answered_by: "admin",
    resolved_at: "2026-01-01T00:00:00Z",
  };
  // As answer() writes it, and the gateway dies before the waiting call hears of it.
  await first.store.approvals.resolve(said.yes.approval.id, { ...resolution, status: "approved" }, {});
  await first.store.approvals.resolve(said.no.approval.id, { ...resolution, status: "rejected" }, {});
  await first.crash();
  const second = await openHouse({ file: first.file });
  const end = async (id: string) => {
    await until(async () => (await second.kernel.invocations.get(user, id)).ended_at !== null);
    const { status, error } = await second.kernel.invocations.get(user, id);
    return error?.code ?? status;
  };
  expect(await end(said.yes.ticket.id)).toBe("succeeded");
  expect(await end(said.no.ticket.id)).toBe("approval.rejected");
  expect(await end(said.nothing.ticket.id)).toBe("approval.expired");
  expect(second.runner.orders.map((order) => order.invocation_id)).toEqual([said.yes.ticket.id]);
});

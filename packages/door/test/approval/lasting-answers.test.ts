/** Approval answers that cover more than one call: a tool for the rest of a session, and allow rules. */
import type { ApprovalAnswer, Json, Policy } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import {
  admin,
  createTestKernel,
  owner,
  type TestKernel,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createRevocableKey } from "../authority/revocable-key.ts";

const browser = manifest([
  toolExport("click", {}, { effect_class: "non_idempotent_write" }),
  toolExport("type", {}, { effect_class: "non_idempotent_write" }),
  toolExport("scroll", {}, { effect_class: "idempotent_write" }),
  toolExport("pay", {}, { effect_class: "unknown", risk: "critical" }),
  toolExport("sign", {}, { effect_class: "read_only", requires_approval: true }),
]);

async function createBrowserKernel(policy: Policy = {}): Promise<TestKernel> {
  const fixture = await createTestKernel();
  for (const { id } of browser.exports) await fixture.bind(browser, { export_id: id });
  await fixture.kernel.policy.patch(owner, "org", policy);
  return fixture;
}

/** Starts a call in a session. Resolves with its pending approval, or with the settled call if it needs none. */
async function startCall(
  { kernel }: TestKernel,
  export_id: string,
  input: Json = { x: 1 },
  session_id = "sess_1",
  caller: Caller = user,
) {
  const ticket = await kernel.invocations.invoke(
    caller,
    { export_id, input, session_id },
    { context: "conversation" },
  );
  const id = ticket.invocation.approval_id;
  if (id === null) return { approval: null, settled: await ticket.settled, ticket };
  return { approval: await kernel.approvals.get(caller, id), settled: null, ticket };
}

async function callAndAnswer(fixture: TestKernel, export_id: string, answer: ApprovalAnswer, input?: Json) {
  const { approval, ticket } = await startCall(fixture, export_id, input);
  await fixture.kernel.approvals.answer(admin, approval!.id, answer);
  expect((await ticket.settled).status).toBe("succeeded");
  return approval!;
}

const listRules = async ({ kernel }: TestKernel) => (await kernel.allow_rules.list(user, { limit: 9 })).items;

verifies(
  "allow.rules",
  "approves a tool for a session, whatever its arguments, up to the approved risk",
  async () => {
    const fixture = await createBrowserKernel();
    const { approvals, policy } = fixture.kernel;
    const approval = await callAndAnswer(fixture, "click", {
      response: "approve_for_session",
      covers: "tool",
    });
    const [grant] = approvals.listGrants(user);
    expect(grant).toMatchObject({ tool: "click", covers: "tool", max_risk: "high", granted_to: user.actor });
    expect(grant!.digest).not.toBe(approval.digest);
    expect((await startCall(fixture, "click", { x: 2 })).settled).toMatchObject({ allowed_by: grant!.id });
    expect((await startCall(fixture, "type")).approval).not.toBeNull();
    expect((await startCall(fixture, "click", { x: 2 }, "sess_2")).approval).not.toBeNull();
    expect(
      (await startCall(fixture, "click", { x: 2 }, "sess_1", { ...user, actor: "key_other" })).approval,
    ).not.toBeNull();
    await policy.patch(owner, "org", { risks: { click: "critical" } });
    expect((await startCall(fixture, "click", { x: 3 })).approval).not.toBeNull();
    await policy.patch(owner, "org", { risks: null, lasting_approvals: "medium" });
    expect((await startCall(fixture, "click", { x: 3 })).approval).not.toBeNull();
    await policy.patch(owner, "org", { lasting_approvals: null });
    expect((await startCall(fixture, "click", { x: 3 })).settled).toMatchObject({ allowed_by: grant!.id });
    await approvals.revokeGrant(user, grant!.id);
    expect((await startCall(fixture, "click", { x: 4 })).approval).not.toBeNull();
  },
);

test("asks for approval again in a session when the risk of the tool has risen", async () => {
  const fixture = await createBrowserKernel();
  for (const covers of ["arguments", "tool"] as const)
    await callAndAnswer(fixture, "scroll", { response: "approve_for_session", covers }, { covers });
  for (const covers of ["tool", "arguments"])
    expect((await startCall(fixture, "scroll", { covers })).approval).toBeNull();
  await fixture.kernel.policy.patch(owner, "org", { risks: { scroll: "high" } });
  for (const covers of ["tool", "arguments"])
    expect((await startCall(fixture, "scroll", { covers })).approval).not.toBeNull();
});

test("asks for approval again when anything but the arguments changed, or when every call needs approval", async () => {
  const fixture = await createBrowserKernel();
  await callAndAnswer(fixture, "click", { response: "approve_for_session", covers: "tool" });
  const { items } = await fixture.kernel.bindings.list(admin, {}, { limit: 9 });
  const { binding_id } = items.find(({ export_id }) => export_id === "click")!;
  const patch = (body: object) => fixture.kernel.bindings.patch(admin, binding_id, body, undefined);
  await patch({ config: { region: "north" } });
  expect((await startCall(fixture, "click", { x: 2 })).approval).not.toBeNull();
  await patch({ config: {} });
  expect((await startCall(fixture, "click", { x: 2 })).approval).toBeNull();
  await patch({ policy: { approval: "always" } });
  const { approval } = await startCall(fixture, "click", { x: 2 });
  expect(approval!.may_cover).toEqual({ session: ["arguments"], always: [] });
});

test.each<[covers: "arguments" | "tool" | "server", same: boolean, tool: boolean, server: boolean]>([
  ["arguments", true, false, false],
  ["tool", true, true, false],
  ["server", true, true, true],
])("creates a rule that covers the %s", async (covers, ...expected) => {
  const fixture = await createBrowserKernel();
  const approval = await callAndAnswer(fixture, "click", { response: "approve_always", covers });
  const [rule] = await listRules(fixture);
  expect(rule).toMatchObject({
    approval_id: approval.id,
    covers: covers === "server" ? "server" : "tool",
    identity: user.actor,
    created_by: "admin",
    max_risk: "high",
    other_arguments: covers !== "arguments",
  });
  const calls = [
    startCall(fixture, "click"),
    startCall(fixture, "click", { x: 2 }),
    startCall(fixture, "type"),
  ];
  const results = await Promise.all(calls);
  expect(results.map(({ approval: asked }) => asked === null)).toEqual(expected);
  expect((await startCall(fixture, "click", { x: 1, y: 2 })).approval === null).toBe(covers !== "arguments");
  expect((await startCall(fixture, "pay")).approval).not.toBeNull();
});

test("covers the tool by default, and shows what an answer may cover", async () => {
  const fixture = await createBrowserKernel();
  const { approval } = await startCall(fixture, "click");
  expect(approval!.may_cover).toEqual({
    session: ["arguments", "tool"],
    always: ["arguments", "tool", "server"],
  });
  await fixture.kernel.approvals.answer(admin, approval!.id, { response: "approve_always" });
  expect((await listRules(fixture))[0]).toMatchObject({ covers: "tool", tool: "click", arguments: null });
  expect((await startCall(fixture, "sign")).approval!.may_cover.always).toEqual(["arguments", "tool"]);
  expect((await startCall(fixture, "pay")).approval!.may_cover).toEqual({ session: [], always: [] });
});

test.each<[string, string, Policy, ApprovalAnswer, string]>([
  ["a critical call always", "pay", {}, { response: "approve_always" }, "allow_rule.refused"],
  ["a critical call for a session", "pay", {}, { response: "approve_for_session" }, "allow_rule.refused"],
  [
    "a tool above the ceiling",
    "click",
    { lasting_approvals: "medium" },
    { response: "approve_always" },
    "allow_rule.refused",
  ],
  [
    "a tool in a session above the ceiling",
    "click",
    { lasting_approvals: "low" },
    { response: "approve_for_session", covers: "tool" },
    "allow_rule.refused",
  ],
  [
    "a server for a tool that requires approval",
    "sign",
    {},
    { response: "approve_always", covers: "server" },
    "allow_rule.refused",
  ],
  [
    "a server for a session",
    "click",
    {},
    { response: "approve_for_session", covers: "server" },
    "request.invalid",
  ],
  [
    "more than the call with a plain approval",
    "click",
    {},
    { response: "approve", covers: "tool" },
    "request.invalid",
  ],
])("refuses to cover %s, and the approval stays pending", async (_what, name, policy, answer, code) => {
  const fixture = await createBrowserKernel(policy);
  const { approval, ticket } = await startCall(fixture, name);
  await expect(fixture.kernel.approvals.answer(admin, approval!.id, answer)).rejects.toMatchObject({ code });
  expect((await fixture.kernel.approvals.get(user, approval!.id)).status).toBe("pending");
  expect(await listRules(fixture)).toEqual([]);
  await fixture.kernel.approvals.answer(admin, approval!.id, { response: "approve" });
  expect((await ticket.settled).status).toBe("succeeded");
});

test("creates one rule for many concurrent answers, and audits it together with the approval", async () => {
  const fixture = await createBrowserKernel();
  const { approval } = await startCall(fixture, "click");
  const answers = await Promise.allSettled(
    Array.from({ length: 20 }, () =>
      fixture.kernel.approvals.answer(admin, approval!.id, { response: "approve_always" }),
    ),
  );
  expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  const [rule, ...rest] = await listRules(fixture);
  expect(rest).toEqual([]);
  const trail = (await fixture.kernel.audit.list(admin, {}, { limit: 9 })).items;
  expect(trail.map(({ action, details }) => [action, details.allow_rule ?? details.approval_id])).toEqual(
    expect.arrayContaining([
      ["approval.approved", rule!.id],
      ["allow_rule.create", approval!.id],
    ]),
  );
});

test("ends a lasting answer when the key of the person who gave it is revoked", async () => {
  const fixture = await createBrowserKernel();
  const key = await createRevocableKey(fixture, { role: "admin" });
  const { approval } = await startCall(fixture, "click");
  await fixture.kernel.approvals.answer(key.caller, approval!.id, { response: "approve_always" });
  expect((await startCall(fixture, "click")).approval).toBeNull();
  await key.revoke();
  expect((await startCall(fixture, "click")).approval).not.toBeNull();
});

import type { AllowRule, AllowRuleCreate, CallContext, InvokeBody, Json, Policy } from "@backplane/contract";
import { AllowRuleSchema } from "@backplane/contract/schema";
import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import {
  admin,
  createTestKernel,
  guest,
  orgUser,
  owner,
  scope,
  type TestKernel,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createRevocableKey } from "../authority/revocable-key.ts";

const devkit = (more: object = {}, version = "0.1.0") =>
  manifest(
    [
      toolExport("write", { ...more }, { effect_class: "non_idempotent_write" }),
      toolExport("move", {}, { effect_class: "idempotent_write" }),
      toolExport("wipe", {}, { effect_class: "unknown", risk: "critical" }),
      toolExport("strict", {}, { effect_class: "read_only", requires_approval: true }),
    ],
    { version },
  );
const other_user: Caller = { ...user, actor: "key_other" };
const outsider: Caller = { ...user, scope: { ...scope, project_id: "proj_other" } };

async function createDevkitKernel(): Promise<TestKernel> {
  const fixture = await createTestKernel();
  const bound = { org_wide: true };
  await fixture.bind(devkit(), bound);
  for (const export_id of ["move", "wipe", "strict"]) await fixture.bind(devkit(), { export_id, ...bound });
  return fixture;
}

/** Makes a call, which either runs or awaits approval. */
async function callTool(
  { kernel }: TestKernel,
  export_id: string,
  more: { caller?: Caller; context?: CallContext; body?: Partial<InvokeBody>; input?: Json } = {},
) {
  const { caller = user, context = "conversation", input = { path: "/data/a" } } = more;
  const body = { export_id, input, ...more.body } as InvokeBody;
  const options = context === "direct" ? {} : { context };
  const ticket = await kernel.invocations.invoke(caller, body, options);
  const { status, approval_id } = ticket.invocation;
  return status === "waiting_approval"
    ? {
        ask_reason: (await kernel.approvals.get(caller, approval_id!)).reason,
        allowed_by: null,
        approval_id: approval_id!,
      }
    : { ask_reason: null, allowed_by: (await ticket.settled).allowed_by, approval_id: null };
}

const addRule = ({ kernel }: TestKernel, body: AllowRuleCreate, caller: Caller = user): Promise<AllowRule> =>
  kernel.allow_rules.create(caller, body);

const setPolicy = ({ kernel }: TestKernel, patch: Policy) => kernel.policy.patch(owner, "org", patch);

verifies(
  "allow.rules",
  "runs a call without approval if a rule covers it, records the rule, and asks again once the rule is removed",
  async () => {
    const fixture = await createDevkitKernel();
    const { kernel } = fixture;
    expect((await callTool(fixture, "write")).ask_reason).toContain("its risk is high");
    const rule = await addRule(fixture, { tool: "write", note: "for the report" });
    expect(AllowRuleSchema.parse(rule)).toEqual(rule);
    expect(rule).toMatchObject({
      covers: "tool",
      tool: "write",
      package_id: "acme/devkit",
      max_risk: "high",
      identity: user.actor,
      created_by: user.actor,
      project_id: scope.project_id,
      ended: null,
      suspended: null,
      note: "for the report",
    });
    for (const context of ["conversation", "background", "headless"] as const)
      expect(await callTool(fixture, "write", { context })).toMatchObject({
        ask_reason: null,
        allowed_by: rule.id,
      });
    expect(await callTool(fixture, "write", { context: "direct" })).toMatchObject({
      ask_reason: null,
      allowed_by: null,
    });
    expect((await kernel.allow_rules.list(user, { limit: 5 })).items).toEqual([rule]);
    expect((await kernel.allow_rules.list(outsider, { limit: 5 })).items).toEqual([]);
    await expect(kernel.allow_rules.remove(outsider, rule.id)).rejects.toMatchObject({
      code: "allow_rule.not_found",
    });
    await kernel.allow_rules.remove(user, rule.id);
    expect((await callTool(fixture, "write")).ask_reason).not.toBeNull();
    const trail = (await kernel.audit.list(admin, {}, { limit: 50 })).items.filter(
      ({ subject }) => subject === rule.id,
    );
    expect(trail.map(({ action }) => action).toSorted()).toEqual(["allow_rule.create", "allow_rule.remove"]);
  },
);

test("a rule covers one caller, or every caller if an admin allows that", async () => {
  const fixture = await createDevkitKernel();
  await addRule(fixture, { tool: "write" });
  expect((await callTool(fixture, "write", { caller: other_user })).ask_reason).not.toBeNull();
  for (const identity of [null, "admin"])
    await expect(addRule(fixture, { tool: "write", identity })).rejects.toMatchObject({
      code: "policy.denied",
    });
  await expect(addRule(fixture, { tool: "write" }, guest)).rejects.toMatchObject({ code: "policy.denied" });
  await expect(addRule(fixture, { tool: "write", identity: "key_nobody" }, admin)).rejects.toMatchObject({
    code: "request.invalid",
  });
  const rule = await addRule(fixture, { tool: "write", identity: null }, admin);
  expect(await callTool(fixture, "write", { caller: other_user })).toMatchObject({ allowed_by: rule.id });
  expect((await callTool(fixture, "write", { caller: outsider })).ask_reason).not.toBeNull();
  await expect(addRule(fixture, { tool: "write", org_wide: true })).rejects.toMatchObject({
    code: "policy.denied",
  });
  const wide = await addRule(fixture, { tool: "write", identity: null, org_wide: true }, admin);
  expect(await callTool(fixture, "write", { caller: outsider })).toMatchObject({ allowed_by: wide.id });
  const project_admin: Caller = { ...user, actor: "key_project", role: "admin" };
  for (const caller of [project_admin, orgUser])
    await expect(fixture.kernel.allow_rules.remove(caller, wide.id)).rejects.toMatchObject({
      code: "policy.denied",
    });
  await fixture.kernel.allow_rules.remove(admin, wide.id);
});

test("a rule can be removed by its creator, by the caller it covers, or by an admin", async () => {
  const fixture = await createDevkitKernel();
  const { allow_rules } = fixture.kernel;
  const tryRemove = async (caller: Caller, rule: AllowRule) => {
    const error = await allow_rules.remove(caller, rule.id).catch((thrown: unknown) => thrown);
    if (error !== undefined) expect(error).toMatchObject({ code: "policy.denied" });
    return error === undefined;
  };
  const everyone = await addRule(fixture, { tool: "write", identity: null }, admin);
  const own_rule = await addRule(fixture, { tool: "write" });
  expect(await tryRemove(user, everyone)).toBe(false);
  expect(await tryRemove(other_user, own_rule)).toBe(false);
  expect(await tryRemove(user, own_rule)).toBe(true);
  expect(await tryRemove({ ...other_user, role: "admin" }, everyone)).toBe(true);
  const demoted = await addRule(fixture, { tool: "write", identity: null }, { ...other_user, role: "admin" });
  expect(await tryRemove(other_user, demoted)).toBe(true);
});

test("a rule covers a server up to its risk, but neither critical tools nor tools that require approval", async () => {
  const fixture = await createDevkitKernel();
  const rule = await addRule(fixture, { server: "acme/devkit" });
  expect(rule).toMatchObject({ covers: "server", tool: null, max_risk: "high" });
  for (const name of ["write", "move"])
    expect(await callTool(fixture, name)).toMatchObject({ allowed_by: rule.id });
  for (const name of ["wipe", "strict"]) expect((await callTool(fixture, name)).ask_reason).not.toBeNull();
  await fixture.kernel.allow_rules.remove(user, rule.id);
  const low = await addRule(fixture, { server: "devkit", max_risk: "medium" });
  expect(await callTool(fixture, "move")).toMatchObject({ allowed_by: low.id });
  expect((await callTool(fixture, "write")).ask_reason).not.toBeNull();
  const named = await addRule(fixture, { tool: "strict" });
  for (const context of ["direct", "conversation"] as const)
    expect(await callTool(fixture, "strict", { context })).toMatchObject({ allowed_by: named.id });
});

test("a rule covers only arguments that meet its conditions", async () => {
  const fixture = await createDevkitKernel();
  const rule = await addRule(fixture, { tool: "write", arguments: { path: { matches: "/data/*" } } });
  expect(await callTool(fixture, "write")).toMatchObject({ allowed_by: rule.id });
  for (const path of ["/etc/passwd", "/data/../etc/passwd"])
    expect((await callTool(fixture, "write", { input: { path } })).ask_reason).not.toBeNull();
});

test("refuses a condition on an argument that the tool does not have", async () => {
  const fixture = await createTestKernel();
  const named = (id: string) => toolExport(id, {}, { input_schema: `${id}.json` });
  const tools = manifest([named("closed"), named("open")]);
  const properties = { path: { type: "string" }, mode: { type: "string" } };
  const schemas = {
    "closed.json": { type: "object", properties },
    "open.json": { type: "object", properties, additionalProperties: { type: "string" } },
  };
  for (const export_id of ["closed", "open"]) await fixture.bind(tools, { export_id }, schemas);
  const conditions = { nosuch: { matches: "x" } };
  await expect(addRule(fixture, { tool: "closed", arguments: conditions })).rejects.toMatchObject({
    code: "request.invalid",
    message: "closed has no argument nosuch. Its arguments: path, mode.",
  });
  await expect(addRule(fixture, { tool: "open", arguments: conditions })).resolves.toBeDefined();
  await expect(
    addRule(fixture, { tool: "closed", arguments: { path: { matches: "x" } } }),
  ).resolves.toBeDefined();
});

test("a rule applies to one package and stays valid after its upgrade", async () => {
  const fixture = await createDevkitKernel();
  const rule = await addRule(fixture, { tool: "write" });
  const second = manifest([toolExport("write", {}, { effect_class: "non_idempotent_write" })], {
    package_id: "evil/devkit",
  });
  await fixture.bind(second);
  const body = { package_id: "evil/devkit" };
  expect((await callTool(fixture, "write", { body })).ask_reason).not.toBeNull();
  await fixture.kernel.packages.install(admin, fixture.importer.add(devkit({}, "0.2.0")));
  const next_version = { package_id: "acme/devkit", package_version: "0.2.0", org_wide: true };
  await fixture.kernel.bindings.upgrade(admin, next_version);
  expect(await callTool(fixture, "write", { body: { package_id: "acme/devkit" } })).toMatchObject({
    allowed_by: rule.id,
  });
});

test("asks for approval while the grant is wider than when the rule was made, and lists the wider parts", async () => {
  const fixture = await createTestKernel();
  const permissions = { network: "egress", allowed_domains: ["a.example.com", "b.example.com"] };
  const { binding_id } = await fixture.bind(devkit({ permissions }), {
    policy: { allowed_domains: ["a.example.com"] },
  });
  const rule = await addRule(fixture, { tool: "write" });
  expect(await callTool(fixture, "write")).toMatchObject({ allowed_by: rule.id });
  const setDomains = (allowed_domains: string[]) =>
    fixture.kernel.bindings.patch(admin, binding_id, { policy: { allowed_domains } }, undefined);
  await setDomains(["a.example.com", "b.example.com"]);
  const { ask_reason } = await callTool(fixture, "write");
  expect(ask_reason).toContain(
    `the allow rule ${rule.id} does not permit this call, because the call's grant is now wider: allowed_domains`,
  );
  await setDomains(["a.example.com"]);
  expect(await callTool(fixture, "write")).toMatchObject({ allowed_by: rule.id });
});

test("a rule does not cover a call whose arguments raise the risk above its maximum", async () => {
  const fixture = await createDevkitKernel();
  const rule = await addRule(fixture, { tool: "move" });
  const raise = { action: "raise" as const, when: [{ pointer: "/path", matches: "^/etc/" }] };
  await setPolicy(fixture, { rules: [raise] });
  expect(await callTool(fixture, "move")).toMatchObject({ allowed_by: rule.id });
  expect((await callTool(fixture, "move", { input: { path: "/etc/x" } })).ask_reason).toContain(
    "its risk is high",
  );
});

test("applies the policy's lasting_approvals ceiling, even to existing rules", async () => {
  const fixture = await createDevkitKernel();
  const { kernel } = fixture;
  const rule = await addRule(fixture, { tool: "write" });
  await setPolicy(fixture, { lasting_approvals: "medium" });
  expect((await callTool(fixture, "write")).ask_reason).not.toBeNull();
  await expect(addRule(fixture, { tool: "write" })).rejects.toMatchObject({
    code: "allow_rule.refused",
    message: expect.stringContaining("lasting_approvals is medium"),
  });
  await expect(addRule(fixture, { tool: "move", max_risk: "high" })).rejects.toMatchObject({
    code: "allow_rule.refused",
  });
  await kernel.policy.patch(admin, "project", { lasting_approvals: "none" });
  await expect(addRule(fixture, { tool: "move" })).rejects.toMatchObject({ code: "allow_rule.refused" });
  await kernel.policy.patch(admin, "project", { lasting_approvals: "full" });
  expect((await callTool(fixture, "write")).ask_reason).not.toBeNull();
  await setPolicy(fixture, { lasting_approvals: "full" });
  expect(await callTool(fixture, "write")).toMatchObject({ allowed_by: rule.id });
  await expect(addRule(fixture, { tool: "wipe" })).rejects.toMatchObject({
    code: "allow_rule.refused",
    message: expect.stringContaining("critical"),
  });
});

test.each([
  ["full", null],
  ["medium", "Calls above medium risk need approval, because the policy's lasting_approvals is medium."],
  ["none", "Every call needs approval, because the policy's lasting_approvals is none."],
] as const)("shows whether a ceiling of %s suspends a rule", async (lasting_approvals, suspended) => {
  const fixture = await createDevkitKernel();
  await addRule(fixture, { tool: "write" });
  await setPolicy(fixture, { lasting_approvals });
  const [listed] = (await fixture.kernel.allow_rules.list(user, { limit: 5 })).items;
  expect(listed).toMatchObject({ max_risk: "high", ended: null, suspended });
});

test("a rule ends when the key of its creator is revoked", async () => {
  const fixture = await createDevkitKernel();
  const key = await createRevocableKey(fixture, { role: "admin" });
  const rule = await addRule(fixture, { tool: "write", identity: null }, key.caller);
  expect(await callTool(fixture, "write")).toMatchObject({ allowed_by: rule.id });
  await key.revoke();
  expect((await callTool(fixture, "write")).ask_reason).not.toBeNull();
  const [listed] = (await fixture.kernel.allow_rules.list(user, { limit: 5 })).items;
  expect(listed!.ended).toContain(`The key ${key.id} was revoked`);
});

test("a rule never covers a binding that requires approval of every call, nor the gateway's own tools", async () => {
  const fixture = await createDevkitKernel();
  await addRule(fixture, { tool: "write" });
  const [binding] = (await fixture.kernel.bindings.list(admin, {}, { limit: 9 })).items.filter(
    ({ export_id }) => export_id === "write",
  );
  await fixture.kernel.bindings.patch(
    admin,
    binding!.binding_id,
    { policy: { approval: "always" } },
    undefined,
  );
  expect((await callTool(fixture, "write")).ask_reason).toContain("requires approval of every call");
  await expect(addRule(fixture, { tool: "write" })).rejects.toMatchObject({
    code: "allow_rule.refused",
    fix: expect.stringContaining(`backplane binding set ${binding!.binding_id} --approval default`),
  });
  await expect(addRule(fixture, { tool: "server_request" })).rejects.toMatchObject({
    code: expect.stringMatching(/allow_rule.refused|tool.not_found/),
  });
  await expect(addRule(fixture, { tool: "nothing" })).rejects.toMatchObject({ code: "tool.not_found" });
  await expect(addRule(fixture, { server: "nothing" })).rejects.toMatchObject({ code: "tool.not_found" });
});

test("explains which rule allows a call", async () => {
  const fixture = await createDevkitKernel();
  const query = { tool: "write", context: "headless" as const };
  expect(await fixture.kernel.policy.explain(user, query)).toMatchObject({
    outcome: "deny",
    allowed_by: null,
  });
  const rule = await addRule(fixture, { tool: "write", arguments: { path: { matches: "/data/*" } } });
  const input = { path: "/data/a" };
  expect(await fixture.kernel.policy.explain(user, { ...query, input })).toMatchObject({
    outcome: "run",
    allowed_by: rule.id,
    steps: expect.arrayContaining([
      expect.objectContaining({ rule: "risk", reason: `allowed by ${rule.id}` }),
    ]),
  });
  expect(await fixture.kernel.policy.explain(user, query)).toMatchObject({ outcome: "deny" });
});

test("runs a covered call although the limit of calls that await approval is reached", async () => {
  const fixture = await createTestKernel({ host: { max_waiting: 1 } });
  await fixture.bind(devkit());
  expect((await callTool(fixture, "write")).ask_reason).not.toBeNull();
  await expect(callTool(fixture, "write")).rejects.toMatchObject({ code: "request.overloaded" });
  const rule = await addRule(fixture, { tool: "write" });
  expect(await callTool(fixture, "write")).toMatchObject({ allowed_by: rule.id });
});

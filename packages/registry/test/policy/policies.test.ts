/**
 * Changes to a policy, and its effect on calls: roles, categories, origins, security rules, approvals and the host
 * level.
 */

import type { Policy } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { grantWith } from "@backplane/test-kit/grant-with";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, type TestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

async function createKernelWith(...tools: ReturnType<typeof toolExport>[]): Promise<TestKernel> {
  const fixture = await createTestKernel();
  const content = manifest(tools);
  await fixture.bind(content);
  for (const { id } of content.exports.slice(1)) {
    const { package_id, version } = content;
    await fixture.kernel.bindings.create(admin, { package_id, package_version: version, export_id: id });
  }
  return fixture;
}

const setPolicy = (fixture: TestKernel, policy: Policy) => fixture.kernel.policy.put(admin, "org", policy);
const listToolNames = async (fixture: TestKernel, caller: Caller = user) =>
  (await fixture.kernel.catalog.list(caller)).map(({ name }) => name);
/** Returns the rule that refuses the call, or the status of the call. */
const callOutcome = (
  fixture: TestKernel,
  export_id: string,
  input: unknown = {},
  caller: Caller = user,
): Promise<string> =>
  fixture.call({ export_id, input: input as never }, caller).then(
    ({ status }) => status,
    (error: { details?: { rule?: string } }) => String(error.details?.rule),
  );

verifies("tools.category", "offers and runs only tools of allowed categories", async () => {
  const fixture = await createKernelWith(
    toolExport("edit", {}, { category: "coding" }),
    toolExport("shell", {}, { category: "terminal" }),
    toolExport("plain"),
  );
  expect(await listToolNames(fixture)).toEqual(["edit", "plain", "shell"]);
  await setPolicy(fixture, { allowed_tool_categories: ["coding"] });
  expect(await listToolNames(fixture)).toEqual(["edit"]);
  expect(await Promise.all(["edit", "shell", "plain"].map((name) => callOutcome(fixture, name)))).toEqual([
    "succeeded",
    "category",
    "category",
  ]);
  const export_ids = (await fixture.kernel.exports.discover(user, "tool")).map(({ export_id }) => export_id);
  expect(export_ids).toEqual(["edit"]);
});

verifies(
  "instr.origins",
  "limits a role by origins, tools, categories and risk; deny overrides allow",
  async () => {
    const fixture = await createKernelWith(
      toolExport("edit", {}, { category: "coding" }),
      toolExport("look", {}, { category: "coding", effect_class: "idempotent_write" }),
      toolExport("plain"),
    );
    const callTools = async () =>
      await Promise.all(["edit", "look", "plain"].map((name) => callOutcome(fixture, name)));
    const ran = "succeeded";
    await setPolicy(fixture, { roles: { user: { allow: { origins: ["core"] } } } });
    expect(await callTools()).toEqual(["role", "role", "role"]);
    await setPolicy(fixture, {
      roles: { user: { allow: { origins: ["plugin"] }, deny: { origins: ["plugin"] } } },
    });
    expect(await callTools()).toEqual(["role", "role", "role"]);
    await setPolicy(fixture, { roles: { user: { allow: { tools: ["*"] }, deny: { tools: ["ed*"] } } } });
    expect(await callTools()).toEqual(["role", ran, ran]);
    await setPolicy(fixture, { roles: { user: { allow: { categories: ["coding"] } } } });
    expect(await callTools()).toEqual([ran, ran, "role"]);
    await setPolicy(fixture, { roles: { user: { deny: { categories: ["coding"] } } } });
    expect(await callTools()).toEqual(["role", "role", ran]);
    await setPolicy(fixture, { roles: { user: { max_risk: "low" } } });
    expect(await callTools()).toEqual([ran, "role", ran]);
    expect(await listToolNames(fixture)).toEqual(["edit", "plain"]);
    // The policy does not limit other roles.
    expect(await callOutcome(fixture, "look", {}, { ...user, role: "admin" })).toBe(ran);
    const hidden = await fixture.kernel.catalog.get(user, "look");
    expect(hidden[0]).toMatchObject({
      status: "hidden",
      reason: "The role user may not use look: its risk is medium, and the role may use up to low.",
    });
  },
);

test("ignores the case of categories, and limits tools whose category is named like an object property", async () => {
  const fixture = await createKernelWith(
    toolExport("run", {}, { category: "Shell" }),
    toolExport("sly", {}, { category: "constructor", effect_class: "idempotent_write" }),
  );
  const callTools = async () => await Promise.all(["run", "sly"].map((name) => callOutcome(fixture, name)));
  await setPolicy(fixture, { roles: { user: { deny: { categories: ["shell"] } } } });
  expect(await callTools()).toEqual(["role", "succeeded"]);
  await setPolicy(fixture, {
    allowed_tool_categories: ["SHELL"],
    roles: { user: { allow: { categories: ["shell"] } } },
  });
  expect(await callTools()).toEqual(["succeeded", "role"]);
  await setPolicy(fixture, { roles: { user: { max_risk: "low" } } });
  expect(await callTools()).toEqual(["role", "role"]);
});

verifies(
  "instr.security-rules",
  "applies rules of the plugin and of the policy, which can deny a call or raise its risk but not allow it",
  async () => {
    const plugin_rules = [
      { id: "no-etc", when: [{ pointer: "/path", matches: "^/etc/" }], action: "deny", reason: "not there" },
      { when: [{ pointer: "/items/*/danger", equals: true }], action: "raise", risk: "critical" },
    ];
    const fixture = await createKernelWith(
      toolExport("write", {}, { rules: plugin_rules }),
      toolExport("other"),
    );
    expect(await callOutcome(fixture, "write", { path: "/etc/passwd" })).toBe("security");
    expect(await callOutcome(fixture, "write", { path: "/tmp/x" })).toBe("succeeded");
    expect(await callOutcome(fixture, "other", { path: "/etc/passwd" })).toBe("succeeded");
    const explainCall = async (input: object) => {
      const query = { tool: "write", context: "conversation" as const, input: input as never };
      const { outcome, risk } = await fixture.kernel.policy.explain(admin, query);
      return [outcome, risk];
    };
    expect(await explainCall({ items: [{}, { danger: true }] })).toEqual(["ask", "critical"]);
    expect(await explainCall({ items: [{ danger: false }] })).toEqual(["run", "low"]);
    await setPolicy(fixture, {
      tolerance: { conversation: "full" },
      rules: [
        { tools: ["w*"], when: [{ pointer: "/path", exists: false }], action: "deny" },
        { when: [{ pointer: "/path", one_of: ["/tmp/y"] }], action: "raise", risk: "critical" },
      ],
    });
    expect(await callOutcome(fixture, "write", { path: "/etc/passwd" })).toBe("security");
    expect(await callOutcome(fixture, "write", {})).toBe("security");
    expect(await callOutcome(fixture, "other", {})).toBe("succeeded");
    expect(await explainCall({ path: "/tmp/y" })).toEqual(["ask", "critical"]);
    // The action `allow` makes the rule invalid, so every call to the tool is denied.
    const with_invalid_rule = await createKernelWith(
      toolExport("odd", {}, { rules: [{ when: [], action: "allow" }] }),
    );
    await expect(with_invalid_rule.call({ export_id: "odd" })).rejects.toMatchObject({
      code: "policy.denied",
      message: expect.stringContaining("the plugin's rule 1: the rule is invalid"),
    });
  },
);

test("applies the rules of the org and of the project, each with all of its conditions", async () => {
  const fixture = await createKernelWith(toolExport("t"));
  const at = (pointer: string, equals: number) => ({ pointer, equals });
  await setPolicy(fixture, { rules: [{ when: [at("/a", 1), at("/b", 1)], action: "deny" }] });
  await fixture.kernel.policy.put(admin, "project", {
    rules: [{ tools: ["t"], when: [at("/c", 1)], action: "deny" }],
  });
  const tries = [{ a: 1 }, { b: 1 }, { a: 1, b: 1 }, { c: 1 }];
  expect(await Promise.all(tries.map((input) => callOutcome(fixture, "t", input)))).toEqual([
    "succeeded",
    "succeeded",
    "security",
    "security",
  ]);
  await setPolicy(fixture, { rules: [{ when: [], action: "deny" }] });
  expect(await callOutcome(fixture, "t")).toBe("security");
});

test("changes policy fields, checks the generation, and refuses invalid rules and unauthorized callers", async () => {
  const fixture = await createKernelWith(toolExport("t"));
  const { policy, audit } = fixture.kernel;
  await setPolicy(fixture, { allowed_origins: ["core"], deferred_tools: ["x*"] });
  const patched = await policy.patch(admin, "org", { allowed_origins: null }, 1);
  expect(patched).toMatchObject({ generation: 2, policy: { deferred_tools: ["x*"] } });
  expect(patched.policy).not.toHaveProperty("allowed_origins");
  const [entry] = (await audit.list(admin, { action: "policy.set" }, { limit: 1 })).items;
  expect(entry!.details.changed).toEqual({ allowed_origins: { from: ["core"], to: null } });
  for (const generation of [1, 3]) {
    const stale = policy.patch(admin, "org", {}, generation);
    await expect(stale).rejects.toMatchObject({ code: "request.precondition", details: { generation: 2 } });
  }
  const invalid = policy.put(admin, "org", {
    rules: [{ when: [{ pointer: "/a", matches: "(" }], action: "deny" }],
  });
  await expect(invalid).rejects.toMatchObject({ code: "request.invalid" });
  expect((await policy.get(admin, "org")).generation).toBe(2);
  const project_admin: Caller = { ...admin, actor: "key_project" };
  const refused = policy.put(project_admin, "org", {});
  await expect(refused).rejects.toMatchObject({ code: "policy.denied" });
  const org_admin: Caller = { ...project_admin, scope: { ...admin.scope, project_id: null } };
  expect((await policy.put(org_admin, "org", {})).generation).toBe(3);
  expect((await policy.put(project_admin, "project", {})).generation).toBe(1);
});

test("narrows the grant of every call by the policy's host level", async () => {
  const fixture = await createKernelWith(
    toolExport("fetch", { permissions: { network: "egress", allowed_domains: ["a.example"] } }),
  );
  expect((await fixture.call({ export_id: "fetch" })).grant).toMatchObject({ network: "egress" });
  await setPolicy(fixture, { host: { network: "none" } });
  expect((await fixture.call({ export_id: "fetch" })).grant).toMatchObject({
    network: "none",
    allowed_domains: [],
  });
});

test("requires approval for a risky call from a plugin or an MCP client, but not for a direct API call", async () => {
  const fixture = await createKernelWith(
    toolExport("wild", {}, { effect_class: "unknown" }),
    toolExport("tame"),
  );
  expect(await callOutcome(fixture, "wild")).toBe("succeeded");
  const { invocations } = fixture.kernel;
  const client = await invocations.invoke(user, { export_id: "wild" }, { context: "conversation" });
  expect(client.invocation.status).toBe("waiting_approval");
  const delegation = { invocation_id: "inv_1", scopes: ["tools:invoke"] as const, grant: grantWith() };
  const plugin: Caller = { ...user, delegation };
  expect((await invocations.invoke(plugin, { export_id: "wild" })).invocation.status).toBe(
    "waiting_approval",
  );
  expect(await callOutcome(fixture, "tame", {}, plugin)).toBe("succeeded");
  const [approval] = (await fixture.kernel.approvals.list(admin, {}, { limit: 1 })).items;
  expect(approval).toMatchObject({
    risk: "unknown",
    reason: "its risk is unknown, and background calls tolerate low",
  });
});

test("notifies catalog listeners of a policy change, and applies a project's policy only to that project", async () => {
  const fixture = await createKernelWith(toolExport("read"));
  const notified: (string | null)[] = [];
  fixture.kernel.catalog.onChanged((org_id) => notified.push(org_id));
  await fixture.kernel.policy.put(admin, "project", { allowed_origins: ["core"] });
  expect([notified, await listToolNames(fixture)]).toEqual([["org_local"], []]);
  const other_project = { ...admin, scope: { ...admin.scope, project_id: "proj_other" } };
  const other_policy = await fixture.kernel.policy.put(other_project, "project", {
    allowed_origins: ["mcp"],
  });
  expect(other_policy).toMatchObject({ generation: 1, effective: { allowed_origins: ["mcp"] } });
  expect((await fixture.kernel.policy.get(admin, "project")).effective.allowed_origins).toEqual(["core"]);
  await fixture.kernel.policy.put(admin, "project", {});
  expect(await listToolNames(fixture)).toEqual(["read"]);
  const org = { ...admin, scope: { ...admin.scope, project_id: null } };
  expect((await fixture.kernel.policy.get(org, "org")).effective.allowed_origins).toBeNull();
  await expect(fixture.kernel.policy.get(org, "project")).rejects.toMatchObject({ code: "request.invalid" });
});

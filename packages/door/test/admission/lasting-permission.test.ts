import type { AllowRuleRow } from "@backplane/ports";
import type { ExportPlan } from "@backplane/registry";
import { grantWith } from "@backplane/test-kit/grant-with";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { compilePolicy } from "../../../registry/src/policy/effective-policy.ts";
import { findPermission } from "../../src/admission/lasting-permission.ts";

test("finds no permission in rules of another caller, package or tool, nor for the gateway's own tools", async () => {
  const fixture = await createTestKernel();
  const content = manifest([toolExport("write", {}, { effect_class: "non_idempotent_write" })]);
  const binding = await fixture.bind(content);
  const bound = (await fixture.store.bindings.get(user.scope, binding.binding_id))!;
  const grant = grantWith();
  const plan = {
    bound,
    export: content.exports[0]!,
    effect_class: "non_idempotent_write",
    grant,
  } as ExportPlan;
  const rule = (await fixture.kernel.allow_rules.create(user, { tool: "write" })) as unknown as AllowRuleRow;
  const call = {
    plan,
    policy: compilePolicy({}, {}),
    hits: [],
    input: {},
    root: { actor: user.actor, role: user.role, revoked: null },
  };
  const findAllowedBy = (more: Partial<AllowRuleRow>, part: Partial<typeof call> = {}) =>
    findPermission({ ...call, ...part }, rule.grant, [{ ...rule, ...more }]).allowed_by;
  expect(findAllowedBy({})).toBe(rule.id);
  expect(findAllowedBy({ identity: null })).toBe(rule.id);
  expect(findAllowedBy({ identity: "key_other" })).toBeNull();
  expect(findAllowedBy({ package_id: "evil/devkit" })).toBeNull();
  expect(findAllowedBy({ tool: "read" })).toBeNull();
  expect(findAllowedBy({ max_risk: "medium" })).toBeNull();
  const core = { ...plan, bound: { ...bound, package: { ...bound.package, origin: "core" as const } } };
  expect(findAllowedBy({}, { plan: core })).toBeNull();
});

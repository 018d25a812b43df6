import type { AllowRuleRow, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import {
  NOW,
  sampleAllowRule,
  sampleApproval,
  sampleAudit,
  sampleInvocation,
  samplePackage,
} from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function allowRuleCases(store: () => Store): void {
  const ids = (rules: readonly AllowRuleRow[]) => rules.map(({ id }) => id);

  test("returns the allow rules of a call's package in its project and its org", async () => {
    const { org_id } = freshOrg();
    const { allow_rules } = store();
    const project_rule = sampleAllowRule({ org_id });
    const org_rule = sampleAllowRule({ org_id, project_id: null });
    const others = [
      sampleAllowRule({ org_id, project_id: "proj_b" }),
      sampleAllowRule({ org_id, package_id: "acme/other" }),
      sampleAllowRule({ org_id: freshOrg().org_id }),
    ];
    for (const rule of [project_rule, org_rule, ...others]) await allow_rules.create(rule, {});
    const read = await allow_rules.listForPackage({ org_id, project_id: "proj_default" }, "acme/devkit");
    expect(read).toEqual([project_rule, org_rule]);
    expect(ids(await allow_rules.listForPackage({ org_id, project_id: null }, "acme/devkit"))).toEqual([
      org_rule.id,
    ]);
    const page = await allow_rules.list({ org_id, project_id: "proj_default" }, { limit: 10 });
    expect(ids(page.items)).toEqual([others[1]!.id, org_rule.id, project_rule.id]);
    const all = await allow_rules.list({ org_id, project_id: null }, { limit: 3 });
    expect(ids(all.items)).toEqual([others[1]!.id, others[0]!.id, org_rule.id]);
    const rest = await allow_rules.list({ org_id, project_id: null }, { limit: 3, after: all.next! });
    expect(ids(rest.items)).toEqual([project_rule.id]);
    expect(await allow_rules.get({ org_id, project_id: "proj_default" }, org_rule.id)).toEqual(org_rule);
    expect(await allow_rules.get({ org_id, project_id: "proj_default" }, others[0]!.id)).toBeNull();
  });

  test("writes and removes an allow rule together with its audit entry", async () => {
    const { org_id } = freshOrg();
    const { allow_rules, audit } = store();
    const scope = { org_id, project_id: "proj_default" };
    const auditRecord = (action: string) => ({ audit: { ...sampleAudit(), scope, action } });
    const [project_rule, org_rule] = [
      sampleAllowRule({ org_id }),
      sampleAllowRule({ org_id, project_id: null }),
    ];
    await allow_rules.create(project_rule, auditRecord("created"));
    await allow_rules.create(org_rule, {});
    expect(
      await allow_rules.remove({ org_id, project_id: "proj_b" }, project_rule.id, auditRecord("foreign")),
    ).toBe(false);
    expect(await allow_rules.remove(scope, org_rule.id, auditRecord("wide"))).toBe(false);
    expect(await allow_rules.remove(scope, project_rule.id, auditRecord("removed"))).toBe(true);
    expect(await allow_rules.remove(scope, project_rule.id, auditRecord("again"))).toBe(false);
    expect(await allow_rules.remove({ org_id, project_id: null }, org_rule.id, {})).toBe(true);
    expect(await allow_rules.listForPackage(scope, "acme/devkit")).toEqual([]);
    const actions = (await audit.list(scope, {}, { limit: 10 })).items.map(({ action }) => action);
    expect(actions.toSorted()).toEqual(["created", "removed"]);
  });

  test("creates the allow rule of a decision only if it is the first decision on its approval", async () => {
    const { org_id } = freshOrg();
    const { allow_rules, approvals, invocations } = store();
    const scope = { org_id, project_id: "proj_default" };
    const call = sampleInvocation({ ...scope, status: "waiting_approval", started_at: null });
    const approval = sampleApproval(call);
    await invocations.open(call, { approval, records: {} });
    const resolution = {
      status: "approved" as const,
      response: "approve_always" as const,
      feedback: null,
      answered_by: "admin",
      resolved_at: NOW,
    };
    const first = sampleAllowRule({ org_id, approval_id: approval.id });
    expect(await approvals.resolve(approval.id, resolution, {}, { rule: first, records: {} })).toBe(true);
    const second = sampleAllowRule({ org_id, approval_id: approval.id });
    expect(await approvals.resolve(approval.id, resolution, {}, { rule: second, records: {} })).toBe(false);
    expect(await allow_rules.listForPackage(scope, "acme/devkit")).toEqual([first]);
  });

  test("removes the allow rules of a package with its last version", async () => {
    const { org_id } = freshOrg();
    const { allow_rules, packages } = store();
    const scope = { org_id, project_id: "proj_default" };
    const [first_version, second_version] = ["1.0.0", "2.0.0"].map((version) =>
      samplePackage({ org_id, version }),
    );
    for (const pack of [first_version!, second_version!]) await packages.insert(pack, {});
    const [rule, other_rule] = [
      sampleAllowRule({ org_id, package_id: first_version!.package_id }),
      sampleAllowRule({ org_id, package_id: "acme/other" }),
    ];
    await allow_rules.create(rule, {});
    await allow_rules.create(other_rule, {});
    await packages.remove(org_id, first_version!.id, {});
    expect(await allow_rules.listForPackage(scope, rule.package_id)).toEqual([rule]);
    await packages.remove(org_id, second_version!.id, {});
    expect(await allow_rules.listForPackage(scope, rule.package_id)).toEqual([]);
    expect(await allow_rules.listForPackage(scope, "acme/other")).toEqual([other_rule]);
  });

  test("limits the number of allow rules of an org", async () => {
    const { org_id } = freshOrg();
    const { allow_rules } = store();
    for (let n = 0; n < 1_000; n += 100)
      await Promise.all(
        Array.from({ length: 100 }, () => allow_rules.create(sampleAllowRule({ org_id }), {})),
      );
    const refused = allow_rules.create(sampleAllowRule({ org_id }), {});
    await expect(refused).rejects.toMatchObject({ code: "allow_rule.too_many" });
  });
}

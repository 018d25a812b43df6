import type { PolicyRow, Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { NOW, sampleAudit } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function policyCases(store: () => Store): void {
  const samplePolicy = (
    org_id: string,
    project_id: string | null,
    more: Partial<PolicyRow> = {},
  ): PolicyRow => ({
    scope: { org_id, project_id },
    policy: { tolerance: { conversation: "medium" } },
    generation: 1,
    updated_at: NOW,
    updated_by: "admin",
    ...more,
  });

  test("stores policies of an org and its projects separately, and reads both for a project", async () => {
    const { org_id } = freshOrg();
    const { policies } = store();
    const readPolicies = (project_id: string | null) => policies.get({ org_id, project_id });
    expect(await readPolicies("proj_a")).toEqual({ org: null, project: null });
    const org_policy = samplePolicy(org_id, null);
    const project_policy = samplePolicy(org_id, "proj_a", {
      policy: { allowed_origins: ["core"], rules: [] },
    });
    expect(await policies.put(org_policy, {})).toBe(true);
    expect(await policies.put(project_policy, {})).toBe(true);
    expect(await readPolicies("proj_a")).toEqual({ org: org_policy, project: project_policy });
    expect(await readPolicies("proj_b")).toEqual({ org: org_policy, project: null });
    expect(await readPolicies(null)).toEqual({ org: org_policy, project: null });
    const other_org = freshOrg().org_id;
    expect(await policies.get({ org_id: other_org, project_id: null })).toEqual({ org: null, project: null });
  });

  test("writes a policy with its audit entry, and only if the generation is the next one", async () => {
    const { org_id } = freshOrg();
    const { policies, audit } = store();
    const scope = { org_id, project_id: null };
    const auditRecord = (action: string) => ({ audit: { ...sampleAudit(), scope, action } });
    const readActions = async () =>
      (await audit.list(scope, {}, { limit: 10 })).items.map(({ action }) => action).toSorted();
    expect(await policies.put(samplePolicy(org_id, null), auditRecord("policy.set"))).toBe(true);
    expect(await policies.put(samplePolicy(org_id, null), auditRecord("policy.again"))).toBe(false);
    const third = samplePolicy(org_id, null, { generation: 3 });
    expect(await policies.put(third, auditRecord("policy.skipped"))).toBe(false);
    const second = samplePolicy(org_id, null, { generation: 2, policy: {}, updated_by: "key_1" });
    expect(await policies.put(second, auditRecord("policy.change"))).toBe(true);
    expect((await policies.get(scope)).org).toEqual(second);
    expect(await readActions()).toEqual(["policy.change", "policy.set"]);
  });
}

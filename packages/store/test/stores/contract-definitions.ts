import type { Definitions } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { sampleAudit, sampleBinding, samplePackage } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

export function definitionCases(store: () => Store): void {
  test("writes definitions one revision after the other, and removes them with their binding", async () => {
    const scope = freshOrg();
    const { org_id } = scope;
    await store().packages.insert(samplePackage({ org_id }), {});
    const binding = sampleBinding({ scope });
    const id = binding.binding_id;
    expect(await store().definitions.put(org_id, sampleDefinitions(id, 1), {})).toBe(false);
    await store().bindings.create(binding, {});
    expect(await store().definitions.get(org_id, id)).toBeNull();
    expect(await store().definitions.put(org_id, sampleDefinitions(id, 1), {})).toBe(true);
    expect(await store().definitions.put(org_id, sampleDefinitions(id, 1), {})).toBe(false);
    expect(await store().definitions.put(org_id, sampleDefinitions(id, 3), {})).toBe(false);
    const audit = sampleAudit({ scope, action: "definitions.accept" });
    expect(await store().definitions.put(org_id, sampleDefinitions(id, 2), { audit })).toBe(true);
    expect(await store().definitions.get(org_id, id)).toEqual(sampleDefinitions(id, 2));
    expect(await store().definitions.get("org_other", id)).toBeNull();
    const audited = await store().audit.list(scope, { action: "definitions.accept" }, { limit: 10 });
    expect(audited.items).toHaveLength(1);
    await store().bindings.remove(scope, id, {});
    expect(await store().definitions.get(org_id, id)).toBeNull();
  });

  test("returns a binding of a whole package as a candidate for every export", async () => {
    const scope = freshOrg();
    await store().packages.insert(samplePackage({ org_id: scope.org_id }), {});
    const package_binding = sampleBinding({ scope, export_id: "*" });
    await store().bindings.create(package_binding, {});
    const candidates = await store().bindings.findCandidates(scope, "anything");
    expect(candidates.map(({ binding }) => binding.binding_id)).toEqual([package_binding.binding_id]);
  });
}

function sampleDefinitions(binding_id: string, revision: number): Definitions {
  return {
    binding_id,
    package_digest: `sha256:${"ab".repeat(32)}`,
    generation: 1,
    exports: [],
    schemas: {},
    quarantined: [],
    gone: [],
    seen: {},
    error: null,
    warnings: [],
    info: { revision },
    described_at: "2026-01-01T00:00:00.000Z",
    digest: "sha256:none",
    revision,
  };
}

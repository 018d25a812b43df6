import type { TrustedKey } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { sampleAudit, samplePackage } from "./samples.ts";
import { freshOrg } from "./subject.ts";

let sample_count = 0;

function sampleTrustedKey(change: Partial<TrustedKey>): TrustedKey {
  const number = String(sample_count++).padStart(4, "0");
  return {
    id: `tkey_${number}`,
    org_id: "org_a",
    key_id: `ed25519:${number.padStart(32, "0")}`,
    name: "Acme",
    public_key: "PEM",
    packages: ["*"],
    not_before: null,
    not_after: null,
    created_at: "2026-01-01T00:00:00.000Z",
    created_by: "admin",
    revoked_at: null,
    revoked_reason: null,
    ...change,
  };
}

export function trustedKeyCases(store: () => Store): void {
  test("stores trusted keys by org and refuses the same key twice", async () => {
    const { org_id } = freshOrg();
    const { trusted_keys } = store();
    const first = sampleTrustedKey({ org_id });
    const second = sampleTrustedKey({ org_id });
    await trusted_keys.create(first, {});
    await trusted_keys.create(second, {});
    const again = { ...first, id: sampleTrustedKey({}).id };
    await expect(trusted_keys.create(again, {})).rejects.toMatchObject({ code: "trusted_key.conflict" });
    expect(await trusted_keys.findByKeyId(org_id, first.key_id)).toEqual(first);
    expect(await trusted_keys.findByKeyId(freshOrg().org_id, first.key_id)).toBeNull();
    const page = await trusted_keys.list(org_id, { limit: 1 });
    expect(page.items).toEqual([second]);
    expect((await trusted_keys.list(org_id, { limit: 1, after: page.next! })).items).toEqual([first]);
  });

  test("revokes a trusted key once, together with its audit entry", async () => {
    const { org_id } = freshOrg();
    const { trusted_keys, audit } = store();
    const key = sampleTrustedKey({ org_id });
    await trusted_keys.create(key, {});
    const revoked = { ...key, revoked_at: "2026-02-01T00:00:00.000Z" };
    const scope = { org_id, project_id: null };
    const records = { audit: { ...sampleAudit(), scope, action: "revoked" } };
    expect(await trusted_keys.revoke(revoked, records)).toBe(true);
    expect(await trusted_keys.revoke(revoked, records)).toBe(false);
    expect(await trusted_keys.get(org_id, key.id)).toEqual(revoked);
    expect((await audit.list(scope, {}, { limit: 10 })).items).toHaveLength(1);
  });

  test("keeps the highest signed version that another installation has stored meanwhile", async () => {
    const { org_id } = freshOrg();
    const { installations, trusted_keys } = store();
    const install = async (version: string, before: string | null) => {
      const row = samplePackage({ org_id, version });
      const packages = [{ row, records: {}, highest: { version, before } }];
      await installations.commit({ packages, moved: [], created: [] });
      return await trusted_keys.highestSigned(org_id, row.package_id);
    };
    expect(await trusted_keys.highestSigned(org_id, samplePackage({}).package_id)).toBeNull();
    expect(await install("1.0.0", null)).toBe("1.0.0");
    expect(await install("1.2.0", "1.0.0")).toBe("1.2.0");
    expect(await install("1.1.0", "1.0.0")).toBe("1.2.0");
  });
}

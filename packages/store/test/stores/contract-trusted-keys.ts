import type { TrustedKey } from "@backplane/contract";
import type { Store } from "@backplane/ports";
import { expect, test } from "vitest";
import { sampleAudit, samplePackage } from "../support/samples.ts";
import { freshOrg } from "../support/subject.ts";

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

  test("replaces a trusted key only if it is unchanged since it was read, together with its audit entry", async () => {
    const { org_id } = freshOrg();
    const { trusted_keys, audit } = store();
    const key = sampleTrustedKey({ org_id });
    await trusted_keys.create(key, {});
    const scope = { org_id, project_id: null };
    const records = () => ({ audit: { ...sampleAudit(), scope, action: "replaced" } });
    const renewed = { ...key, packages: ["acme/*"], not_after: "2030-01-01T00:00:00.000Z" };
    const revoked = { ...key, revoked_at: "2026-02-01T00:00:00.000Z" };
    expect(await trusted_keys.replace(key, renewed, records())).toBe(true);
    // The row has changed since `key` was read.
    expect(await trusted_keys.replace(key, revoked, records())).toBe(false);
    expect(await trusted_keys.findByKeyId(org_id, key.key_id)).toEqual(renewed);
    const stored = (await trusted_keys.get(org_id, key.id))!;
    expect(await trusted_keys.replace(stored, { ...stored, revoked_at: revoked.revoked_at }, records())).toBe(
      true,
    );
    expect((await trusted_keys.get(org_id, key.id))!.revoked_at).toBe(revoked.revoked_at);
    expect((await audit.list(scope, {}, { limit: 10 })).items).toHaveLength(2);
  });

  test("stores the same key once when it is created concurrently", async () => {
    const { org_id } = freshOrg();
    const { trusted_keys } = store();
    const key = sampleTrustedKey({ org_id });
    const copies = [1, 2, 3, 4].map(() => ({ ...key, id: sampleTrustedKey({}).id }));
    const results = await Promise.allSettled(copies.map((copy) => trusted_keys.create(copy, {})));
    expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    for (const result of results)
      if (result.status === "rejected") expect(result.reason).toMatchObject({ code: "trusted_key.conflict" });
    expect((await trusted_keys.list(org_id, { limit: 10 })).items).toHaveLength(1);
  });

  const install = async (org_id: string, version: string) => {
    const packages = [{ row: samplePackage({ org_id, version }), records: {}, highest: { version } }];
    await store().installations.commit({ packages, moved: [], created: [] });
  };
  const readHighestSigned = (org_id: string) =>
    store().trusted_keys.findHighestSigned(org_id, samplePackage({}).package_id);

  test("keeps the highest signed version in whichever order installations commit", async () => {
    const { org_id } = freshOrg();
    expect(await readHighestSigned(org_id)).toBeNull();
    for (const [version, highest] of [
      ["2.0.0", "2.0.0"],
      ["10.0.0", "10.0.0"],
      ["3.0.0", "10.0.0"],
      ["10.0.1-beta.2", "10.0.1-beta.2"],
      ["10.0.1-beta.10", "10.0.1-beta.10"],
      ["10.0.1", "10.0.1"],
    ] as const) {
      await install(org_id, version);
      expect(await readHighestSigned(org_id)).toBe(highest);
    }
  });

  test("stores the highest of the signed versions that are installed concurrently", async () => {
    const { org_id } = freshOrg();
    const versions = ["4.0.0", "9.0.0", "2.0.0", "12.0.0", "7.0.0", "11.0.0", "3.0.0", "10.0.0"];
    await Promise.all(versions.map((version) => install(org_id, version)));
    expect(await readHighestSigned(org_id)).toBe("12.0.0");
  });
}

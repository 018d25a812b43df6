/** Migrates databases from before configuration was stored in the database. */
import type { Store } from "@backplane/ports";
import { expect } from "vitest";
import { LOCAL, NOW, sampleAudit, sampleBinding, samplePackage } from "../support/samples.ts";
import { type Statement, upgradeCases } from "./upgrade-cases.ts";

const binding = sampleBinding();

async function fill(store: Store) {
  const content = samplePackage();
  await store.packages.insert(content, { audit: sampleAudit() });
  return { content };
}

/** A secret of the earlier schema has no project, so it belongs to the org. */
const oldStatements = (): Statement[] => [
  [
    `insert into secrets (org_id, name, ciphertext, last4, version, created_at, updated_at)
      values ('org_local', 's', 'c', 'wxyz', 1, $1, $1)`,
    [NOW],
  ],
  [
    `insert into bindings (binding_id, org_id, project_id, package_id, package_version, export_id, kind, status, generation, body)
      values ($1, 'org_local', $2, $3, $4, $5, $6, $7, 1, $8)`,
    [
      binding.binding_id,
      binding.scope.project_id ?? "",
      binding.package_id,
      binding.package_version,
      binding.export_id,
      binding.kind,
      binding.status,
      JSON.stringify(binding),
    ],
  ],
];

async function check(store: Store, { content }: Awaited<ReturnType<typeof fill>>) {
  expect(await store.bindings.get(LOCAL, binding.binding_id)).toEqual({ binding, package: content });
  expect(await store.secrets.get("org_local", "s")).toMatchObject({ last4: "wxyz", project_id: null });
  expect(await store.audit.verify()).toBeNull();
  expect(await store.config.list("org_local", "")).toEqual([]);
  const row = { key: "provider", value: '"prod"', sealed: false };
  await store.config.write("org_local", { set: [row], unset: [] }, NOW, { audit: sampleAudit() });
  expect(await store.config.get("org_local", "provider")).toEqual(row);
}

upgradeCases({ before: 3, fill, oldStatements, check });

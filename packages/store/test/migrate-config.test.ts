/** Databases of the schema before the live configuration, with data in them, are brought up to it. */
import type { Store } from "@backplane/kernel/ports";
import { expect } from "vitest";
import { LOCAL, NOW, sampleAudit, sampleBinding, samplePackage } from "./samples.ts";
import { upgradeCases } from "./upgrade-cases.ts";

async function fill(store: Store) {
  const content = samplePackage();
  const binding = sampleBinding();
  await store.packages.insert(content, { audit: sampleAudit() });
  await store.bindings.create(binding, {});
  await store.secrets.put({ org_id: "org_local", name: "s", ciphertext: "c", last4: "wxyz" }, NOW, {});
  return { content, binding };
}

async function check(store: Store, { content, binding }: Awaited<ReturnType<typeof fill>>) {
  expect(await store.bindings.get(LOCAL, binding.binding_id)).toEqual({ binding, package: content });
  expect((await store.secrets.get("org_local", "s"))?.last4).toBe("wxyz");
  expect(await store.audit.verify()).toBeNull();
  expect(await store.config.list("org_local", "")).toEqual([]);
  const row = { key: "provider", value: '"prod"', sealed: false };
  await store.config.write("org_local", { set: [row], unset: [] }, NOW, { audit: sampleAudit() });
  expect(await store.config.get("org_local", "provider")).toEqual(row);
}

upgradeCases({ before: 3, fill, check });

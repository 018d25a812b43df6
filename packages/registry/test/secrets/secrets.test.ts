import type { Caller } from "@backplane/ports";
import { manifest, toolExport } from "@backplane/test-kit/kernel/manifests";
import { admin, createTestKernel, guest, orgUser, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";

test("returns only name, last four characters and bindings of a secret", async () => {
  const fixture = await createTestKernel();
  const { secrets } = fixture.kernel;
  await secrets.put(user, "jira_token", "a-very-secret-value");
  const short = await secrets.put(user, "pin", "12345678");
  expect(short.last4).toBe("****");
  const content = manifest([toolExport("t", { permissions: { secret_slots: ["jira_token"] } })]);
  const ref = "secret://org_local/jira_token";
  const binding = await fixture.bind(content, { secrets: { jira_token: ref } });
  expect(await secrets.get(user, "jira_token")).toMatchObject({
    ref,
    last4: "alue",
    used_by: [binding.binding_id],
  });
  const rotated = await secrets.put(user, "jira_token", "another-secret-value");
  expect(rotated.version).toBe(2);
  const audit = await fixture.kernel.audit.list(admin, {}, { limit: 50 });
  const sealed = await fixture.store.secrets.getSealed("org_local", "jira_token");
  const records = JSON.stringify([await secrets.list(user, { limit: 10 }), audit, sealed]);
  expect(records).not.toContain("secret-value");
  await expect(secrets.remove(admin, "jira_token")).rejects.toMatchObject({ code: "secret.in_use" });
  await secrets.remove(admin, "pin");
  await expect(secrets.get(user, "pin")).rejects.toMatchObject({ code: "secret.not_found" });
  await expect(secrets.remove(admin, "pin")).rejects.toMatchObject({ code: "secret.not_found" });
  await expect(secrets.put(guest, "x", "y")).rejects.toMatchObject({ code: "policy.denied" });
});

test("hides the bindings that use a secret from other projects, and audits changes to the secret", async () => {
  const fixture = await createTestKernel();
  const { secrets, audit } = fixture.kernel;
  await secrets.put(orgUser, "jira_token", "a-very-secret-value");
  const content = manifest([toolExport("t", { permissions: { secret_slots: ["jira_token"] } })]);
  const { binding_id } = await fixture.bind(content, {
    secrets: { jira_token: "secret://org_local/jira_token" },
  });
  const outsider: Caller = { ...user, scope: { ...user.scope, project_id: "proj_other" } };
  expect((await secrets.get(outsider, "jira_token")).used_by).toEqual([]);
  expect((await secrets.list(outsider, { limit: 10 })).items[0]?.used_by).toEqual([]);
  const refused = await secrets.remove(outsider, "jira_token").catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: "policy.denied" });
  expect(JSON.stringify(refused)).not.toContain(binding_id);
  expect((await secrets.list(user, { limit: 10 })).items[0]?.used_by).toEqual([binding_id]);
  expect((await audit.list(orgUser, { action: "secret.put" }, { limit: 10 })).items).toHaveLength(1);
});

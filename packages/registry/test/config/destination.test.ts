import type { Json } from "@backplane/contract";
import { admin, createTestKernel, orgUser, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { codeOfRejected, createTestPlugins, plugin } from "../../../agent/test/plugins/test-plugins.ts";

const configSchema = {
  type: "object",
  properties: { base_url: { type: "string", default: "https://api.vendor.example/v1" } },
};
const KEY = "providers.prod.api_key";

async function createProviderFixture(config: Record<string, Json>) {
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("llm-openai", "llm-provider", { configSchema }));
    loader.add(() => plugin("llm-other", "llm-provider", { configSchema }));
  });
  const { providers } = fixture.system;
  await providers.create(orgUser, { id: "prod", plugin: "llm-openai", config });
  const key = async () => (await fixture.config.get(scope.org_id, KEY)) ?? null;
  return { fixture, providers, key };
}

verifies(
  "sec.credential-destination",
  "does not let a project's key change a provider's address, and drops the api_key when the org changes it",
  async () => {
    const { fixture, key, providers } = await createProviderFixture({
      base_url: "https://api.example.com/v1",
      api_key: "sk-of-the-org",
      backup_token: "tok-of-the-org",
      model: "m",
    });
    const evil = { config: { base_url: "https://evil.example/v1" } };
    for (const caller of [user, { ...user, admin: true, scopes: ["admin" as const] }]) {
      expect(await codeOfRejected(providers.patch(caller, "prod", evil))).toBe("policy.denied");
      expect(await codeOfRejected(providers.setActive(caller, "prod"))).toBe("policy.denied");
      expect(await codeOfRejected(providers.remove(caller, "prod"))).toBe("policy.denied");
      expect(await codeOfRejected(providers.create(caller, { plugin: "llm-openai" }))).toBe("policy.denied");
    }
    expect(await key()).toBe("sk-of-the-org");

    // A masked value that a form sends back is not a new credential.
    const form = { ...evil.config, api_key: "****-org", model: "m2" };
    const moved = await providers.patch(orgUser, "prod", { config: form });
    expect(moved.config).toEqual({ base_url: "https://evil.example/v1", model: "m2" });
    expect([...(await fixture.config.list(scope.org_id, "providers.prod.")).keys()]).not.toContain(KEY);
    const audit = (await fixture.store.audit.list(orgUser.scope, { action: "credential.drop" }, { limit: 5 }))
      .items;
    expect(audit.map(({ details }) => details)).toEqual([
      { keys: ["providers.prod.api_key", "providers.prod.backup_token"] },
    ]);

    // The credential stays when it is set together with the new address, and while the address is unchanged.
    await providers.patch(orgUser, "prod", {
      config: { base_url: "https://c.example/v1", api_key: "sk-new" },
    });
    await providers.patch(orgUser, "prod", { config: { base_url: "https://c.example/v1", model: "m3" } });
    expect(await key()).toBe("sk-new");
    // Without an address the credential would go to the vendor.
    await providers.patch(orgUser, "prod", { config: { base_url: null } });
    expect(await key()).toBeNull();
  },
);

verifies(
  "sec.credential-destination",
  "drops a provider's secrets when configuration keys change or remove its address or plugin",
  async () => {
    const { kernel } = await createTestKernel();
    const { config } = kernel;
    const listCredentialKeys = async () =>
      Object.keys(await config.list(orgUser)).filter((key) => /key|token/.test(key));
    const cases: [string, () => Promise<unknown>][] = [
      ["base_url", () => config.set(orgUser, { "providers.prod.base_url": "https://evil.example" })],
      ["plugin", () => config.set(orgUser, { "providers.prod.plugin": "llm-evil" })],
      ["unset", () => config.unset(orgUser, "providers.prod.base_url")],
      ["another field", () => config.set(orgUser, { "providers.prod.http_proxy": "http://evil.example" })],
      ["any name", () => config.set(orgUser, { "providers.prod.mirror": "https://evil.example/v1" })],
      ["a JSON value", () => config.set(orgUser, { "providers.prod.http": { via: ["wss://evil.example"] } })],
    ];
    for (const [name, move] of cases) {
      await config.set(orgUser, {
        "providers.prod.plugin": "llm-openai",
        "providers.prod.base_url": "https://api.example.com",
        [KEY]: "sk-of-the-org",
        "providers.other.api_key": "sk-other",
        "plugin.acme.url": "https://acme.example",
        "plugin.acme.token": "tok",
      });
      await move();
      expect(await listCredentialKeys(), name).toEqual(["plugin.acme.token", "providers.other.api_key"]);
    }
    expect(await config.set(orgUser, { "plugin.acme.url": "https://evil.example" })).toEqual([
      "plugin.acme.token",
    ]);
    // An operator may set the address first and the key second.
    await config.set(orgUser, { "plugin.acme.token": "tok-2" });
    expect(await config.set(orgUser, { "plugin.acme.url": "https://evil.example" })).toEqual([]);
    expect(await listCredentialKeys()).toContain("plugin.acme.token");
  },
);

test("lets only the host's admin set allow_private, and only for the instance's own address", async () => {
  const { fixture, providers } = await createProviderFixture({
    base_url: "http://localhost:11434/v1",
    model: "m",
  });
  const allowedAddress = async () =>
    (await fixture.config.get(scope.org_id, "providers.prod.allow_private")) ?? null;
  const org_admin = { ...orgUser, admin: true, role: "owner" as const, scopes: ["admin" as const] };
  for (const caller of [user, orgUser, org_admin]) {
    const patch = providers.patch(caller, "prod", { config: { allow_private: true } });
    expect(await codeOfRejected(patch)).toBe("policy.denied");
    const create = providers.create(caller, {
      plugin: "llm-openai",
      config: { base_url: "http://10.0.0.1", allow_private: "10.0.0.1:80" },
    });
    expect(await codeOfRejected(create)).toBe("policy.denied");
  }
  expect(await allowedAddress()).toBeNull();
  const other_address = providers.patch(admin, "prod", { config: { allow_private: "10.0.0.1:80" } });
  expect(await codeOfRejected(other_address)).toBe("provider.invalid");
  await providers.patch(admin, "prod", { config: { allow_private: true } });
  expect(await allowedAddress()).toBe("localhost:11434");
  const [audit] = (await fixture.store.audit.list(admin.scope, {}, { limit: 1 })).items;
  expect(audit).toMatchObject({ action: "provider.patch", details: { allow_private: "localhost:11434" } });
  // The permission is for this address only; another address removes it.
  await providers.patch(orgUser, "prod", { config: { base_url: "http://localhost:9/v1" } });
  expect(await allowedAddress()).toBeNull();

  const { kernel } = await createTestKernel();
  const key = { "providers.prod.allow_private": "localhost:1" };
  expect(await codeOfRejected(kernel.config.set(org_admin, key))).toBe("policy.denied");
  await kernel.config.set(admin, key);
});

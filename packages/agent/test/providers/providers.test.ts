import type { JsonObject } from "@backplane/contract";
import { admin, guest, scope, orgUser as user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { codeOfRejected, createTestPlugins, plugin, type TestPlugins } from "../plugins/test-plugins.ts";

const configSchema = { type: "object" };

const createSystem = () =>
  createTestPlugins((loader) => {
    loader.add(() => plugin("llm-openai", "llm-provider", { configSchema }));
    loader.add(() => plugin("llm-echo", "llm-provider"));
    loader.add(() => plugin("llm-broken", "llm-provider", { onLoad: () => Promise.reject(new Error("no")) }));
    loader.add(() => plugin("a-skill", "skill"));
  });

const listIds = async ({ system }: TestPlugins) =>
  (await system.providers.list(user, { show: false })).map(({ id, active }) => (active ? `${id}*` : id));

verifies(
  "llm.instances",
  "manages several instances of one plugin, checks their ids and announces each changed field",
  async () => {
    const fixture = await createSystem();
    const { providers } = fixture.system;
    expect(await listIds(fixture)).toEqual(["llm-echo*", "llm-openai"]);

    const config = { base_url: "https://api.example.com", api_key: "sk-secret-1234", params: { seed: 1 } };
    expect(
      await providers.create(user, { id: "prod", plugin: "llm-openai", label: "OpenAI prod", config }),
    ).toEqual({
      id: "prod",
      plugin: "llm-openai",
      label: "OpenAI prod",
      active: false,
      config: { ...config, api_key: "****1234" },
      config_schema: configSchema,
    });
    const auto = await providers.create(user, { plugin: "llm-openai" });
    expect(auto.id).toMatch(/^llm-openai-[0-9a-f]{8}$/);
    expect(auto).toMatchObject({ label: auto.id, config: {} });

    for (const id of ["ab", "-abc", "abc-", "a.b", "Abc", "active", "x".repeat(65), "a_b", ""]) {
      expect(await codeOfRejected(providers.create(user, { id, plugin: "llm-openai" })), id).toBe(
        "provider.invalid",
      );
    }
    await providers.create(user, { id: "x".repeat(64), plugin: "llm-echo" });

    // The patch merges fields, removes one with null, and sends back a masked secret.
    const received: string[] = [];
    fixture.config.onUpdated(({ key }) => received.push(key));
    const patch = {
      base_url: "https://other.example.com",
      api_key: "****1234",
      params: null,
      model: "m2",
    } as JsonObject;
    const patched = await providers.patch(user, "prod", { config: patch });
    expect(patched).toMatchObject({ label: "OpenAI prod" });
    // The key was meant for the old address, so it is removed.
    expect(patched.config).toEqual({ base_url: "https://other.example.com", model: "m2" });
    expect(received.toSorted()).toEqual([
      "providers.prod.api_key",
      "providers.prod.base_url",
      "providers.prod.model",
      "providers.prod.params",
    ]);
    expect(await fixture.config.get(scope.org_id, "providers.prod.params")).toBeUndefined();
    await providers.patch(user, "prod", { label: "Renamed", config: { api_key: "sk-fresh-5678" } });
    expect(await fixture.config.get(scope.org_id, "providers.prod.api_key")).toBe("sk-fresh-5678");
    const unchanged = { base_url: "https://other.example.com", api_key: "****5678" };
    await providers.patch(user, "prod", { config: unchanged });
    expect(await fixture.config.get(scope.org_id, "providers.prod.api_key")).toBe("sk-fresh-5678");
    received.length = 0;
    await providers.patch(user, "prod", {});
    expect(received).toEqual([]);

    await providers.setActive(user, "prod");
    expect((await listIds(fixture)).filter((id) => id.endsWith("*"))).toEqual(["prod*"]);
    expect(await fixture.config.get(scope.org_id, "provider")).toBe("prod");
    expect(await codeOfRejected(providers.remove(user, "prod"))).toBe("provider.conflict");
    await providers.setActive(user, "llm-echo");
    await providers.remove(user, "prod");
    expect(await fixture.config.list(scope.org_id, "providers.prod.")).toEqual(new Map());
    await providers.remove(user, auto.id);
    await expect(providers.remove(user, "llm-openai")).rejects.toMatchObject({
      code: "provider.conflict",
      message: "llm-openai is the last instance of llm-openai.",
    });
  },
);

test("removes the last instance of a plugin that is no longer loaded", async () => {
  const fixture = await createSystem();
  const { providers } = fixture.system;
  await fixture.set({ "providers.gone.plugin": "llm-gone", "providers.idle.plugin": "llm-broken" });
  expect(await listIds(fixture)).toEqual(["gone", "idle", "llm-echo*", "llm-openai"]);
  // One plugin was removed and the other failed to load.
  await providers.remove(user, "gone");
  await providers.remove(user, "idle");
  expect(await listIds(fixture)).toEqual(["llm-echo*", "llm-openai"]);
  await expect(providers.remove(user, "llm-openai")).rejects.toMatchObject({ code: "provider.conflict" });
  await expect(providers.remove(user, "llm-echo")).rejects.toMatchObject({
    code: "provider.conflict",
    fix: expect.stringContaining("backplane provider use"),
  });
});

test("rejects unknown plugins and instances, other categories and invalid fields", async () => {
  const fixture = await createSystem();
  const { providers } = fixture.system;
  const create = (body: { id?: string; plugin: string; config?: JsonObject }) =>
    codeOfRejected(providers.create(user, body));
  expect(await create({ plugin: "absent" })).toBe("plugin.not_found");
  expect(await create({ plugin: "a-skill" })).toBe("provider.invalid");
  expect(await create({ plugin: "llm-broken" })).toBe("provider.invalid");
  expect(await create({ id: "llm-echo", plugin: "llm-echo" })).toBe("provider.conflict");
  for (const field of ["plugin", "label", "not a key", "__proto__.x", ""]) {
    expect(await create({ id: "odd", plugin: "llm-echo", config: { [field]: 1 } }), field).toBe(
      "provider.invalid",
    );
  }
  expect(await codeOfRejected(providers.patch(user, "absent", {}))).toBe("provider.not_found");
  expect(await codeOfRejected(providers.patch(user, "llm-echo", { config: { plugin: "a" } }))).toBe(
    "provider.invalid",
  );
  expect(await codeOfRejected(providers.remove(user, "absent"))).toBe("provider.not_found");
  expect(await codeOfRejected(providers.setActive(user, "absent"))).toBe("provider.not_found");
  await fixture.set({ "providers.idle.plugin": "llm-broken" });
  expect(await codeOfRejected(providers.setActive(user, "idle"))).toBe("provider.invalid");
  expect(await codeOfRejected(providers.test(user, "absent"))).toBe("provider.not_found");
  expect(await providers.test(user, "llm-echo")).toEqual({ ok: true, latency_ms: 1, error: "llm-echo" });
  for (const work of [
    providers.create(guest, { plugin: "llm-echo" }),
    providers.patch(guest, "llm-echo", {}),
    providers.remove(guest, "llm-echo"),
    providers.setActive(guest, "llm-echo"),
    providers.test(guest, "llm-echo"),
  ]) {
    expect(await codeOfRejected(work)).toBe("policy.denied");
  }
});

test("shows secrets only to an admin on request and audits it", async () => {
  const fixture = await createSystem();
  const { providers } = fixture.system;
  await providers.create(user, { id: "prod", plugin: "llm-openai", config: { api_key: "sk-secret-1234" } });
  const apiKeyOf = (rows: { id: string; config: JsonObject }[]) =>
    rows.find(({ id }) => id === "prod")?.config.api_key;
  expect(apiKeyOf(await providers.list(admin, { show: false }))).toBe("****1234");
  expect(await codeOfRejected(providers.list(user, { show: true }))).toBe("auth.scope");
  expect(apiKeyOf(await providers.list(admin, { show: true }))).toBe("sk-secret-1234");
  const audit = (await fixture.store.audit.list(user.scope, {}, { limit: 10 })).items;
  expect(audit.map(({ actor, action }) => `${actor} ${action}`)).toEqual([
    "admin provider.show",
    "key_user provider.create",
  ]);
  expect(JSON.stringify(audit)).not.toContain("sk-secret");
});

test("accepts only one of ten concurrent creates, and one of two concurrent removals of the last instances", async () => {
  const fixture = await createSystem();
  const { providers } = fixture.system;
  const attempts = Array.from({ length: 10 }, (_, n) =>
    codeOfRejected(providers.create(user, { id: "same", plugin: "llm-openai", config: { n } })),
  );
  const codes = await Promise.all(attempts);
  expect(codes.filter((code) => code === "nothing was thrown")).toHaveLength(1);
  expect(codes.filter((code) => code === "provider.conflict")).toHaveLength(9);
  const both = [providers.remove(user, "same"), providers.remove(user, "llm-openai")].map(codeOfRejected);
  expect(await Promise.all(both)).toEqual(["nothing was thrown", "provider.conflict"]);
});

test("creates separate instances for another org on first access", async () => {
  const fixture = await createSystem();
  const acme = { ...user, scope: { org_id: "org_acme", project_id: null } };
  const rows = await fixture.system.providers.list(acme, { show: false });
  expect(rows.map(({ id }) => id)).toEqual(["llm-echo", "llm-openai"]);
  await fixture.system.providers.create(acme, { id: "theirs", plugin: "llm-echo" });
  expect(await listIds(fixture)).toEqual(["llm-echo*", "llm-openai"]);
});

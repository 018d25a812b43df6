import { readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import {
  type BusEvent,
  CONFIG_LIMITS,
  type ConfigUpdated,
  type Json,
  type KernelPlugin,
} from "@backplane/contract";
import { createKernel } from "@backplane/kernel";
import { type Caller, Changes } from "@backplane/ports";
import { createSecretVault } from "@backplane/store";
import {
  admin,
  createTestKernel,
  guest,
  type TestKernel,
  until,
  orgUser as user,
} from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createLiveConfig } from "../../src/config/live-config.ts";

const ORG = "org_local";

function recordUpdates({ kernel }: TestKernel): ConfigUpdated[] {
  const updates: ConfigUpdated[] = [];
  kernel.config.onUpdated((updated) => updates.push(updated));
  return updates;
}

const listConfigAudit = async ({ kernel }: TestKernel) =>
  (await kernel.audit.list({ ...admin, scope: user.scope }, {}, { limit: 100 })).items
    .filter((entry) => entry.action.startsWith("config."))
    .map(({ actor, action, subject, details }) => ({ actor, action, subject, details }))
    .toReversed();

verifies(
  "config.store",
  "makes a write visible to the next read, notifies once per key, and writes many keys atomically",
  async () => {
    const bus_events: BusEvent[] = [];
    const spy: KernelPlugin = {
      name: "spy",
      version: "1.0.0",
      category: "adapter",
      subscriptions: () => ["config.updated"],
      onEvent: (event) => void bus_events.push(event),
    };
    const fixture = await createTestKernel({ plugins: [spy] });
    const { config } = fixture.kernel;
    const published: ConfigUpdated[] = [];
    config.onUpdated((updated) => published.push(updated));
    for (const pattern of Object.keys(await config.list(user))) await config.unset(user, pattern);
    await until(() => bus_events.length === published.length);
    bus_events.length = 0;
    published.length = 0;
    const updates = recordUpdates(fixture);
    await config.set(user, { provider: "prod" });
    expect(updates).toEqual([{ key: "provider", prefix_match_hint: "" }]);
    expect(await config.get(user, "provider")).toEqual({ key: "provider", value: "prod" });

    const values: Record<string, Json> = {
      "plugin.llm_openai.base_url": "https://api.example.com",
      "plugin.llm_openai.retries": 3,
      "providers.prod.params": { stop: ["\n"], seed: null },
      provider: "other",
    };
    await config.set(user, values);
    expect(await config.list(user)).toEqual(values);
    expect(updates.slice(1).toSorted((a, b) => (a.key < b.key ? -1 : 1))).toEqual([
      { key: "plugin.llm_openai.base_url", prefix_match_hint: "plugin.llm_openai." },
      { key: "plugin.llm_openai.retries", prefix_match_hint: "plugin.llm_openai." },
      { key: "provider", prefix_match_hint: "" },
      { key: "providers.prod.params", prefix_match_hint: "providers.prod." },
    ]);

    updates.length = 0;
    const refused: Record<string, Json>[] = [
      { provider: "third", "not a key": 1 },
      { provider: "third", big: "x".repeat(CONFIG_LIMITS.value_bytes) },
      Object.fromEntries(Array.from({ length: CONFIG_LIMITS.keys_per_write + 1 }, (_, n) => [`k${n}`, n])),
    ];
    for (const change of refused) await expect(config.set(user, change)).rejects.toThrow();
    // The store refuses halfway: the org is full after the second key.
    const full = "x".repeat(CONFIG_LIMITS.value_bytes - 2);
    const fitting_values = Math.floor(CONFIG_LIMITS.bytes_per_org / CONFIG_LIMITS.value_bytes) - 1;
    for (let n = 0; n < fitting_values; n += 50) {
      const part = Array.from({ length: Math.min(50, fitting_values - n) }, (_, i) => [
        `fill.k${n + i}`,
        full,
      ]);
      await config.set(user, Object.fromEntries(part));
    }
    updates.length = 0;
    const stored = await config.list(user);
    await expect(config.set(user, { provider: "third", "x.a": full, "x.b": full })).rejects.toMatchObject({
      code: "config.limit",
    });
    expect(await config.list(user)).toEqual(stored);
    expect(updates).toEqual([]);

    expect(await config.unset(user, "fill.*")).toHaveLength(fitting_values);
    expect(updates).toHaveLength(fitting_values);
    expect(updates[0]).toMatchObject({ prefix_match_hint: "fill." });
    updates.length = 0;
    expect(await config.unset(user, "provider")).toEqual(["provider"]);
    expect(await config.unset(user, "provider")).toEqual([]);
    expect(updates).toEqual([{ key: "provider", prefix_match_hint: "" }]);
    await expect(config.get(user, "provider")).rejects.toMatchObject({ code: "config.not_found" });
    await until(() => bus_events.length === published.length);
    expect(bus_events.map(({ payload }) => payload)).toEqual(published);
    expect(new Set(bus_events.map(({ session_id }) => session_id))).toEqual(new Set(["kernel"]));
  },
);

verifies(
  "config.mask",
  "masks secret keys in every read, seals them on disk, and audits an admin who reads the value",
  async () => {
    const fixture = await createTestKernel();
    const { config } = fixture.kernel;
    const value = "sk-verysecretvalue-9876";
    await config.set(user, {
      "plugin.a.api_key": value,
      "plugin.a.access_token": value,
      "plugin.a.secret": { nested: value },
      "plugin.a.password": "1234",
      "plugin.a.model": "m-1",
    });
    const masked = {
      "plugin.a.access_token": "****9876",
      "plugin.a.api_key": "****9876",
      "plugin.a.model": "m-1",
      "plugin.a.password": "****",
      "plugin.a.secret": "****",
    };
    expect(await config.list(admin)).toEqual(masked);
    for (const [key, shown] of Object.entries(masked)) {
      expect(await config.get(admin, key)).toEqual({ key, value: shown });
    }

    for (const caller of [user, guest]) {
      await expect(config.get(caller, "plugin.a.api_key", { show: true })).rejects.toMatchObject({
        code: "auth.scope",
        details: { needs: "admin" },
      });
    }
    expect(await listConfigAudit(fixture)).toHaveLength(1);
    expect(await config.get(admin, "plugin.a.api_key", { show: true })).toEqual({
      key: "plugin.a.api_key",
      value,
    });
    expect((await config.get(admin, "plugin.a.secret", { show: true })).value).toEqual({ nested: value });
    expect((await listConfigAudit(fixture)).slice(1)).toEqual([
      { actor: "admin", action: "config.show", subject: "plugin.a.api_key", details: {} },
      { actor: "admin", action: "config.show", subject: "plugin.a.secret", details: {} },
    ]);
    // A value is not returned when the read cannot be audited.
    const failing = createKernel({
      ...fixture.deps,
      store: {
        ...fixture.store,
        audit: { ...fixture.store.audit, append: () => Promise.reject(new Error("no disk")) },
      },
    });
    await expect(failing.config.get(admin, "plugin.a.api_key", { show: true })).rejects.toThrow("no disk");

    const files = readdirSync(dirname(fixture.file)).filter((name) =>
      name.startsWith(basename(fixture.file)),
    );
    expect(files.length).toBeGreaterThan(1);
    for (const name of files) {
      const bytes = readFileSync(join(dirname(fixture.file), name));
      expect(bytes.includes("verysecret"), name).toBe(false);
    }
    const all = Buffer.concat(files.map((name) => readFileSync(join(dirname(fixture.file), name))));
    expect(all.includes("plugin.a.access_token")).toBe(true);
    expect(all.includes("m-1")).toBe(true);
  },
);

test("opens a sealed value only for its own org and key, and still lists a value that cannot be decrypted", async () => {
  const fixture = await createTestKernel();
  const { config } = fixture.kernel;
  await config.set(user, { "a.token": "first-secret", "b.token": "second-secret" });
  const stolen = (await fixture.store.config.get(ORG, "a.token"))!;
  await fixture.store.config.write(ORG, { set: [{ ...stolen, key: "b.token" }], unset: [] }, "", {});
  await fixture.store.config.write("org_other", { set: [stolen], unset: [] }, "", {});
  await fixture.store.secrets.put(
    { org_id: ORG, name: "a.token", ciphertext: stolen.value, last4: "" },
    "",
    {},
  );
  const live = createLiveConfig(fixture.deps, new Changes(fixture.deps.log));
  expect(await live.get(ORG, "a.token")).toBe("first-secret");
  await expect(live.get(ORG, "b.token")).rejects.toMatchObject({ code: "internal" });
  await expect(live.get("org_other", "a.token")).rejects.toMatchObject({ code: "internal" });
  expect(() => fixture.deps.vault.open(ORG, "a.token", stolen.value)).toThrow();
  expect(await config.list(user)).toEqual({ "a.token": "****cret", "b.token": "****" });
  expect(fixture.logged.some(({ message }) => message.includes("could not be decrypted"))).toBe(true);
  expect(JSON.stringify(fixture.logged)).not.toMatch(/first-secret|second-secret/);

  const vault = createSecretVault([{ id: "k2", key: new Uint8Array(32).fill(8) }]);
  const lost = createLiveConfig({ ...fixture.deps, vault }, new Changes(fixture.deps.log));
  await expect(lost.list(ORG)).rejects.toMatchObject({ code: "internal" });
});

test("audits writes by key without values, and refuses writes by guests and plugins", async () => {
  const fixture = await createTestKernel();
  const { config } = fixture.kernel;
  await config.set(user, { "a.b": "value-1", "a.password": "value-2" });
  await config.set(user, { c: "value-3" });
  await config.unset(user, "a.*");
  await config.unset(user, "a.*");
  const plugin: Caller = {
    ...user,
    actor: "inv_1",
    delegation: { invocation_id: "inv_1", scopes: [], grant: {} as never },
  };
  for (const caller of [guest, plugin]) {
    await expect(config.set(caller, { c: "value-4" })).rejects.toMatchObject({ code: "policy.denied" });
    await expect(config.unset(caller, "c")).rejects.toMatchObject({ code: "policy.denied" });
  }
  const audit = await listConfigAudit(fixture);
  expect(audit).toEqual([
    { actor: "key_user", action: "config.set", subject: "2 keys", details: { keys: ["a.b", "a.password"] } },
    { actor: "key_user", action: "config.set", subject: "c", details: { keys: ["c"] } },
    { actor: "key_user", action: "config.unset", subject: "a.*", details: {} },
  ]);
  expect(JSON.stringify(audit)).not.toContain("value-");
  expect(await config.list(guest)).toEqual({ c: "value-3" });
});

test("separates orgs, and passes the written org to listeners", async () => {
  const fixture = await createTestKernel();
  const { config } = fixture.kernel;
  const other_org: Caller = { ...user, scope: { org_id: "org_other", project_id: null } };
  const updates: string[] = [];
  const stop = config.onUpdated(({ key }, org_id) => updates.push(`${org_id} ${key}`));
  await config.set(user, { a: 1 });
  await config.set(other_org, { a: 2 });
  expect((await config.get(user, "a")).value).toBe(1);
  expect(await config.unset(other_org, "a")).toEqual(["a"]);
  expect(await config.list(user)).toEqual({ a: 1 });
  stop();
  await config.set(user, { a: 3 });
  expect(updates).toEqual(["org_local a", "org_other a", "org_other a"]);
});

test("completes the write and calls the other listeners when one listener throws", async () => {
  const fixture = await createTestKernel();
  fixture.kernel.config.onUpdated(() => {
    throw new Error("broken listener");
  });
  const updates = recordUpdates(fixture);
  await fixture.kernel.config.set(user, { "a.b": 1 });
  expect(updates).toEqual([{ key: "a.b", prefix_match_hint: "a." }]);
  expect(fixture.logged.some(({ message }) => message.includes("listener"))).toBe(true);
});

test("lets only an admin write the settings that enable a plugin or give it rights", async () => {
  const { kernel } = await createTestKernel();
  for (const field of ["trusted", "services", "api"]) {
    const change = { [`plugin.stranger.${field}`]: true };
    await expect(kernel.config.set(user, change)).rejects.toMatchObject({ code: "auth.scope" });
    await kernel.config.set(admin, change);
  }
  await expect(kernel.config.set(user, { "plugin.stranger.enabled": false })).rejects.toMatchObject({
    code: "policy.denied",
  });
  await kernel.config.set(admin, { "plugin.stranger.enabled": false });
  expect(Object.keys(await kernel.config.list(user)).filter((key) => key.startsWith("plugin."))).toHaveLength(
    4,
  );
});

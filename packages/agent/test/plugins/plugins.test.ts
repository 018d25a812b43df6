import type { Caller } from "@backplane/ports";
import { isAdminSettingKey } from "@backplane/registry";
import { admin, guest, owner, scope, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestSession } from "../loop/test-session.ts";
import {
  codeOfRejected,
  createTestPlugins,
  drainBus,
  plugin,
  type TestPlugins,
  until,
} from "./test-plugins.ts";

const other_org_owner: Caller = { ...owner, scope: { org_id: "org_acme", project_id: null } };
const delegated = {
  ...admin,
  delegation: { invocation_id: "inv_1", scopes: [], grant: {} },
} as unknown as Caller;

const auditLines = async ({ store }: TestPlugins) =>
  (await store.audit.list({ ...scope, project_id: null }, {}, { limit: 100 })).items
    .map(({ actor, action, subject }) => `${actor} ${action} ${subject}`)
    .toReversed();

test("lists each plugin with its configuration and masked secrets", async () => {
  const configSchema = { type: "object", properties: { api_key: { type: "string" } } };
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("my-llm", "llm-provider", { configSchema }));
    loader.add(() => plugin("third", "skill"), { origin: "installed", source: "acme-third" });
  });
  await fixture.set({
    "plugin.my_llm.api_key": "sk-secret-1234",
    "plugin.my_llm.a.b": 1,
    "plugin.my_llm.a.c": 2,
  });
  expect(await fixture.system.facade.list(guest)).toEqual([
    {
      name: "my-llm",
      version: "1.0.0",
      category: "llm-provider",
      origin: "bundled",
      source: "@backplane/plugin-my-llm",
      status: "loaded",
      enabled: true,
      mode: "inline",
      trusted: true,
      error: null,
      trace: null,
      config_schema: configSchema,
      current_config: { api_key: "****1234", a: { b: 1, c: 2 } },
    },
    expect.objectContaining({
      name: "third",
      mode: "hosted",
      trusted: false,
      source: "acme-third",
      current_config: {},
    }),
  ]);
});

test("lets only an operator change plugins, and only an admin credential trust one", async () => {
  const fixture = await createTestPlugins((loader) =>
    loader.add(() => plugin("third", "skill"), { origin: "installed" }),
  );
  const { facade } = fixture.system;
  for (const caller of [user, guest, other_org_owner, delegated]) {
    for (const work of [
      () => facade.setEnabled(caller, "third", false),
      () => facade.install(caller, "acme-tool", { editable: false }),
      () => facade.inspect(caller, "acme-tool"),
      () => facade.remove(caller, "third"),
      () => facade.reload(caller, "third"),
    ]) {
      expect(await codeOfRejected(work())).toBe("policy.denied");
    }
  }
  for (const caller of [owner, other_org_owner, delegated]) {
    expect(await codeOfRejected(facade.setTrusted(caller, "third", true))).toBe("auth.scope");
  }
  expect(fixture.status("third")).toBe("loaded");
  expect(await auditLines(fixture)).toEqual([]);
  expect(
    ["trusted", "services", "api", "allowed_domains"].map((field) =>
      isAdminSettingKey(`plugin.third.${field}`),
    ),
  ).toEqual([true, true, true, true]);
  expect(["plugin.third.enabled", "plugin.third.a.trusted", "trusted"].map(isAdminSettingKey)).toEqual([
    false,
    false,
    false,
  ]);
});

test("enables or disables a plugin immediately through the facade or any write of its config key", async () => {
  const calls: string[] = [];
  const fixture = await createTestPlugins((loader) =>
    loader.add(() =>
      plugin("switchy", "tool", {
        onLoad: async (ctx) => {
          calls.push("load");
          const run = () => ({ ok: true, brief: "b", display: { kind: "text", text: "t" } }) as const;
          await ctx.registerTool({ name: "t", description: "d", parameters: { type: "object" }, run });
        },
        onUnload: () => void calls.push("unload"),
      }),
    ),
  );
  expect(await fixture.system.facade.setEnabled(owner, "switchy", false)).toMatchObject({
    status: "disabled",
    enabled: false,
  });
  expect(fixture.system.tools.get("t")).toBeNull();
  expect(await fixture.system.facade.setEnabled(owner, "switchy", true)).toMatchObject({
    status: "loaded",
    enabled: true,
  });
  expect(fixture.system.tools.get("t")).not.toBeNull();
  await fixture.set({ "plugin.switchy.enabled": false });
  await until(() => fixture.status("switchy") === "disabled");
  await fixture.config.write(scope.org_id, { unset: ["plugin.switchy.enabled"] }, {});
  await until(() => fixture.status("switchy") === "loaded");
  // The setting of another org has no effect.
  await fixture.set({ "plugin.switchy.enabled": false }, "org_acme");
  await drainBus(fixture.bus);
  expect(fixture.status("switchy")).toBe("loaded");
  expect(calls).toEqual(["load", "unload", "load", "unload", "load"]);
  expect(fixture.announced()).toEqual([
    "plugin.loaded switchy",
    "plugin.removed switchy",
    "plugin.loaded switchy",
    "plugin.removed switchy",
    "plugin.loaded switchy",
  ]);
  expect(await auditLines(fixture)).toEqual([
    "key_owner plugin.enable switchy",
    "key_owner plugin.enable switchy",
  ]);
  expect(await codeOfRejected(fixture.system.facade.setEnabled(owner, "absent", true))).toBe(
    "plugin.not_found",
  );
});

test("runs a trusted plugin inline and hosts it again when trust is withdrawn", async () => {
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("third", "skill"), { origin: "installed" });
    loader.add(() => plugin("own", "skill"));
  });
  expect(await fixture.system.facade.setTrusted(admin, "third", true)).toMatchObject({
    mode: "inline",
    trusted: true,
  });
  expect(await fixture.system.facade.setTrusted(admin, "third", false)).toMatchObject({
    mode: "hosted",
    trusted: false,
  });
  expect(fixture.loader.log.filter((line) => line.startsWith("load third"))).toEqual([
    "load third hosted",
    "load third inline",
    "load third hosted",
  ]);
  expect(await auditLines(fixture)).toEqual(["admin plugin.trust third", "admin plugin.trust third"]);
  expect(await codeOfRejected(fixture.system.facade.setTrusted(admin, "own", true))).toBe("request.invalid");
});

test("loads installed plugins, unloads removed ones and restores an overridden bundled one", async () => {
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("bundled-one", "skill"));
    loader.offer("acme-tool", () => plugin("acme-tool", "tool"));
    loader.offer("./my-override", () => plugin("bundled-one", "skill", { version: "9.0.0" }));
  });
  const { facade } = fixture.system;
  expect(await facade.inspect(owner, "acme-tool")).toMatchObject([{ name: "acme-tool", category: "tool" }]);
  expect(fixture.status("acme-tool")).toBe("unknown");
  expect(await facade.install(owner, "acme-tool", { editable: false })).toMatchObject([
    { name: "acme-tool", status: "loaded", mode: "hosted" },
  ]);
  expect(await codeOfRejected(facade.install(owner, "absent", { editable: false }))).toBe(
    "plugin.source_invalid",
  );
  expect(await codeOfRejected(facade.remove(owner, "bundled-one"))).toBe("plugin.bundled");
  expect(fixture.status("bundled-one")).toBe("loaded");
  expect(await facade.install(owner, "./my-override", { editable: true })).toMatchObject([
    { name: "bundled-one", version: "9.0.0", mode: "hosted", origin: "installed" },
  ]);
  await facade.remove(owner, "bundled-one");
  expect(fixture.system.snapshot().find(({ name }) => name === "bundled-one")).toMatchObject({
    version: "1.0.0",
    origin: "bundled",
    mode: "inline",
    status: "loaded",
  });
  await facade.remove(owner, "acme-tool");
  expect(fixture.status("acme-tool")).toBe("unknown");
  await drainBus(fixture.bus);
  expect(fixture.announced().at(-1)).toBe("plugin.removed acme-tool");
  expect(await auditLines(fixture)).toEqual([
    "key_owner plugin.install acme-tool",
    "key_owner plugin.install absent",
    "key_owner plugin.install ./my-override",
    "key_owner plugin.remove bundled-one",
    "key_owner plugin.remove acme-tool",
  ]);
});

verifies(
  "plug.health",
  "reports ok, degraded or failed for the health of each enabled plugin, even if one check hangs",
  async () => {
    const fixture = await createTestPlugins((loader) => {
      loader.add(() =>
        plugin("well", "skill", { healthCheck: () => ({ status: "ok", summary: "all\nfine", details: [] }) }),
      );
      loader.add(() =>
        plugin("half", "skill", {
          healthCheck: async () => ({
            status: "degraded",
            summary: "no api_key",
            details: [
              {
                name: "api_key",
                status: "degraded",
                message: "not set\nat all",
                config_key: "plugin.half.api_key",
              },
              { name: "cache", status: "ok", config_key: "$(reboot)" },
              { name: "odd", status: "great" as never },
              null as never,
            ],
          }),
        }),
      );
      loader.add(() => plugin("stuck", "skill", { healthCheck: () => new Promise(() => {}) }));
      loader.add(() =>
        plugin("raises", "skill", {
          healthCheck: () => {
            throw new Error("database is gone");
          },
        }),
      );
      loader.add(() => plugin("plain", "skill"));
      loader.add(() => plugin("odd", "skill", { healthCheck: () => ({ status: "great" }) as never }));
      loader.add(() => plugin("broken", "skill", { onLoad: () => Promise.reject(new Error("no file")) }));
      loader.add(() => plugin("off", "skill"));
    });
    await fixture.system.facade.setEnabled(admin, "off", false);
    const traceFor = async (caller: typeof admin) =>
      (await fixture.system.facade.list(caller)).find(({ name }) => name === "broken")!.trace;
    expect(await traceFor(admin)).toMatch(/no file\n +at .*plugins\.test\.ts/);
    expect(await traceFor(user)).toBeNull();
    expect(await fixture.system.facade.health(user, 40)).toEqual([
      { name: "well", status: "ok", summary: "all", details: [] },
      {
        name: "half",
        status: "degraded",
        summary: "no api_key",
        details: [
          { name: "api_key", status: "degraded", message: "not set", config_key: "plugin.half.api_key" },
          { name: "cache", status: "ok" },
        ],
      },
      { name: "stuck", status: "degraded", summary: "the health check took longer than 40 ms" },
      { name: "raises", status: "failed", summary: "database is gone" },
      { name: "plain", status: "ok", summary: "no checks registered" },
      { name: "odd", status: "failed", summary: "The health check returned no health status." },
      { name: "broken", status: "failed", summary: "no file" },
    ]);
  },
);

verifies("bus.scope", "rejects changes to the host's plugins by another org or a project", async () => {
  const fixture = await createTestSession();
  for (const scope of [
    { org_id: "org_two", project_id: null },
    { org_id: "org_local", project_id: "proj_default" },
  ]) {
    const other_key = { ...admin, actor: "key_1", scope };
    const change = fixture.kernel.plugins.setEnabled(other_key, "llm-echo", false);
    await expect(change).rejects.toMatchObject({ code: "policy.denied" });
  }
});

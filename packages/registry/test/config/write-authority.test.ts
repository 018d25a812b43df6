import type { Caller } from "@backplane/ports";
import { admin, createTestKernel, orgUser, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { codeOfRejected, createTestPlugins, plugin } from "../../../agent/test/plugins/test-plugins.ts";

const project_admin: Caller = { ...user, role: "owner", scopes: ["admin"], admin: true };
const org_admin: Caller = { ...orgUser, role: "owner", scopes: ["admin"], admin: true };

verifies(
  "sec.scope-of-change",
  "refuses every configuration write by a project's credential and stores no part of it",
  async () => {
    const { kernel } = await createTestKernel();
    const { config } = kernel;
    await config.set(admin, { strategy: "react", "acme.a": 1, "plugin.llm_echo.trusted": false });
    const stored = await config.list(admin);
    const keys = [
      "provider",
      "strategy",
      "anything.at.all",
      "plugin.llm_echo.enabled",
      "plugin.llm_echo.model",
      "providers.prod.base_url",
      "_meta.providers_seeded_at",
    ];
    for (const caller of [user, project_admin]) {
      for (const key of keys) {
        expect(await codeOfRejected(config.set(caller, { "acme.b": 2, [key]: "x" })), key).toBe(
          "policy.denied",
        );
      }
      for (const pattern of ["acme.a", "acme.*", "plugin.*", "strategy"]) {
        expect(await codeOfRejected(config.unset(caller, pattern)), pattern).toBe("policy.denied");
      }
    }
    expect(await config.list(admin)).toEqual(stored);
  },
);

verifies(
  "sec.scope-of-change",
  "requires the same right to disable a kernel plugin by route and by configuration key",
  async () => {
    const fixture = await createTestPlugins((loader) => loader.add(() => plugin("third", "skill")));
    const { kernel } = await createTestKernel();
    const key = "plugin.third.enabled";
    const other_org_admin: Caller = { ...org_admin, scope: { org_id: "org_other", project_id: null } };
    const callers: [string, Caller][] = [
      ["project user", user],
      ["project admin", project_admin],
      ["org user", orgUser],
      ["org admin", org_admin],
      ["host admin", admin],
    ];
    for (const [name, caller] of callers) {
      const route = await codeOfRejected(fixture.system.facade.setEnabled(caller, "third", false));
      const set = await codeOfRejected(kernel.config.set(caller, { [key]: false }));
      const patterns = [key, "plugin.third.*", "plugin.*"];
      const unset = [];
      for (const pattern of patterns) unset.push(await codeOfRejected(kernel.config.unset(caller, pattern)));
      const is_allowed = name === "org admin" || name === "host admin";
      const expected = is_allowed ? "nothing was thrown" : "policy.denied";
      expect([name, route, set, ...unset]).toEqual([name, ...Array<string>(5).fill(expected)]);
    }
    // The key of another org has no effect on the plugin; its route is refused.
    expect(await codeOfRejected(fixture.system.facade.setEnabled(other_org_admin, "third", false))).toBe(
      "policy.denied",
    );
    await kernel.config.set(other_org_admin, { [key]: false });
    expect(await codeOfRejected(kernel.config.set(other_org_admin, { "plugin.third.trusted": true }))).toBe(
      "auth.scope",
    );
  },
);

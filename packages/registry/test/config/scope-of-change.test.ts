import type { Caller } from "@backplane/ports";
import { admin, createTestKernel, orgUser, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { codeOfRejected, createTestPlugins, plugin } from "../../../agent/test/plugins/test-plugins.ts";

const projectAdmin: Caller = { ...user, role: "owner", scopes: ["admin"], admin: true };
const orgAdmin: Caller = { ...orgUser, role: "owner", scopes: ["admin"], admin: true };

verifies(
  "sec.scope-of-change",
  "refuses every configuration write by a project's credential and stores no part of it",
  async () => {
    const { kernel } = await createTestKernel();
    const { config } = kernel;
    await config.set(admin, { strategy: "react", "acme.a": 1, "plugin.llm_echo.trusted": false });
    const before = await config.list(admin);
    const keys = [
      "provider",
      "strategy",
      "anything.at.all",
      "plugin.llm_echo.enabled",
      "plugin.llm_echo.model",
      "providers.prod.base_url",
      "_meta.providers_seeded_at",
    ];
    for (const caller of [user, projectAdmin]) {
      for (const key of keys) {
        expect(await codeOfRejected(config.set(caller, { "acme.b": 2, [key]: "x" })), key).toBe(
          "policy.denied",
        );
      }
      for (const pattern of ["acme.a", "acme.*", "plugin.*", "strategy"]) {
        expect(await codeOfRejected(config.unset(caller, pattern)), pattern).toBe("policy.denied");
      }
    }
    expect(await config.list(admin)).toEqual(before);
  },
);

verifies(
  "sec.scope-of-change",
  "requires the same right to disable a kernel plugin by route and by configuration key",
  async () => {
    const fixture = await createTestPlugins((loader) => loader.add(() => plugin("third", "skill")));
    const { kernel } = await createTestKernel();
    const key = "plugin.third.enabled";
    const otherOrgAdmin: Caller = { ...orgAdmin, scope: { org_id: "org_other", project_id: null } };
    const callers: [string, Caller][] = [
      ["project user", user],
      ["project admin", projectAdmin],
      ["org user", orgUser],
      ["org admin", orgAdmin],
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
    expect(await codeOfRejected(fixture.system.facade.setEnabled(otherOrgAdmin, "third", false))).toBe(
      "policy.denied",
    );
    await kernel.config.set(otherOrgAdmin, { [key]: false });
    expect(await codeOfRejected(kernel.config.set(otherOrgAdmin, { "plugin.third.trusted": true }))).toBe(
      "auth.scope",
    );
  },
);

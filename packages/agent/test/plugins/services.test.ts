import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { captureContext, codeOfRejected, createTestPlugins, plugin } from "./test-plugins.ts";

test("lets bundled plugins use services by name, and other plugins only with the operator's permission", async () => {
  const names = ["web", "agent-tool", "other", "third"] as const;
  const plugins = Object.fromEntries(names.map((name) => [name, captureContext()])) as Record<
    (typeof names)[number],
    ReturnType<typeof captureContext>
  >;
  const fixture = await createTestPlugins((loader) => {
    for (const name of names) {
      loader.add(() => plugin(name, "skill", plugins[name]), {
        origin: name === "third" ? "installed" : "bundled",
      });
    }
  });
  for (const name of ["subagent.spawn", "config.get", "config.set", "configure"]) {
    fixture.services.set(name, () => Promise.resolve(`did ${name}`));
  }
  const callService = (plugin_name: keyof typeof plugins, name: string) =>
    codeOfRejected(plugins[plugin_name].ctx.service(name, {}));
  const ALLOWED = "nothing was thrown";
  expect(await callService("web", "config.get")).toBe(ALLOWED);
  expect(await callService("web", "absent")).toBe("request.invalid");
  expect(await callService("agent-tool", "subagent.spawn")).toBe(ALLOWED);
  expect(await callService("agent-tool", "config.get")).toBe("policy.denied");
  expect(await callService("other", "subagent.spawn")).toBe("policy.denied");
  expect(await callService("third", "absent")).toBe("policy.denied");
  await fixture.set({ "plugin.third.services": ["config.*", "subagent.spawn"] });
  expect(await callService("third", "config.set")).toBe(ALLOWED);
  expect(await callService("third", "subagent.spawn")).toBe(ALLOWED);
  expect(await callService("third", "configure")).toBe("policy.denied");
  await fixture.set({ "plugin.third.services": [] });
  expect(await callService("third", "config.set")).toBe("policy.denied");
  // A setting of another org has no effect.
  await fixture.set({ "plugin.third.services": ["config.*"] }, "org_acme");
  expect(await callService("third", "config.set")).toBe("policy.denied");
});

test("gives an installed plugin with the name of a bundled one no services", async () => {
  const holder = captureContext();
  const fixture = await createTestPlugins((loader) =>
    loader.add(() => plugin("web", "skill", holder), { origin: "local" }),
  );
  fixture.services.set("config.get", () => Promise.resolve(1));
  await expect(holder.ctx.service("config.get", {})).rejects.toMatchObject({
    code: "policy.denied",
    fix: expect.stringContaining("plugin.web.services"),
  });
});

test("resolves `as` to its caller only for the plugin that received it, until it ends", async () => {
  const web = captureContext();
  const other = captureContext();
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("web", "adapter", web));
    loader.add(() => plugin("other", "skill", other));
  });
  await fixture.set({ "plugin.other.services": ["who"] });
  fixture.services.set("who", (_args, identity) =>
    Promise.resolve(identity.call?.invocation_id ?? identity.caller?.actor ?? null),
  );
  const call = { invocation_id: "inv_7", session_id: "s1" };
  const minted = fixture.system.callers.mint({ plugin: "web", caller: admin, call });
  expect(await web.ctx.service("who", {}, minted.as)).toBe("inv_7");
  expect(await web.ctx.service("who", {})).toBeNull();
  expect(await codeOfRejected(other.ctx.service("who", {}, minted.as))).toBe("auth.invalid");
  expect(await codeOfRejected(web.ctx.service("who", {}, "as_guessed"))).toBe("auth.invalid");
  minted.end();
  minted.end();
  expect(await codeOfRejected(web.ctx.service("who", {}, minted.as))).toBe("auth.invalid");
  const many = Array.from(
    { length: 200 },
    () => fixture.system.callers.mint({ plugin: "web", caller: null, call: null }).as,
  );
  expect(new Set(many).size).toBe(200);
});

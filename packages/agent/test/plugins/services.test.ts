import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { codeOfRejected, createTestPlugins, keepContext, plugin } from "./test-plugins.ts";

test("allows services to bundled plugins by name and to other plugins by the operator's grant", async () => {
  const names = ["web", "agent-tool", "other", "third"] as const;
  const plugins = Object.fromEntries(names.map((name) => [name, keepContext()])) as Record<
    (typeof names)[number],
    ReturnType<typeof keepContext>
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
  const ask = (who: keyof typeof plugins, name: string) => codeOfRejected(plugins[who].ctx.service(name, {}));
  const open = "nothing was thrown";
  expect(await ask("web", "config.get")).toBe(open);
  expect(await ask("web", "absent")).toBe("request.invalid");
  expect(await ask("agent-tool", "subagent.spawn")).toBe(open);
  expect(await ask("agent-tool", "config.get")).toBe("policy.denied");
  expect(await ask("other", "subagent.spawn")).toBe("policy.denied");
  expect(await ask("third", "absent")).toBe("policy.denied");
  await fixture.set({ "plugin.third.services": ["config.*", "subagent.spawn"] });
  expect(await ask("third", "config.set")).toBe(open);
  expect(await ask("third", "subagent.spawn")).toBe(open);
  expect(await ask("third", "configure")).toBe("policy.denied");
  await fixture.set({ "plugin.third.services": [] });
  expect(await ask("third", "config.set")).toBe("policy.denied");
  // A grant in another org has no effect.
  await fixture.set({ "plugin.third.services": ["config.*"] }, "org_acme");
  expect(await ask("third", "config.set")).toBe("policy.denied");
});

test("grants nothing to an installed plugin with the name of a bundled one", async () => {
  const holder = keepContext();
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
  const web = keepContext();
  const other = keepContext();
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("web", "adapter", web));
    loader.add(() => plugin("other", "skill", other));
  });
  await fixture.set({ "plugin.other.services": ["who"] });
  fixture.services.set("who", (_args, who) =>
    Promise.resolve(who.call?.invocation_id ?? who.caller?.actor ?? null),
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

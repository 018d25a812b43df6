/** How plugins are loaded: each category, requirements, modules that differ from their manifest, and orgs. */
import type { KernelPlugin, PluginCategory } from "@backplane/contract";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestPlugins, drainBus, plugin, until } from "./test-plugins.ts";

const boom = () => {
  throw new Error("boom");
};

verifies("plug.abi", "loads one plugin of each category and calls every ABI hook in order", async () => {
  const calls: string[] = [];
  const categories: PluginCategory[] = ["adapter", "tool", "llm-provider", "strategy", "memory", "skill"];
  const createHookPlugin = (category: PluginCategory, requires: string[]): KernelPlugin => {
    const name = `p-${category}`;
    const note = (what: string) => void calls.push(`${what} ${name}`);
    return plugin(name, category, {
      version: "2.1.0",
      requires,
      subscriptions: () => {
        note("subscriptions");
        return ["kernel.ready", "x.p-skill.*"];
      },
      onLoad: (ctx) => note(`onLoad(${ctx.name})`),
      onEvent: (event, ctx) => note(`onEvent(${event.kind},${ctx.name})`),
      onUnload: (ctx) => note(`onUnload(${ctx.name})`),
      healthCheck: () => ({ status: "ok", summary: "fine" }),
    });
  };
  const fixture = await createTestPlugins((loader) => {
    // The plugins are discovered in an order that differs from the order of their requirements.
    for (const [at, category] of categories.entries()) {
      const next = categories[at + 1];
      loader.add(() => createHookPlugin(category, next === undefined ? [] : [`p-${next}`]));
    }
  });
  const loaded = categories.toReversed().map((category) => `p-${category}`);
  expect(calls.filter((call) => call.startsWith("subscriptions")).length).toBe(6);
  expect(calls.slice(6)).toEqual(loaded.map((name) => `onLoad(${name}) ${name}`));
  expect(fixture.system.snapshot()).toEqual(
    categories.map((category) => ({
      name: `p-${category}`,
      version: "2.1.0",
      category,
      origin: "bundled",
      status: "loaded",
      mode: "inline",
      failures: 0,
      error: null,
      trace: null,
    })),
  );
  await drainBus(fixture.bus);
  const events = fixture.events.filter(({ kind }) => kind === "plugin.loaded");
  expect(events.map(({ payload }) => payload)).toEqual(
    loaded.map((name) => ({ name, version: "2.1.0", category: name.slice(2) })),
  );
  expect(events.every(({ session_id, source }) => session_id === "kernel" && source === "kernel")).toBe(true);

  calls.length = 0;
  await fixture.publish("kernel.ready", { version: "1" }, "kernel");
  await fixture.publish("user.message.received", { text: "not asked for" });
  await drainBus(fixture.bus);
  expect(calls.toSorted()).toEqual(
    categories.map((category) => `onEvent(kernel.ready,p-${category}) p-${category}`).toSorted(),
  );
  expect((await fixture.system.facade.health(admin, 3_000)).map(({ summary }) => summary)).toEqual(
    Array(6).fill("fine"),
  );

  calls.length = 0;
  await fixture.system.stop("done");
  expect(calls).toEqual(categories.map((category) => `onUnload(p-${category}) p-${category}`));
  await fixture.system.stop("twice");
  expect(calls).toHaveLength(6);
});

test("fails a plugin with a missing, failed, disabled or circular requirement and reports it", async () => {
  const fixture = await createTestPlugins(
    (loader) => {
      loader.add(() => plugin("needs-absent", "skill", { requires: ["absent"] }));
      loader.add(() => plugin("needs-broken", "skill", { requires: ["broken"] }));
      loader.add(() => plugin("needs-off", "skill", { requires: ["off"] }));
      loader.add(() => plugin("broken", "skill", { onLoad: boom }));
      loader.add(() => plugin("off", "skill"));
      loader.add(() => plugin("ring-a", "skill", { requires: ["ring-b"] }));
      loader.add(() => plugin("ring-b", "skill", { requires: ["ring-a"] }));
      loader.add(() => plugin("fine", "skill"));
    },
    { start: false },
  );
  await fixture.set({ "plugin.off.enabled": false });
  await fixture.system.start();
  const states = Object.fromEntries(
    fixture.system.snapshot().map(({ name, status, error }) => [name, [status, error]]),
  );
  expect(states).toEqual({
    "needs-absent": ["failed", "it requires absent, which is not installed"],
    "needs-broken": ["failed", "it requires broken, which has failed"],
    "needs-off": ["failed", "it requires off, which is disabled"],
    broken: ["failed", "boom"],
    off: ["disabled", null],
    "ring-a": ["failed", "it requires itself: ring-a → ring-b → ring-a"],
    "ring-b": ["failed", "it requires itself: ring-b → ring-a → ring-b"],
    fine: ["loaded", null],
  });
  expect(fixture.loader.log).not.toContain("load off inline");

  // Plugins that waited for a requirement are loaded as soon as it is loaded.
  await fixture.system.facade.setEnabled(admin, "off", true);
  await until(() => fixture.status("needs-off") === "loaded");
  expect(fixture.status("off")).toBe("loaded");
});

test("does not load a module that differs from its package.json", async () => {
  const odd = (more: object) => () => ({ ...plugin("odd", "skill"), ...more }) as KernelPlugin;
  for (const [createPlugin, entry, reason] of [
    [odd({ name: "other" }), { name: "odd" }, "the module is named other, but its package.json says odd"],
    [
      odd({}),
      { category: "tool" as const },
      "the module's category is skill, but its package.json says tool",
    ],
    [odd({ version: "" }), {}, "odd has no version"],
    [odd({ subscriptions: undefined }), {}, "odd has no subscriptions()"],
    [
      odd({ subscriptions: () => ["Not A Kind"] }),
      {},
      'odd subscribes to "Not A Kind", which is not an event kind or pattern',
    ],
    [odd({ requires: [1] }), {}, "requires of odd is not a list of names"],
    [odd({ routes: [{}] }), {}, "odd declares routes, which need category adapter and onRequest()"],
    [odd({ prefixes: ["mcp"] }), { origin: "installed" as const }, "odd may not register the prefix x.mcp."],
  ] as const) {
    const fixture = await createTestPlugins((loader) => loader.add(createPlugin, entry));
    expect(fixture.system.snapshot()).toMatchObject([{ status: "failed", error: reason }]);
    expect(fixture.loader.log.at(-1)).toBe("close odd");
  }
});

test("loads a plugin only once when it is enabled while the kernel boots", async () => {
  let loads = 0;
  const gate = Promise.withResolvers<void>();
  const fixture = await createTestPlugins(
    (loader) => {
      loader.add(() => plugin("slow-start", "skill", { onLoad: () => gate.promise }));
      loader.add(() => plugin("racer", "skill", { onLoad: () => void loads++ }));
    },
    { start: false },
  );
  const started = fixture.system.start();
  await until(() => fixture.loader.log.length === 2);
  await fixture.set({ "plugin.racer.enabled": true });
  await until(() => fixture.status("racer") === "loaded");
  gate.resolve();
  await started;
  expect(loads).toBe(1);
  expect(fixture.status("racer")).toBe("loaded");
  await expect(fixture.publish("kernel.ready", { version: "1" }, "kernel")).resolves.toBeDefined();
});

test("subscribes a plugin once in an org that is subscribed twice, and gives it a context of that org", async () => {
  const received: string[] = [];
  const fixture = await createTestPlugins((loader) =>
    loader.add(() =>
      plugin("echo-skill", "skill", {
        subscriptions: () => ["user.message.received"],
        onEvent: async (event, ctx) => {
          received.push(`${event.org_id}/${event.project_id} ${JSON.stringify((await ctx.config()).tone)}`);
          await ctx.emit("x.echo-skill.heard", {}, { session_id: event.session_id });
        },
      }),
    ),
  );
  const acme = { org_id: "org_acme", project_id: "proj_one" };
  await fixture.set({ "plugin.echo_skill.tone": "plain" });
  await fixture.set({ "plugin.echo_skill.tone": "loud" }, "org_acme");
  await fixture.publish("user.message.received", { text: "not subscribed yet" }, "s1", acme);
  await drainBus(fixture.bus);
  expect(received).toEqual([]);
  fixture.system.subscribeOrg("org_acme");
  fixture.system.subscribeOrg("org_acme");
  await fixture.publish("user.message.received", { text: "hi" }, "s1", acme);
  await fixture.publish("user.message.received", { text: "hi" });
  await drainBus(fixture.bus);
  expect(received.toSorted()).toEqual(['org_acme/proj_one "loud"', 'org_local/proj_default "plain"']);
  const emitted = fixture.events.filter(({ kind }) => kind === "x.echo-skill.heard");
  expect(emitted.map(({ org_id, project_id }) => `${org_id}/${project_id}`).toSorted()).toEqual([
    "org_acme/proj_one",
    "org_local/proj_default",
  ]);
});

import { BackplaneError, type BusEvent, type KernelPlugin, type PluginCategory } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { admin } from "../support/house.ts";
import { openPlugins, plugin, scope, settle, until } from "./open-plugins.ts";

const boom = () => {
  throw new Error("boom");
};

verifies(
  "plug.abi",
  "one plugin of each category, with every hook of the ABI called in its order",
  async () => {
    const calls: string[] = [];
    const categories: PluginCategory[] = ["adapter", "tool", "llm-provider", "strategy", "memory", "skill"];
    const make = (category: PluginCategory, requires: string[]): KernelPlugin => {
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
    const house = await openPlugins((loader) => {
      // Found in an order that is not that of their requirements.
      for (const [at, category] of categories.entries()) {
        const next = categories[at + 1];
        loader.add(() => make(category, next === undefined ? [] : [`p-${next}`]));
      }
    });
    const loaded = categories.toReversed().map((category) => `p-${category}`);
    expect(calls.filter((one) => one.startsWith("subscriptions")).length).toBe(6);
    expect(calls.slice(6)).toEqual(loaded.map((name) => `onLoad(${name}) ${name}`));
    expect(house.system.snapshot()).toEqual(
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
    await settle(house.bus);
    const events = house.seen.filter(({ kind }) => kind === "plugin.loaded");
    expect(events.map(({ payload }) => payload)).toEqual(
      loaded.map((name) => ({ name, version: "2.1.0", category: name.slice(2) })),
    );
    expect(events.every(({ session_id, source }) => session_id === "kernel" && source === "kernel")).toBe(
      true,
    );

    calls.length = 0;
    await house.publish("kernel.ready", { version: "1" }, "kernel");
    await house.publish("user.message.received", { text: "not asked for" });
    await settle(house.bus);
    expect(calls.toSorted()).toEqual(
      categories.map((category) => `onEvent(kernel.ready,p-${category}) p-${category}`).toSorted(),
    );
    expect((await house.system.facade.health(admin, 3_000)).map(({ summary }) => summary)).toEqual(
      Array(6).fill("fine"),
    );

    calls.length = 0;
    await house.system.stop("done");
    expect(calls).toEqual(categories.map((category) => `onUnload(p-${category}) p-${category}`));
    await house.system.stop("twice");
    expect(calls).toHaveLength(6);
  },
);

test("a missing, failed or disabled requirement fails the plugin and names it; a circle is named", async () => {
  const house = await openPlugins(
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
  await house.set({ "plugin.off.enabled": false });
  await house.system.start();
  const states = Object.fromEntries(
    house.system.snapshot().map(({ name, status, error }) => [name, [status, error]]),
  );
  expect(states).toEqual({
    "needs-absent": ["failed", "it requires absent, which is not installed"],
    "needs-broken": ["failed", "it requires broken, which is failed"],
    "needs-off": ["failed", "it requires off, which is disabled"],
    broken: ["failed", "boom"],
    off: ["disabled", null],
    "ring-a": ["failed", "it requires itself: ring-a → ring-b → ring-a"],
    "ring-b": ["failed", "it requires itself: ring-b → ring-a → ring-b"],
    fine: ["loaded", null],
  });
  expect(house.loader.log).not.toContain("load off inline");

  // Once what was missing is there, those that waited for it are loaded.
  await house.system.facade.setEnabled(admin, "off", true);
  await until(() => house.status("needs-off") === "loaded");
  expect(house.status("off")).toBe("loaded");
});

test("a module that is not what its package.json says is not loaded", async () => {
  const odd = (more: object) => () => ({ ...plugin("odd", "skill"), ...more }) as KernelPlugin;
  for (const [make, entry, reason] of [
    [odd({ name: "other" }), { name: "odd" }, "the module calls itself other, its package.json odd"],
    [odd({}), { category: "tool" as const }, "the module's category is skill, its package.json says tool"],
    [odd({ version: "" }), {}, "odd has no version"],
    [odd({ subscriptions: undefined }), {}, "odd has no subscriptions()"],
    [
      odd({ subscriptions: () => ["Not A Kind"] }),
      {},
      'odd subscribes to "Not A Kind", which is no kind or pattern',
    ],
    [odd({ requires: [1] }), {}, "requires of odd is no list of names"],
    [odd({ routes: [{}] }), {}, "odd has routes, which take category adapter and onRequest()"],
    [odd({ prefixes: ["mcp"] }), { origin: "installed" as const }, "odd may not register the prefix x.mcp"],
  ] as const) {
    const house = await openPlugins((loader) => loader.add(make, entry));
    expect(house.system.snapshot()).toMatchObject([{ status: "failed", error: reason }]);
    expect(house.loader.log.at(-1)).toBe("close odd");
  }
});

verifies(
  "plug.failures",
  "failures in a row unload a plugin once; a success resets; the kernel goes on",
  async () => {
    const unloading = Promise.withResolvers<void>();
    let unloads = 0;
    let statusAtUnload = "";
    let mode: "throw" | "reject" | "fine" | "hold" = "throw";
    const held: PromiseWithResolvers<void>[] = [];
    const heard: BusEvent[] = [];
    const house = await openPlugins((loader) => {
      loader.add(() =>
        plugin("shaky", "skill", {
          subscriptions: () => ["user.message.received"],
          onEvent: () => {
            if (mode === "throw") throw new Error("shaky failed");
            if (mode === "hold") {
              const one = Promise.withResolvers<void>();
              held.push(one);
              return one.promise;
            }
            if (mode === "reject") return Promise.reject(new Error("shaky failed later"));
          },
          onUnload: async () => {
            unloads++;
            statusAtUnload = house.status("shaky");
            await unloading.promise;
          },
        }),
      );
      loader.add(() =>
        plugin("steady", "skill", {
          subscriptions: () => ["user.message.received", "plugin.*"],
          onEvent: (event) => void heard.push(event),
        }),
      );
      loader.add(() =>
        plugin("stillborn", "skill", {
          onLoad: () => {
            throw new Error("cannot open my file");
          },
        }),
      );
    });
    const stillborn = house.system.snapshot().find(({ name }) => name === "stillborn");
    expect(stillborn).toMatchObject({ status: "failed", error: "cannot open my file" });
    expect(stillborn?.trace).toContain("registry.test.ts");
    await settle(house.bus);
    expect(house.told()).toEqual(["plugin.loaded shaky", "plugin.loaded steady", "plugin.error stillborn"]);
    house.seen.length = 0;

    const say = async () => {
      await house.publish("user.message.received", { text: "hi" });
      await settle(house.bus);
    };
    await say();
    await say();
    mode = "fine";
    await say();
    mode = "reject";
    await say();
    await say();
    expect(house.status("shaky")).toBe("loaded");
    expect(house.told()).toEqual(Array(4).fill("plugin.error shaky"));

    // Three sessions fail at the same time: the third failure in a row and its rivals.
    mode = "hold";
    for (const session of ["a", "b", "c", "d"])
      await house.publish("user.message.received", { text: "hi" }, session);
    await until(() => held.length === 4);
    for (const one of held) one.reject(new Error("shaky failed later"));
    await settle(house.bus);
    expect(house.status("shaky")).toBe("unloading");
    await house.publish("user.message.received", { text: "nobody home" });
    await settle(house.bus);
    unloading.resolve();
    await until(() => house.status("shaky") === "failed");
    await settle(house.bus);
    expect({ unloads, statusAtUnload }).toEqual({ unloads: 1, statusAtUnload: "unloading" });
    expect(house.told().filter((one) => one.startsWith("plugin.removed"))).toEqual(["plugin.removed shaky"]);
    expect(house.system.snapshot()[0]).toMatchObject({ status: "failed", error: "shaky failed later" });
    expect(heard.some(({ kind }) => kind === "plugin.removed")).toBe(true);
    expect(house.status("steady")).toBe("loaded");

    await house.system.stop("bye");
    expect(house.status("steady")).toBe("unloaded");
    expect(house.status("shaky")).toBe("failed");
    expect(unloads).toBe(1);
  },
);

test("the threshold can be set; a handler past its deadline counts as a failure, once", async () => {
  const stuck: PromiseWithResolvers<void>[] = [];
  const house = await openPlugins(
    (loader) =>
      loader.add(() =>
        plugin("slow", "skill", {
          subscriptions: () => ["user.message.received"],
          onEvent: () => {
            const one = Promise.withResolvers<void>();
            stuck.push(one);
            return one.promise;
          },
        }),
      ),
    { failures: 2, limits: { handler_ms: 20, sweep_ms: 5 } },
  );
  await house.publish("user.message.received", { text: "1" });
  await until(() => house.system.snapshot()[0]!.failures === 1);
  // Its late end neither counts again nor resets.
  stuck[0]!.reject(new Error("late"));
  await settle(house.bus);
  expect(house.system.snapshot()[0]).toMatchObject({ failures: 1, status: "loaded" });
  await house.publish("user.message.received", { text: "2" });
  await until(() => house.status("slow") === "failed");
  expect(house.system.snapshot()[0]?.error).toBe("handling user.message.received took too long");
});

test("a hanging onLoad, onUnload or loader is bounded", async () => {
  const never = () => new Promise<void>(() => {});
  const house = await openPlugins(
    (loader) => {
      loader.add(() => plugin("hangs-at-load", "skill", { onLoad: never }));
      loader.add(() => plugin("hangs-at-unload", "skill", { onUnload: never }));
    },
    { timeouts: { load_ms: 30, unload_ms: 30 } },
  );
  expect(house.system.snapshot()).toMatchObject([
    { status: "failed", error: "onLoad of hangs-at-load took longer than 30 ms" },
    { status: "loaded" },
  ]);
  await house.system.stop("x");
  expect(house.status("hangs-at-unload")).toBe("unloaded");
});

test("a hosted plugin whose process ends is started again with back-off, up to the threshold", async () => {
  let lives = 0;
  const heard: string[] = [];
  const house = await openPlugins(
    (loader) =>
      loader.add(
        () =>
          plugin("mortal", "skill", {
            onLoad: () => void lives++,
            subscriptions: () => ["user.message.received"],
            onEvent: (event) => void heard.push(String(event.payload.text)),
          }),
        { origin: "installed" },
      ),
    { timeouts: { restart_ms: 25 } },
  );
  expect(house.loader.log).toEqual(["load mortal hosted"]);
  house.loader.kill("mortal");
  await until(() => house.status("mortal") === "failed");
  expect(house.system.snapshot()[0]).toMatchObject({
    failures: 1,
    error: "exit code 7; it is being started again",
  });
  await until(() => house.status("mortal") === "loaded");
  expect(lives).toBe(2);
  // It works again, which resets the count.
  await house.publish("user.message.received", { text: "still there?" });
  await settle(house.bus);
  expect(heard).toEqual(["still there?"]);
  expect(house.system.snapshot()[0]?.failures).toBe(0);

  for (const life of [3, 4]) {
    house.loader.kill("mortal");
    await until(() => lives === life && house.status("mortal") === "loaded");
  }
  house.loader.kill("mortal", "exit code 9");
  await until(() => house.status("mortal") === "failed");
  await settle(house.bus);
  expect(house.system.snapshot()[0]).toMatchObject({ failures: 3, error: "exit code 9" });
  expect(lives).toBe(4);
  expect(house.told()).toEqual([
    "plugin.loaded mortal",
    "plugin.error mortal",
    "plugin.reloaded mortal",
    "plugin.error mortal",
    "plugin.reloaded mortal",
    "plugin.error mortal",
    "plugin.reloaded mortal",
    "plugin.error mortal",
    "plugin.removed mortal",
  ]);
});

test("plugins are unloaded before what they require, whatever was reloaded meanwhile", async () => {
  const unloaded: string[] = [];
  const make = (name: string, ...requires: string[]) =>
    plugin(name, "skill", { requires, onUnload: () => void unloaded.push(name) });
  const house = await openPlugins((loader) => {
    loader.add(() => make("base"));
    loader.add(() => make("top", "middle"));
    loader.add(() => make("middle", "base"));
  });
  await house.system.facade.reload(admin, "base");
  await until(() => unloaded.length === 1);
  await house.system.stop("x");
  expect(unloaded).toEqual(["base", "top", "middle", "base"]);
});

test("a crash of a process with many calls under way is one failure", async () => {
  const stuck: PromiseWithResolvers<void>[] = [];
  const house = await openPlugins(
    (loader) =>
      loader.add(
        () =>
          plugin("busy", "skill", {
            subscriptions: () => ["user.message.received"],
            onEvent: () => {
              const one = Promise.withResolvers<void>();
              stuck.push(one);
              return one.promise;
            },
          }),
        { origin: "installed" },
      ),
    { timeouts: { restart_ms: 1 } },
  );
  for (const session of ["a", "b", "c", "d"])
    await house.publish("user.message.received", { text: "x" }, session);
  await until(() => stuck.length === 4);
  for (const one of stuck) one.reject(new BackplaneError("crashed", "the process ended"));
  await settle(house.bus);
  expect(house.system.snapshot()[0]).toMatchObject({ status: "loaded", failures: 0 });
  house.loader.kill("busy");
  await until(() => house.system.snapshot()[0]!.failures === 1 && house.status("busy") === "loaded");
  expect(house.told().filter((one) => one.startsWith("plugin.removed"))).toEqual([]);
});

test("a plugin that is enabled while the kernel boots is loaded once", async () => {
  let loads = 0;
  const gate = Promise.withResolvers<void>();
  const house = await openPlugins(
    (loader) => {
      loader.add(() => plugin("slow-start", "skill", { onLoad: () => gate.promise }));
      loader.add(() => plugin("racer", "skill", { onLoad: () => void loads++ }));
    },
    { start: false },
  );
  const started = house.system.start();
  await until(() => house.loader.log.length === 2);
  await house.set({ "plugin.racer.enabled": true });
  await until(() => house.status("racer") === "loaded");
  gate.resolve();
  await started;
  expect(loads).toBe(1);
  expect(house.status("racer")).toBe("loaded");
  await expect(house.publish("kernel.ready", { version: "1" }, "kernel")).resolves.toBeDefined();
});

test("kernel.shutdown reaches the plugins before they are unloaded, also when the kernel's session is busy", async () => {
  const calls: string[] = [];
  const busy = Promise.withResolvers<void>();
  const house = await openPlugins((loader) => {
    // Unloaded last, so that nothing but the announcement keeps the other one waiting.
    loader.add(() =>
      plugin("slow", "skill", { subscriptions: () => ["kernel.ready"], onEvent: () => busy.promise }),
    );
    loader.add(() =>
      plugin("polite", "adapter", {
        subscriptions: () => ["kernel.shutdown"],
        onEvent: ({ payload }) => void calls.push(`heard ${String(payload.reason)}`),
        onUnload: () => void calls.push("unload"),
      }),
    );
  });
  await house.publish("kernel.ready", { version: "1" }, "kernel", { ...scope, project_id: null });
  await until(() => house.bus.stats().running === 1);
  const stopped = house.system.stop("SIGTERM");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(calls).toEqual([]);
  busy.resolve();
  await stopped;
  expect(calls).toEqual(["heard SIGTERM", "unload"]);
});

test("a session of the kernel that is held up does not hold up the stop for ever", async () => {
  const house = await openPlugins(
    (loader) =>
      loader.add(() =>
        plugin("stuck", "skill", {
          subscriptions: () => ["kernel.ready"],
          onEvent: () => new Promise(() => {}),
        }),
      ),
    { timeouts: { drain_ms: 20 } },
  );
  await house.publish("kernel.ready", { version: "1" }, "kernel", { ...scope, project_id: null });
  await until(() => house.bus.stats().running === 1);
  await house.system.stop("SIGTERM");
  expect(house.status("stuck")).toBe("unloaded");
});

test("an org is entered once; its plugins get its events with a context of that org", async () => {
  const heard: string[] = [];
  const house = await openPlugins((loader) =>
    loader.add(() =>
      plugin("echo-skill", "skill", {
        subscriptions: () => ["user.message.received"],
        onEvent: async (event, ctx) => {
          heard.push(`${event.org_id}/${event.project_id} ${JSON.stringify((await ctx.config()).tone)}`);
          await ctx.emit("x.echo-skill.heard", {}, { session_id: event.session_id });
        },
      }),
    ),
  );
  const acme = { org_id: "org_acme", project_id: "proj_one" };
  await house.set({ "plugin.echo_skill.tone": "plain" });
  await house.set({ "plugin.echo_skill.tone": "loud" }, "org_acme");
  await house.publish("user.message.received", { text: "not entered yet" }, "s1", acme);
  await settle(house.bus);
  expect(heard).toEqual([]);
  house.system.enter("org_acme");
  house.system.enter("org_acme");
  await house.publish("user.message.received", { text: "hi" }, "s1", acme);
  await house.publish("user.message.received", { text: "hi" });
  await settle(house.bus);
  expect(heard.toSorted()).toEqual(['org_acme/proj_one "loud"', 'org_local/proj_default "plain"']);
  const emitted = house.seen.filter(({ kind }) => kind === "x.echo-skill.heard");
  expect(emitted.map(({ org_id, project_id }) => `${org_id}/${project_id}`).toSorted()).toEqual([
    "org_acme/proj_one",
    "org_local/proj_default",
  ]);
});

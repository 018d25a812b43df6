/** Plugins that fail or exit after they were loaded: the failure count, and the unload or restart that follows. */
import { BackplaneError, type BusEvent } from "@backplane/contract";
import { admin } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { codeOfRejected, createTestPlugins, drainBus, plugin, until } from "./test-plugins.ts";

verifies(
  "plug.failures",
  "unloads a plugin once after consecutive failures and resets the count on success",
  async () => {
    const unloading = Promise.withResolvers<void>();
    let unloads = 0;
    let status_at_unload = "";
    let mode: "throw" | "reject" | "fine" | "hold" = "throw";
    const pending_events: PromiseWithResolvers<void>[] = [];
    const received: BusEvent[] = [];
    const fixture = await createTestPlugins((loader) => {
      loader.add(() =>
        plugin("shaky", "skill", {
          subscriptions: () => ["user.message.received"],
          onEvent: () => {
            if (mode === "throw") throw new Error("shaky failed");
            if (mode === "hold") {
              const pending = Promise.withResolvers<void>();
              pending_events.push(pending);
              return pending.promise;
            }
            if (mode === "reject") return Promise.reject(new Error("shaky failed later"));
          },
          onUnload: async () => {
            unloads++;
            status_at_unload = fixture.status("shaky");
            await unloading.promise;
          },
        }),
      );
      loader.add(() =>
        plugin("steady", "skill", {
          subscriptions: () => ["user.message.received", "plugin.*"],
          onEvent: (event) => void received.push(event),
        }),
      );
      loader.add(() =>
        plugin("broken", "skill", {
          onLoad: () => {
            throw new Error("cannot open my file");
          },
        }),
      );
    });
    const broken = fixture.system.snapshot().find(({ name }) => name === "broken");
    expect(broken).toMatchObject({ status: "failed", error: "cannot open my file" });
    expect(broken?.trace).toContain("supervisor.test.ts");
    await drainBus(fixture.bus);
    expect(fixture.announced()).toEqual([
      "plugin.loaded shaky",
      "plugin.loaded steady",
      "plugin.error broken",
    ]);
    fixture.events.length = 0;

    const say = async () => {
      await fixture.publish("user.message.received", { text: "hi" });
      await drainBus(fixture.bus);
    };
    await say();
    await say();
    mode = "fine";
    await say();
    mode = "reject";
    await say();
    await say();
    expect(fixture.status("shaky")).toBe("loaded");
    expect(fixture.announced()).toEqual(Array(4).fill("plugin.error shaky"));

    // Several sessions fail at the same time, so other failures are concurrent with the last counted one.
    mode = "hold";
    for (const session of ["a", "b", "c", "d"])
      await fixture.publish("user.message.received", { text: "hi" }, session);
    await until(() => pending_events.length === 4);
    for (const pending of pending_events) pending.reject(new Error("shaky failed later"));
    await drainBus(fixture.bus);
    expect(fixture.status("shaky")).toBe("unloading");
    await fixture.publish("user.message.received", { text: "nobody listens" });
    await drainBus(fixture.bus);
    unloading.resolve();
    await until(() => fixture.status("shaky") === "failed");
    await drainBus(fixture.bus);
    expect({ unloads, status_at_unload }).toEqual({ unloads: 1, status_at_unload: "unloading" });
    expect(fixture.announced().filter((line) => line.startsWith("plugin.removed"))).toEqual([
      "plugin.removed shaky",
    ]);
    expect(fixture.system.snapshot()[0]).toMatchObject({ status: "failed", error: "shaky failed later" });
    expect(received.some(({ kind }) => kind === "plugin.removed")).toBe(true);
    expect(fixture.status("steady")).toBe("loaded");

    await fixture.system.stop("bye");
    expect(fixture.status("steady")).toBe("unloaded");
    expect(fixture.status("shaky")).toBe("failed");
    expect(unloads).toBe(1);
  },
);

test("counts a handler past its deadline as one failure against the configured threshold", async () => {
  const stuck: PromiseWithResolvers<void>[] = [];
  const fixture = await createTestPlugins(
    (loader) =>
      loader.add(() =>
        plugin("slow", "skill", {
          subscriptions: () => ["user.message.received"],
          onEvent: () => {
            const pending = Promise.withResolvers<void>();
            stuck.push(pending);
            return pending.promise;
          },
        }),
      ),
    { failures: 2, limits: { handler_ms: 20, sweep_ms: 5 } },
  );
  await fixture.publish("user.message.received", { text: "1" });
  await until(() => fixture.system.snapshot()[0]!.failures === 1);
  // The late rejection is not counted as another failure and does not reset the count.
  stuck[0]!.reject(new Error("late"));
  await drainBus(fixture.bus);
  expect(fixture.system.snapshot()[0]).toMatchObject({ failures: 1, status: "loaded" });
  await fixture.publish("user.message.received", { text: "2" });
  await until(() => fixture.status("slow") === "failed");
  expect(fixture.system.snapshot()[0]?.error).toBe("handling user.message.received took too long");
});

test("restarts a hosted plugin after its process exits until it reaches the threshold", async () => {
  let loads = 0;
  const received: string[] = [];
  const fixture = await createTestPlugins(
    (loader) =>
      loader.add(
        () =>
          plugin("crashing", "skill", {
            onLoad: () => void loads++,
            subscriptions: () => ["user.message.received"],
            onEvent: (event) => void received.push(String(event.payload.text)),
          }),
        { origin: "installed" },
      ),
    { timeouts: { restart_ms: 25 } },
  );
  expect(fixture.loader.log).toEqual(["load crashing hosted"]);
  fixture.loader.kill("crashing");
  await until(() => fixture.status("crashing") === "failed");
  expect(fixture.system.snapshot()[0]).toMatchObject({
    failures: 1,
    error: "exit code 7; it is being restarted",
  });
  await until(() => fixture.status("crashing") === "loaded");
  expect(loads).toBe(2);
  // A handled event after the restart resets the count.
  await fixture.publish("user.message.received", { text: "still there?" });
  await drainBus(fixture.bus);
  expect(received).toEqual(["still there?"]);
  expect(fixture.system.snapshot()[0]?.failures).toBe(0);

  for (const expected_loads of [3, 4]) {
    fixture.loader.kill("crashing");
    await until(() => loads === expected_loads && fixture.status("crashing") === "loaded");
  }
  fixture.loader.kill("crashing", "exit code 9");
  await until(() => fixture.status("crashing") === "failed");
  await drainBus(fixture.bus);
  expect(fixture.system.snapshot()[0]).toMatchObject({ failures: 3, error: "exit code 9" });
  expect(loads).toBe(4);
  expect(fixture.announced()).toEqual([
    "plugin.loaded crashing",
    "plugin.error crashing",
    "plugin.reloaded crashing",
    "plugin.error crashing",
    "plugin.reloaded crashing",
    "plugin.error crashing",
    "plugin.reloaded crashing",
    "plugin.error crashing",
    "plugin.removed crashing",
  ]);
});

test("counts the exit of a process with many calls in flight as one failure", async () => {
  const stuck: PromiseWithResolvers<void>[] = [];
  const fixture = await createTestPlugins(
    (loader) =>
      loader.add(
        () =>
          plugin("busy", "skill", {
            subscriptions: () => ["user.message.received"],
            onEvent: () => {
              const pending = Promise.withResolvers<void>();
              stuck.push(pending);
              return pending.promise;
            },
          }),
        { origin: "installed" },
      ),
    { timeouts: { restart_ms: 1 } },
  );
  for (const session of ["a", "b", "c", "d"])
    await fixture.publish("user.message.received", { text: "x" }, session);
  await until(() => stuck.length === 4);
  for (const pending of stuck) pending.reject(new BackplaneError("crashed", "the process ended"));
  await drainBus(fixture.bus);
  expect(fixture.system.snapshot()[0]).toMatchObject({ status: "loaded", failures: 0 });
  fixture.loader.kill("busy");
  await until(() => fixture.system.snapshot()[0]!.failures === 1 && fixture.status("busy") === "loaded");
  expect(fixture.announced().filter((line) => line.startsWith("plugin.removed"))).toEqual([]);
});

/** No other timer has this time. */
const RESTART_MS = 12_345;

test("does not start a removed plugin again when its restart or its load was queued behind the removal", async () => {
  const unloading = Promise.withResolvers<void>();
  const fixture = await createTestPlugins(
    (loader) => {
      loader.add(() => plugin("crashing", "skill"), { origin: "installed" });
      loader.add(() => plugin("base", "skill", { onUnload: () => unloading.promise }), {
        origin: "installed",
      });
    },
    { timeouts: { restart_ms: RESTART_MS } },
  );
  const { system, loader, clock } = fixture;
  const restarts: (() => void)[] = [];
  const after = clock.after.bind(clock);
  clock.after = (ms, run) => {
    if (ms !== RESTART_MS) return after(ms, run);
    restarts.push(run);
    return { stop() {} };
  };
  const removing = Promise.withResolvers<void>();
  const removing_files = Promise.withResolvers<void>();
  const remove = loader.remove.bind(loader);
  loader.remove = async (name) => {
    if (name === "crashing") {
      removing.resolve();
      await removing_files.promise;
    }
    await remove(name);
  };
  loader.kill("crashing");
  await until(() => restarts.length === 1);
  const removed = system.facade.remove(admin, "crashing");
  await removing.promise;
  // The restart is queued behind the removal, which waits.
  restarts[0]!();
  const base = system.facade.remove(admin, "base");
  await until(() => fixture.status("base") === "unloading");
  const reloaded = codeOfRejected(system.facade.reload(admin, "base"));
  const enabled = fixture.set({ "plugin.base.enabled": true });
  unloading.resolve();
  removing_files.resolve();
  await Promise.all([removed, base, enabled]);
  expect(await reloaded).toBe("plugin.not_found");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(loader.log.filter((line) => line.startsWith("load "))).toEqual([
    "load crashing hosted",
    "load base hosted",
  ]);
  expect(system.snapshot()).toEqual([]);
});

test("truncates every thrown value that is shown as the error of a plugin", async () => {
  const thrown: unknown[] = [new Error("x".repeat(50_000)), "y".repeat(50_000)];
  const fixture = await createTestPlugins((loader) => {
    for (const [n, value] of thrown.entries())
      loader.add(() =>
        plugin(`broken-${n}`, "skill", {
          onLoad: () => {
            throw value;
          },
        }),
      );
  });
  for (const { error, trace } of fixture.system.snapshot()) {
    expect(error!.length).toBe(2_000);
    expect(trace!.length).toBe(16_000);
  }
});

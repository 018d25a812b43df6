/** Reloads during work: calls in flight, events, and a reload that fails. */
import type { KernelPlugin } from "@backplane/contract";
import { admin, owner } from "@backplane/test-kit/kernel/test-kernel";
import { expect, test } from "vitest";
import { createTestPlugins, createToolCall, drainBus, plugin, until } from "./test-plugins.ts";

test("reloads immediately, finishes running calls in the old instance, and delivers each event once", async () => {
  const gates: PromiseWithResolvers<void>[] = [];
  const log: string[] = [];
  let version = 0;
  const createHotPlugin = (): KernelPlugin => {
    const own_version = `${version}.0.0`;
    return plugin("hot", "tool", {
      version: own_version,
      subscriptions: () => ["user.message.received"],
      onLoad: async (ctx) => {
        log.push(`load ${own_version}`);
        await ctx.registerTool({
          name: "t",
          description: "d",
          parameters: { type: "object" },
          run: async () => {
            const gate = Promise.withResolvers<void>();
            gates.push(gate);
            await gate.promise;
            await ctx.emit("x.hot.ran", { version: own_version }, { session_id: "s1" });
            return { ok: true, brief: own_version, display: { kind: "text", text: own_version } };
          },
        });
      },
      onEvent: ({ payload }) => void log.push(`${own_version} heard ${String(payload.text)}`),
      onUnload: () => void log.push(`unload ${own_version}`),
    });
  };
  const fixture = await createTestPlugins((loader) => {
    loader.add(createHotPlugin);
    version = 1;
  });
  const old = fixture.system.tools.get("t")!;
  const running = old.run({}, createToolCall());
  await fixture.publish("user.message.received", { text: "a" });
  await drainBus(fixture.bus);
  version = 2;
  expect(await fixture.system.facade.reload(owner, "hot")).toMatchObject({
    version: "2.0.0",
    status: "loaded",
  });
  await fixture.publish("user.message.received", { text: "b" });
  await drainBus(fixture.bus);
  const renewed = fixture.system.tools.get("t")!;
  expect(renewed.version).toBe("2.0.0");
  expect(renewed.generation).toBeGreaterThan(old.generation);
  expect(log).toEqual(["load 1.0.0", "1.0.0 heard a", "load 2.0.0", "2.0.0 heard b"]);
  gates[0]!.resolve();
  expect(await running).toMatchObject({ brief: "1.0.0" });
  await until(() => log.includes("unload 1.0.0"));
  await drainBus(fixture.bus);
  expect(fixture.announced()).toEqual(["plugin.loaded hot", "plugin.reloaded hot"]);
  expect(fixture.events.filter(({ kind }) => kind === "x.hot.ran").map(({ payload }) => payload)).toEqual([
    { version: "1.0.0" },
  ]);
});

test("keeps the old instance running after a failed reload and reports the reason", async () => {
  let broken = false;
  const received: string[] = [];
  const fixture = await createTestPlugins((loader) =>
    loader.add(() =>
      plugin("hot", "skill", {
        subscriptions: () => ["user.message.received"],
        onLoad: () => {
          if (broken) throw new Error("syntax");
        },
        onEvent: () => void received.push("heard"),
      }),
    ),
  );
  broken = true;
  await expect(fixture.system.facade.reload(admin, "hot")).rejects.toMatchObject({
    code: "plugin.invalid",
    message: "hot could not be reloaded: syntax",
  });
  await fixture.publish("user.message.received", { text: "a" });
  await drainBus(fixture.bus);
  expect(received).toEqual(["heard"]);
  expect(fixture.system.snapshot()[0]).toMatchObject({ status: "loaded", error: "reload failed: syntax" });
  expect(fixture.announced()).toEqual(["plugin.loaded hot", "plugin.error hot"]);
  broken = false;
  expect(await fixture.system.facade.reload(admin, "hot")).toMatchObject({ error: null });
});

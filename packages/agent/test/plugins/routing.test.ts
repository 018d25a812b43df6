import type { BusEvent, KernelPlugin, PluginCategory } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { createTestPlugins, drainBus, plugin } from "./test-plugins.ts";

function recordingPlugins(...plugins: [string, PluginCategory, string[], Partial<KernelPlugin>?][]) {
  const received: string[] = [];
  return {
    received,
    factories: plugins.map(
      ([name, category, kinds, more = {}]) =>
        () =>
          plugin(name, category, {
            subscriptions: () => kinds,
            onEvent: (event: BusEvent) => void received.push(`${name} ${event.kind}`),
            ...more,
          }),
    ),
  };
}

test("routes a model call to the instance's owner, even right after the owner changed", async () => {
  const { received, factories } = recordingPlugins(
    ["llm-one", "llm-provider", ["llm.call.request"]],
    ["llm-two", "llm-provider", ["llm.*"], { providerId: "two" }],
    ["watcher", "adapter", ["llm.call.request"]],
  );
  const fixture = await createTestPlugins((loader) => {
    for (const factory of factories) loader.add(factory);
  });
  const routeModelCall = async (provider: string, org_id = "org_local") => {
    received.length = 0;
    const where = { org_id, project_id: "proj_default" };
    await fixture.publish(
      "llm.call.request",
      { provider, model: "m", messages: [], params: {} },
      "s1",
      where,
    );
    await drainBus(fixture.bus);
    return received.filter((line) => !line.startsWith("watcher"));
  };
  await fixture.set({ "providers.prod.plugin": "llm-one" });
  expect(await routeModelCall("prod")).toEqual(["llm-one llm.call.request"]);
  expect(received).toContain("watcher llm.call.request");
  await fixture.set({ "providers.prod.plugin": "llm-two" });
  expect(await routeModelCall("prod")).toEqual(["llm-two llm.call.request"]);
  expect(await routeModelCall("prod")).toEqual(["llm-two llm.call.request"]);
  expect(await routeModelCall("two")).toEqual(["llm-two llm.call.request"]);
  expect(await routeModelCall("absent")).toEqual([]);
  // An instance whose id equals another plugin's provider_id still belongs to the plugin in its configuration.
  await fixture.set({ "providers.two.plugin": "llm-one" });
  expect(await routeModelCall("two")).toEqual(["llm-one llm.call.request"]);
  // Instances are per org.
  fixture.system.subscribeOrg("org_acme");
  expect(await routeModelCall("prod", "org_acme")).toEqual([]);
  await fixture.set({ "providers.prod.plugin": "llm-one" }, "org_acme");
  expect(await routeModelCall("prod", "org_acme")).toEqual(["llm-one llm.call.request"]);
  expect(await routeModelCall("prod")).toEqual(["llm-two llm.call.request"]);
});

verifies(
  "plug.extras",
  "routes a decision to the session's strategy, which is react by default",
  async () => {
    const { received, factories } = recordingPlugins(
      ["strategy-react", "strategy", ["strategy.decide.request"], { strategyId: "react" }],
      ["plan-first", "strategy", ["strategy.*", "user.*"]],
    );
    const fixture = await createTestPlugins((loader) => {
      for (const factory of factories) loader.add(factory);
    });
    expect(fixture.system.listStrategies()).toEqual([
      { strategy_id: "react", plugin: "strategy-react" },
      { strategy_id: "plan-first", plugin: "plan-first" },
    ]);
    await fixture.publish("strategy.decide.request", { state: {} });
    await fixture.publish("strategy.decide.request", { state: {}, strategy: "plan-first" });
    await fixture.publish("strategy.decide.request", { state: { strategy: "plan-first" } });
    await fixture.publish("strategy.decide.request", { state: {}, strategy: "absent" });
    await fixture.publish("user.message.received", { text: "hi" });
    await drainBus(fixture.bus);
    expect(received).toEqual([
      "strategy-react strategy.decide.request",
      "plan-first strategy.decide.request",
      "plan-first strategy.decide.request",
      "plan-first user.message.received",
    ]);
  },
);

test("never delivers tool calls to tool plugins over the bus, but delivers other subscribed events", async () => {
  const { received, factories } = recordingPlugins(
    ["a-tool", "tool", ["*"]],
    ["a-memory", "memory", ["memory.query", "memory.write"]],
    ["a-skill", "skill", ["tool.call.request"]],
  );
  const fixture = await createTestPlugins((loader) => {
    for (const factory of factories) loader.add(factory);
  });
  await drainBus(fixture.bus);
  received.length = 0;
  await fixture.publish("tool.call.request", { id: "c", name: "t", args: {} });
  await fixture.publish("memory.query", { query: "q", k: 1 });
  await fixture.publish("memory.write", { entry: {} });
  await drainBus(fixture.bus);
  expect(received.toSorted()).toEqual([
    "a-memory memory.query",
    "a-memory memory.write",
    "a-skill tool.call.request",
    "a-tool memory.query",
    "a-tool memory.write",
  ]);
});

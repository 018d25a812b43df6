import type { PluginContext } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  captureContext,
  codeOfRejected,
  createTestPlugins,
  drainBus,
  plugin,
  scope,
} from "./test-plugins.ts";

const providerPlugin = (name: string, onLoad: (ctx: PluginContext) => void) => () =>
  plugin(name, "llm-provider", { onLoad });

verifies(
  "plug.context",
  "provides emit, a scoped logger, config, the providers view and a state directory",
  async () => {
    const skill = captureContext();
    const provider = captureContext();
    const fixture = await createTestPlugins((loader) => {
      loader.add(() => plugin("my-skill", "skill", skill));
      loader.add(providerPlugin("llm-one", provider.onLoad));
      loader.add(providerPlugin("llm-two", () => {}));
    });
    const { ctx } = skill;
    expect(ctx.name).toBe("my-skill");
    expect(ctx.stateDir).toBe("/data/plugins/my-skill");

    // The kernel sets id, time, source, org and project.
    const { id } = await ctx.emit("x.my-skill.done", { n: 1 }, { session_id: "s1" });
    await drainBus(fixture.bus);
    expect(fixture.events.find((event) => event.id === id)).toMatchObject({
      kind: "x.my-skill.done",
      source: "my-skill",
      session_id: "s1",
      ...scope,
      payload: { n: 1 },
    });

    ctx.log.warn({ plugin: "someone-else", n: 2 }, "careful");
    expect(fixture.logged.at(-1)).toEqual({
      level: "warn",
      fields: { plugin: "my-skill", n: 2 },
      message: "careful",
    });

    // A plugin reads only its own keys, without the prefix, with secrets in clear text, and fresh at every
    // call.
    await fixture.set({
      "plugin.my_skill.tone": "loud",
      "plugin.my_skill.deep.api_key": "sk-secret-1234",
      "plugin.my_skill_two.tone": "x",
    });
    expect(await ctx.config()).toEqual({ tone: "loud", "deep.api_key": "sk-secret-1234" });
    await fixture.set({ "plugin.my_skill.tone": "soft" });
    expect(await ctx.config()).toMatchObject({ tone: "soft" });

    await fixture.set({
      provider: "prod",
      "providers.prod.plugin": "llm-one",
      "providers.prod.label": "Prod",
      "providers.prod.api_key": "sk-secret-1234",
      "providers.prod.model": "m1",
      "providers.other.plugin": "llm-two",
      "providers.other.api_key": "sk-secret-5678",
    });
    const prod = { id: "prod", plugin: "llm-one", label: "Prod" };
    const clear = { ...prod, config: { api_key: "sk-secret-1234", model: "m1" } };
    const masked = { ...prod, config: { api_key: "****1234", model: "m1" } };
    expect(await provider.ctx.providers.getInstance("prod")).toEqual(clear);
    expect(await ctx.providers.getInstance("prod")).toEqual(masked);
    expect(await provider.ctx.providers.instancesForPlugin("llm-one")).toContainEqual(clear);
    expect((await provider.ctx.providers.listInstances()).map((row) => [row.id, row.config.api_key])).toEqual(
      [
        ["llm-one", undefined],
        ["llm-two", undefined],
        ["other", "****5678"],
        ["prod", "sk-secret-1234"],
      ],
    );
    expect(await ctx.providers.activeId()).toBe("prod");
    expect(await ctx.providers.getInstance("absent")).toBeNull();
  },
);

verifies(
  "bus.reserved",
  "lets a plugin publish only the kinds and sessions that its category allows",
  async () => {
    const plugins = { adapter: captureContext(), skill: captureContext(), tool: captureContext() };
    const fixture = await createTestPlugins((loader) => {
      loader.add(() => plugin("an-adapter", "adapter", plugins.adapter));
      loader.add(() => plugin("a-skill", "skill", plugins.skill));
      loader.add(() => plugin("a-tool", "tool", plugins.tool));
    });
    const emit = (category: keyof typeof plugins, kind: string, payload: object, session_id = "s1") =>
      codeOfRejected(plugins[category].ctx.emit(kind, payload as never, { session_id }));
    const answer = { id: "a", response: "approve" };
    const ALLOWED = "nothing was thrown";
    expect(await emit("adapter", "user.message.received", { text: "hi" })).toBe(ALLOWED);
    expect(await emit("adapter", "approval.response", answer, "kernel")).toBe(ALLOWED);
    expect(await emit("adapter", "approval.response", answer)).toBe("policy.denied");
    expect(await emit("adapter", "config.updated", { key: "k", prefix_match_hint: "" }, "kernel")).toBe(
      "policy.denied",
    );
    expect(await emit("adapter", "user.message.received", { text: "hi" }, "kernel")).toBe("policy.denied");
    expect(await emit("skill", "approval.response", answer, "kernel")).toBe("policy.denied");
    expect(await emit("skill", "user.message.received", { text: "hi" })).toBe(ALLOWED);
    expect(
      await emit("skill", "plugin.loaded", { name: "x", version: "1", category: "tool" }, "kernel"),
    ).toBe("policy.denied");
    expect(await emit("tool", "llm.call.response", { usage: {} })).toBe("policy.denied");
    expect(await emit("tool", "x.a-skill.kind", {})).toBe("policy.denied");
    expect(await emit("tool", "x.a-tool.kind", {}, "_bridge:a-skill")).toBe("policy.denied");
    expect(await emit("tool", "x.a-tool.kind", {}, "_bridge:a-tool:1")).toBe(ALLOWED);
    expect(await emit("tool", "x.a-tool.kind", {}, "kernel")).toBe("policy.denied");
    await drainBus(fixture.bus);
    expect(new Set(fixture.events.map(({ source }) => source))).toEqual(
      new Set(["kernel", "an-adapter", "a-skill", "a-tool"]),
    );
    // Spawning sub-agents and testing providers are services that the operator has to allow.
    expect(await codeOfRejected(plugins.skill.ctx.service("subagent.spawn", {}))).toBe("policy.denied");
    expect(await codeOfRejected(plugins.adapter.ctx.service("providers.test", {}))).toBe("policy.denied");
  },
);

test("refuses emit, config, registerTool and service in the context of an unloaded plugin", async () => {
  const holder = captureContext();
  const fixture = await createTestPlugins((loader) => loader.add(() => plugin("gone", "tool", holder)));
  await fixture.system.stop("x");
  const { ctx } = holder;
  const tool = { name: "t", description: "", parameters: { type: "object" }, run: () => ({}) as never };
  for (const work of [
    ctx.emit("x.gone.a", {}, { session_id: "s" }),
    ctx.config(),
    ctx.registerTool(tool),
    ctx.service("a", {}),
  ]) {
    expect(await codeOfRejected(work)).toBe("cancelled");
  }
});

import {
  BUS_KINDS,
  type BusKind,
  isBusKind,
  PLUGIN_CATEGORIES,
  type PluginCategory,
} from "@backplane/contract";
import { BUS_PAYLOADS } from "@backplane/contract/schema";
import fc from "fast-check";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { SAMPLES } from "./samples.ts";
import { codeOfThrown, createTestBus, nextTurn, scope } from "./test-bus.ts";

const kinds = Object.keys(BUS_KINDS) as BusKind[];
const sessionFor = (kind: BusKind) => (BUS_KINDS[kind].session === "kernel" ? "kernel" : "s");

verifies(
  "bus.closed",
  "accepts exactly the public kinds with valid payloads, and extensions of the plugin's own prefix",
  async () => {
    const { bus, events } = createTestBus();
    const kernel = bus.kernel();
    // The number of kinds in the published protocol, repeated here on purpose.
    expect(kinds.length).toBe(41);
    expect(Object.keys(SAMPLES).sort()).toEqual([...kinds].sort());
    expect(Object.keys(BUS_PAYLOADS).sort()).toEqual([...kinds].sort());
    for (const kind of kinds) {
      const options = { session_id: sessionFor(kind), scope };
      const { good, bad } = SAMPLES[kind];
      for (const payload of good) kernel.tryPublish(kind as string, payload, options);
      for (const payload of [...bad, null, [], "text", undefined]) {
        const publish = () => kernel.tryPublish(kind as string, payload as never, options);
        expect([kind, payload, codeOfThrown(publish)]).toEqual([kind, payload, "request.invalid"]);
      }
    }
    await nextTurn();
    expect(new Set(events.map((event) => event.kind))).toEqual(new Set(kinds));

    for (const unknown of [
      "user.message",
      "tool.call",
      "kernel.ready.v2",
      "USER.INTERRUPT",
      "",
      "x",
      "x.",
      "x.web",
      "x..a",
    ]) {
      expect(codeOfThrown(() => kernel.tryPublish(unknown, {}, { session_id: "s", scope }))).toBe(
        "request.invalid",
      );
    }
    for (const inherited of ["constructor", "__proto__", "toString"])
      expect(isBusKind(inherited)).toBe(false);

    // Only the owner of a prefix publishes its extension kinds; every plugin may receive them.
    const { attachPlugin, bus: second } = createTestBus();
    const stats = attachPlugin("stats", "tool");
    const bridge = second.attach({
      name: "mcp-bridge",
      category: "skill",
      scope,
      bundled: true,
      prefixes: ["mcp"],
    });
    const agent = second.attach({
      name: "agent-tool",
      category: "tool",
      scope,
      bundled: true,
      prefixes: ["agent"],
    });
    const received: string[] = [];
    attachPlugin("notes", "skill").subscribe(
      "x.*",
      (event) => void received.push(`${event.source} ${event.kind}`),
    );
    const at = { session_id: "s" };
    await stats.publish("x.stats.token.counted", { n: 1 }, at);
    await bridge.publish("x.mcp.server.ready", { server: "files", tools: [] }, at);
    await bridge.publish("x.mcp-bridge.note", {}, at);
    await agent.publish("x.agent.subagent.started", {}, at);
    await nextTurn();
    expect(received).toEqual([
      "stats x.stats.token.counted",
      "mcp-bridge x.mcp.server.ready",
      "mcp-bridge x.mcp-bridge.note",
      "agent-tool x.agent.subagent.started",
    ]);
    for (const kind of [
      "x.mcp.server.ready",
      "x.agent.subagent.started",
      "x.notes.a",
      "x.nobody.a",
      "x.statsx.a",
    ]) {
      expect(codeOfThrown(() => stats.tryPublish(kind, {}, at))).toBe("policy.denied");
    }
    expect(codeOfThrown(() => second.kernel().tryPublish("x.stats.a", {}, { ...at, scope }))).toBe(
      "policy.denied",
    );
  },
);

/** The published protocol's table of categories, repeated here on purpose. */
const EMITS: Record<Exclude<PluginCategory, "skill">, BusKind[]> = {
  adapter: ["user.message.received", "user.interrupt", "approval.response"],
  tool: ["tool.call.result"],
  "llm-provider": ["llm.call.delta", "llm.call.response", "llm.call.error"],
  strategy: ["strategy.decide.response"],
  memory: ["memory.result"],
};

verifies(
  "bus.reserved",
  "lets a plugin publish only kinds of its category, and a skill all plugin kinds except approval.response",
  () => {
    const { attachPlugin } = createTestBus();
    const skill_kinds = Object.values(EMITS)
      .flat()
      .filter((kind) => kind !== "approval.response");
    for (const category of PLUGIN_CATEGORIES) {
      const port = attachPlugin(`a-${category}`, category);
      const allowed = kinds.filter((kind) => {
        const publish = () =>
          port.tryPublish(kind as string, SAMPLES[kind].good[0]!, { session_id: sessionFor(kind) });
        return codeOfThrown(publish) !== "policy.denied";
      });
      expect([category, allowed.sort()]).toEqual([
        category,
        (category === "skill" ? skill_kinds : EMITS[category]).sort(),
      ]);
    }
  },
);

verifies(
  "bus.reserved",
  "limits the kernel session to its kinds, and accepts only an adapter's approval.response from plugins there",
  () => {
    const { bus, attachPlugin } = createTestBus();
    const kernel = bus.kernel();
    const kernel_only = /^(approval\.|session\.(compaction|context|replay)\.|config\.updated$)/;
    const on_both = /^(plugin|kernel|session)\./;
    for (const kind of kinds) {
      const publishOn = (session_id: string) =>
        codeOfThrown(() => kernel.tryPublish(kind as string, SAMPLES[kind].good[0]!, { session_id, scope }));
      const on_other_session = kernel_only.test(kind) ? "policy.denied" : "nothing was thrown";
      const on_kernel_session =
        kernel_only.test(kind) || on_both.test(kind) ? "nothing was thrown" : "policy.denied";
      expect([kind, publishOn("s"), publishOn("kernel")]).toEqual([
        kind,
        on_other_session,
        on_kernel_session,
      ]);
    }
    for (const category of PLUGIN_CATEGORIES) {
      const port = attachPlugin(`a-${category}`, category);
      for (const kind of [...kinds, `x.a-${category}.note`]) {
        const payload = isBusKind(kind) ? SAMPLES[kind].good[0]! : {};
        const code = codeOfThrown(() => port.tryPublish(kind as string, payload, { session_id: "kernel" }));
        const allowed = category === "adapter" && kind === "approval.response";
        expect([category, kind, code]).toEqual([
          category,
          kind,
          allowed ? "nothing was thrown" : "policy.denied",
        ]);
      }
    }
  },
);

verifies(
  "bus.reserved",
  "rejects publishing on another plugin's private session, and user events on a child session",
  () => {
    const { attachPlugin } = createTestBus();
    const web = attachPlugin("web", "adapter");
    const publishOn = (session_id: string) =>
      codeOfThrown(() => web.tryPublish("user.interrupt", {}, { session_id }));
    for (const allowed of ["_bridge:web", "_bridge:web:1", "_bridge"])
      expect([allowed, publishOn(allowed)]).toEqual([allowed, "nothing was thrown"]);
    for (const foreign of [
      "_bridge:",
      "_bridge:webs",
      "_bridge:we",
      "_bridge:mcp-bridge",
      "_bridge::web",
      "_bridge: web",
    ]) {
      expect([foreign, publishOn(foreign)]).toEqual([foreign, "policy.denied"]);
    }
    expect(publishOn("s::agent::1")).toBe("policy.denied");
    // A message begins a turn, in which other plugins would have to publish on the bridge.
    for (const port of [web, attachPlugin("helper", "skill")])
      expect(
        codeOfThrown(() =>
          port.tryPublish("user.message.received", { text: "hi" }, { session_id: `_bridge:${port.name}:1` }),
        ),
      ).toBe("policy.denied");
    expect(publishOn("")).toBe("request.invalid");
    expect(publishOn("s".repeat(1_025))).toBe("request.invalid");
    // The tools of a sub-agent publish their results on its session.
    const answer = { id: "c", ok: true };
    expect(
      attachPlugin("bash", "tool").tryPublish("tool.call.result", answer, { session_id: "s::agent::1" }),
    ).not.toBeNull();
  },
);

test("rejects every kind outside the catalog and the plugin's own prefix", () => {
  const { attachPlugin } = createTestBus();
  const port = attachPlugin("stats", "skill");
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.constantFrom(...kinds), fc.stringMatching(/^x\.[a-z.]*$/)),
      (kind) => {
        const is_allowed =
          kind.startsWith("x.stats.") || (isBusKind(kind) && BUS_KINDS[kind].from !== "kernel");
        const code = codeOfThrown(() => port.tryPublish(kind, {}, { session_id: "s" }));
        expect(is_allowed || code === "policy.denied" || code === "request.invalid").toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

verifies(
  "bus.reserved",
  "lets a provider answer model calls on the kernel's bridge sessions, but publish nothing else there",
  async () => {
    const { attachPlugin } = createTestBus();
    const provider = attachPlugin("models", "llm-provider");
    const answer = { text: "hi", usage: {}, request_id: "evt_1" };
    const at = (session_id: string) => ({ session_id });
    for (const bridge of ["web-api-test", "compaction", "cognition", "sampling"])
      await provider.publish("llm.call.response", answer, at(`_bridge:${bridge}:1`));
    for (const session_id of ["_bridge:other:1", "_bridge:web-api-test", "_bridge:compactions:1"])
      expect(codeOfThrown(() => provider.tryPublish("llm.call.response", answer, at(session_id)))).toBe(
        "policy.denied",
      );
    const skill = attachPlugin("notes", "skill");
    expect(codeOfThrown(() => skill.tryPublish("x.notes.a", {}, at("_bridge:compaction:1")))).toBe(
      "policy.denied",
    );
    expect(codeOfThrown(() => provider.tryPublish("x.models.a", {}, at("_bridge:compaction:1")))).toBe(
      "policy.denied",
    );
  },
);

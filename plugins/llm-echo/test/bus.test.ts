/** Runs the plugin on the kernel's own bus. */
import type { PluginContext } from "@backplane/contract";
import { expect, test } from "vitest";
import { createInstance, LlmBus } from "../../../packages/sdk/test/kernel/llm-bus.ts";
import { createTestBus, scope, until } from "../../../packages/session/test/bus/test-bus.ts";
import { verifies } from "../../../test/support/verifies.ts";
import { plugin } from "../src/plugin.ts";

function createEchoBus() {
  const test_bus = createTestBus();
  const port = test_bus.attachPlugin("llm-echo", "llm-provider");
  const ctx: PluginContext = {
    ...new LlmBus(plugin, [createInstance("llm-echo")]).context(),
    emit: async (kind, payload, options) => ({ id: (await port.publish(kind, payload, options)).id }),
  };
  port.subscribe(plugin.subscriptions(), (event) => plugin.onEvent?.(event, ctx));
  const kernel = test_bus.bus.kernel("loop");
  const ask = (text: string) =>
    kernel.request(
      "llm.call.request",
      { provider: "main", model: "echo", messages: [{ role: "user", content: text }], params: {} },
      { session_id: "s1", scope, reply: ["llm.call.response", "llm.call.error"], timeout_ms: 60_000 },
    );
  return { ...test_bus, kernel, ask };
}

verifies("llm.provider", "publishes a call's deltas and its one answer in order on the session", async () => {
  const { ask, events, idle, logged } = createEchoBus();
  const reply = await ask('/say Let me look.\n/think hm\n/tool now {"zone": "utc"}');
  await idle();
  expect(reply).toMatchObject({
    kind: "llm.call.response",
    session_id: "s1",
    source: "llm-echo",
    payload: { text: "Let me look.", tool_calls: [{ name: "now", args: { zone: "utc" } }] },
  });
  const kinds = events.map(({ kind }) => kind);
  expect(kinds.at(0)).toBe("llm.call.request");
  expect(kinds.at(-1)).toBe("llm.call.response");
  expect(kinds.filter((kind) => kind === "llm.call.response")).toHaveLength(1);
  const text = events.map(({ payload }) => (payload as { content?: string }).content ?? "");
  expect(text.join("")).toBe("Let me look.");
  expect(events.slice(1).every(({ payload }) => payload.request_id === events[0]?.id)).toBe(true);
  expect(logged).toEqual([]);
});

test("interrupts a call that is still streaming", async () => {
  const { ask, kernel, events, bus } = createEchoBus();
  const reply = ask("/slow 60000\n/say a slow answer that nobody waits for").catch(() => null);
  await until(() => events.some(({ kind }) => kind === "llm.call.delta"));
  expect(bus.stats().running).toBe(1);
  await kernel.publish("user.interrupt", {}, { session_id: "s1", scope });
  await until(() => bus.stats().running === 0);
  expect(events.map(({ kind }) => kind)).toEqual(["llm.call.request", "llm.call.delta", "user.interrupt"]);
  bus.close();
  await reply;
});

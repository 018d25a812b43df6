import type { BusEvent, KernelTool, PluginContext, ToolReturn } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import {
  captureContext,
  codeOfRejected,
  createTestPlugins,
  createToolCall,
  drainBus,
  plugin,
  scope,
  until,
} from "./test-plugins.ts";

const parameters = { type: "object", properties: { text: { type: "string" } } };
const ok = (text: string): ToolReturn => ({ ok: true, brief: text, display: { kind: "text", text } });
const tool = (name: string, more: Partial<KernelTool> = {}): KernelTool => ({
  name,
  description: `Does ${name}.`,
  parameters,
  run: ({ text }) => ok(text as string),
  ...more,
});
const toolPlugin =
  (name: string, ...tools: KernelTool[]) =>
  () =>
    plugin(name, "tool", {
      onLoad: async (ctx) => {
        for (const tool of tools) await ctx.registerTool(tool);
      },
    });

test("registers a typed tool with its spec, runs it and returns its approval brief", async () => {
  const echo = tool("echo", {
    requires_approval: true,
    timeout_ms: 500,
    approvalBrief: ({ text }) => `echo ${text as string} `.repeat(20),
  });
  const crash = tool("crash", {
    run: () => {
      throw new TypeError("oops");
    },
    approvalBrief: () => Promise.reject(new Error("no brief")),
  });
  const fixture = await createTestPlugins((loader) => loader.add(toolPlugin("tools", echo, crash)));
  expect(fixture.system.tools.list().map(({ spec }) => spec.name)).toEqual(["crash", "echo"]);
  const tool_entry = fixture.system.tools.get("echo")!;
  expect(tool_entry).toMatchObject({
    spec: { name: "echo", description: "Does echo.", parameters, requires_approval: true, timeout_ms: 500 },
    plugin: "tools",
    version: "1.0.0",
    mode: "inline",
    legacy: false,
  });
  expect(await tool_entry.run({ text: "hi" }, createToolCall())).toEqual(ok("hi"));
  expect(await tool_entry.brief({ text: "hi" })).toHaveLength(80);
  await expect(fixture.system.tools.get("crash")!.run({}, createToolCall())).rejects.toThrow(
    new TypeError("oops"),
  );
  expect(await fixture.system.tools.get("crash")!.brief({})).toBeNull();
  expect(fixture.system.tools.get("absent")).toBeNull();
  expect(fixture.status("tools")).toBe("loaded");
});

test.each([
  [{ ok: true, brief: "b" }, "a display block"],
  [{ ok: true, display: { kind: "text", text: "t" } }, "a brief"],
  [{ brief: "b", display: { kind: "text", text: "t" } }, "ok"],
  [{ ok: false, kind: "odd", brief: "b", display: { kind: "text", text: "t" } }, "one of the error kinds"],
  [{ ok: true, brief: "b", display: { kind: "html", html: "<b>" } }, "a display block"],
  [undefined, "a result object"],
])("rejects the answer %j, which is not a ToolReturn", async (answer, missing) => {
  const fixture = await createTestPlugins((loader) =>
    loader.add(toolPlugin("tools", tool("bad", { run: () => answer as ToolReturn }))),
  );
  await expect(fixture.system.tools.get("bad")!.run({}, createToolCall())).rejects.toMatchObject({
    code: "malformed_response",
    message: `The tool bad returned a result without ${missing}.`,
  });
});

test("registers tools only for tool plugins, once per name, with a valid name and an object schema", async () => {
  const holder = captureContext();
  const skill = captureContext();
  let changes = 0;
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("tools", "tool", holder));
    loader.add(() => plugin("a-skill", "skill", skill));
  });
  fixture.deps.changes.on("plugin_tools.changed", () => void changes++);
  await holder.ctx.registerTool(tool("late"));
  expect(fixture.system.tools.get("late")?.plugin).toBe("tools");
  expect(changes).toBe(1);
  for (const bad of [
    tool("late"),
    tool("no spaces"),
    tool("x".repeat(65)),
    tool("a", { parameters: { type: "string" } }),
    tool("a", { parameters: [] as never }),
    tool("a", { description: undefined as never }),
    tool("a", { run: undefined as never }),
    tool("a", { timeout_ms: 0 }),
    tool("a", { timeout_ms: "500" as never }),
    tool("a", { effect_class: "readonly" as never }),
    tool("a", { risk: "none" as never }),
    tool("a", { category: "" }),
    tool("a", { requires_approval: "yes" as never }),
  ]) {
    expect(await codeOfRejected(holder.ctx.registerTool(bad))).toMatch(/^(plugin|request)\.invalid$/);
  }
  expect(await codeOfRejected(skill.ctx.registerTool(tool("mine")))).toBe("policy.denied");
  expect(fixture.system.tools.list()).toHaveLength(1);
});

verifies(
  "plug.extras",
  "gives each id and tool name one owner and fails the later plugin with the reason",
  async () => {
    const legacy = (name: string, toolName: string) => () =>
      plugin(name, "tool", { toolName, onEvent: () => {} });
    const fixture = await createTestPlugins(
      (loader) => {
        loader.add(toolPlugin("first", tool("shared")));
        loader.add(toolPlugin("second", tool("own"), tool("shared")));
        loader.add(() =>
          plugin("old-one", "tool", { toolName: "old", jsonSchema: parameters, onEvent: () => {} }),
        );
        loader.add(legacy("old-two", "old"));
        loader.add(() => plugin("strategy-react", "strategy", { strategyId: "react" }));
        loader.add(() => plugin("strategy-two", "strategy", { strategyId: "react" }));
        loader.add(() => plugin("llm-a", "llm-provider", { providerId: "openai" }));
        loader.add(() => plugin("llm-b", "llm-provider", { providerId: "openai" }));
        loader.add(() => plugin("web-a", "adapter", { adapterId: "web" }));
        loader.add(() => plugin("web-b", "adapter", { adapterId: "web" }));
        loader.add(() => plugin("short", "memory", { memory: "short-term" }));
        loader.add(() => plugin("long-dashed-name", "memory", { memory: "long-term" }));
        loader.add(() => plugin("needy", "skill", { requires: ["absent"] }));
      },
      { start: false },
    );
    await fixture.set({ "plugin.long_dashed_name.enabled": false });
    await fixture.system.start();
    const failed = fixture.system.snapshot().filter(({ status }) => status === "failed");
    expect(Object.fromEntries(failed.map(({ name, error }) => [name, error]))).toEqual({
      second: "the tool name shared is taken by first",
      "old-two": "the tool name old is taken by old-one",
      "strategy-two": "the strategy_id react is taken by strategy-react",
      "llm-b": "the provider_id openai is taken by llm-a",
      "web-b": "the adapter_id web is taken by web-a",
      needy: "it requires absent, which is not installed",
    });
    expect(fixture.status("long-dashed-name")).toBe("disabled");
    expect(fixture.status("short")).toBe("loaded");
    // A failed plugin leaves no tools registered.
    expect(fixture.system.tools.list().map(({ spec, plugin: owner }) => `${spec.name} of ${owner}`)).toEqual([
      "old of old-one",
      "shared of first",
    ]);
    expect(fixture.system.tools.get("old")).toMatchObject({ legacy: true, spec: { parameters } });
  },
);

test("gives a tool name to the plugin that is ready first when two load concurrently", async () => {
  const gate = Promise.withResolvers<void>();
  let registered = false;
  const fixture = await createTestPlugins(
    (loader) => {
      loader.add(() =>
        plugin("slow-tools", "tool", {
          onLoad: async (ctx) => {
            await ctx.registerTool(tool("t"));
            registered = true;
            await gate.promise;
          },
        }),
      );
      loader.add(toolPlugin("quick-tools", tool("t")));
    },
    { start: false },
  );
  await fixture.set({ "plugin.slow_tools.enabled": false, "plugin.quick_tools.enabled": false });
  await fixture.system.start();
  await fixture.set({ "plugin.slow_tools.enabled": true });
  await until(() => registered);
  await fixture.set({ "plugin.quick_tools.enabled": true });
  await until(() => fixture.status("quick-tools") === "loaded");
  gate.resolve();
  await until(() => fixture.status("slow-tools") === "failed");
  expect(fixture.system.snapshot()[0]?.error).toBe("the tool name t is taken by quick-tools");
  expect(fixture.system.tools.get("t")?.plugin).toBe("quick-tools");
});

test("prefers a typed tool over a legacy one, warns, and restores the legacy one after an unload", async () => {
  const fixture = await createTestPlugins((loader) => {
    loader.add(() => plugin("tool-old", "tool", { toolName: "bash", onEvent: () => {} }));
    loader.add(toolPlugin("tool-new", tool("bash")), { origin: "installed" });
  });
  expect(fixture.system.tools.get("bash")).toMatchObject({ plugin: "tool-new", legacy: false });
  const warned = fixture.logged.filter(({ level, fields }) => level === "warn" && "tool" in fields);
  expect(warned.map(({ fields }) => fields)).toEqual([
    { tool: "bash", typed: "tool-new", legacy: "tool-old" },
  ]);
  await fixture.set({ "plugin.tool_new.enabled": false });
  await until(() => fixture.status("tool-new") === "disabled");
  expect(fixture.system.tools.get("bash")).toMatchObject({ plugin: "tool-old", legacy: true });
});

test("calls a legacy tool through an event and does not publish its result", async () => {
  const requests: BusEvent[] = [];
  const answers: Record<string, object> = {
    text: { ok: true, value: "x".repeat(200) },
    data: { ok: true, value: { n: 1 } },
    none: { ok: true },
    error: { ok: false, error: "no such file" },
    envelope: { ok: true, envelope: ok("enveloped") },
  };
  const onEvent = async (event: BusEvent, ctx: PluginContext) => {
    if (event.kind !== "tool.call.request") return;
    requests.push(event);
    const { id, args } = event.payload as { id: string; args: { want: string } };
    const emit = (payload: object) =>
      ctx.emit("tool.call.result", { id, ...payload } as never, { session_id: event.session_id });
    await emit({ ok: true, value: "stray", request_id: "evt_other" });
    if (args.want === "throw") throw new Error("legacy crash");
    if (args.want !== "silence") await emit({ ...answers[args.want], request_id: event.id });
  };
  const fixture = await createTestPlugins((loader) =>
    loader.add(() => plugin("old", "tool", { toolName: "old", onEvent })),
  );
  const old = fixture.system.tools.get("old")!;
  const runLegacy = (want: string, more = {}) => old.run({ want }, createToolCall(more));
  expect(await runLegacy("text")).toEqual({
    ok: true,
    brief: `${"x".repeat(79)}…`,
    display: { kind: "text", text: "x".repeat(200) },
  });
  expect(requests[0]).toMatchObject({
    session_id: "s1",
    source: "kernel",
    ...scope,
    payload: { id: "call_1", name: "old" },
  });
  expect(await runLegacy("data")).toEqual({
    ok: true,
    brief: "old",
    display: { kind: "json", data: { n: 1 } },
  });
  expect(await runLegacy("none")).toEqual({ ok: true, brief: "old", display: { kind: "json", data: null } });
  const failed = {
    ok: false,
    kind: "failed",
    brief: "no such file",
    display: { kind: "text", text: "no such file" },
  };
  expect(await runLegacy("error")).toEqual(failed);
  expect(await runLegacy("envelope")).toEqual(ok("enveloped"));
  await expect(runLegacy("throw")).rejects.toThrow("legacy crash");
  expect(fixture.system.snapshot()[0]?.failures).toBe(1);
  await drainBus(fixture.bus);
  expect(fixture.events.find(({ kind }) => kind === "plugin.error")?.payload).toEqual({
    name: "old",
    error: "legacy crash",
  });
  const stop = new AbortController();
  const silent = runLegacy("silence", { signal: stop.signal, session_id: null });
  await until(() => requests.length === 7);
  expect(requests[6]?.session_id).toBe("_bridge:old");
  stop.abort();
  expect(await codeOfRejected(silent)).toBe("cancelled");
  await drainBus(fixture.bus);
  expect(fixture.events.filter(({ kind }) => kind === "tool.call.result")).toEqual([]);
  expect(fixture.logged.filter(({ message }) => message.includes("no call waits for"))).toHaveLength(7);
});

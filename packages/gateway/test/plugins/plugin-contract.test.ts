/** Kernel plugins behave the same inline, hosted in the sandbox and hosted without it. */
import { join } from "node:path";
import {
  type AdapterResponse,
  BackplaneError,
  type BusEvent,
  type JsonObject,
  PLUGIN_METHODS,
  type PluginContext,
  type ToolReturn,
} from "@backplane/contract";
import type { LoadedPlugin } from "@backplane/ports";
import { describe, expect, test } from "vitest";
import {
  FIXTURES,
  findEntry,
  LOADING_MODES,
  loadIntoTestKernel,
  NO_NETWORK,
  catchRejection,
  usePluginLoaders,
} from "./use-plugin-loaders.ts";

usePluginLoaders();

describe.each(LOADING_MODES)("%s", (_how, mode, loader) => {
  const withPlugin = async (name: string, work: (loaded: LoadedPlugin) => Promise<void>) => {
    const loaded = await loader.load(findEntry(name), mode, NO_NETWORK);
    try {
      await work(loaded);
    } finally {
      await loaded.close();
    }
  };

  test("loads a tool plugin and calls its tools", () =>
    withPlugin("shop", async ({ plugin }) => {
      expect({ ...plugin, subscriptions: plugin.subscriptions() }).toMatchObject({
        name: "shop",
        version: "1.2.3",
        category: "tool",
        requires: ["emitter"],
        configSchema: { type: "object", properties: { open: { type: "boolean" } } },
        subscriptions: [],
      });
      expect(PLUGIN_METHODS.filter((method) => method in plugin)).toEqual(["onLoad", "healthCheck"]);
      const run = await loadIntoTestKernel(plugin, { config: { open: true } });
      expect([...run.tools.keys()]).toEqual(["upper", "wait", "broken", "buy"]);
      // The plugin registered one tool twice and received the error with its code.
      expect(run.logs).toMatchObject([
        {
          level: "warn",
          fields: { code: "plugin.invalid" },
          message: "A tool named upper is already registered.",
        },
      ]);
      const { description, effect_class, parameters, timeout_ms } = run.tools.get("upper")!;
      expect({ description, effect_class, parameters, timeout_ms }).toEqual({
        description: "Shouts.",
        effect_class: "read_only",
        parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
        timeout_ms: 5_000,
      });
      expect(await run.tool("upper", { text: "hé" }, { as: "user-1" })).toEqual({
        ok: true,
        brief: "shouted",
        display: { kind: "json", data: { said: "HÉ" } },
      });
      expect(run.progress).toEqual([
        { type: "progress", message: "shouting", as: "user-1", session: "test" },
      ]);
      expect(await run.tools.get("buy")!.approvalBrief!({ text: "milk" })).toBe("Buy milk?");
      expect(run.tools.get("buy")).toMatchObject({
        requires_approval: true,
        risk: "high",
        category: "money",
        deferred: true,
      });
      expect("approvalBrief" in run.tools.get("upper")!).toBe(false);
      expect(await run.tools.get("buy")!.preApprove!({ text: "milk" })).toBe(true);
      expect(await run.tools.get("buy")!.preApprove!({ text: "gold" })).toBe(false);
      expect("preApprove" in run.tools.get("upper")!).toBe(false);
      expect(await run.health()).toEqual({ status: "ok", summary: "open" });
      run.setConfig({});
      expect(await run.health()).toEqual({ status: "degraded", summary: "closed", details: [] });
    }));

  test("aborts the signal of a running tool, and of a tool that is cancelled before it starts", () =>
    withPlugin("shop", async ({ plugin }) => {
      const run = await loadIntoTestKernel(plugin);
      const stop = new AbortController();
      const waiting_call = run.tool("wait", {}, { signal: stop.signal });
      await expect.poll(() => run.progress.length).toBe(1);
      // Another call on the same plugin is not affected.
      const unaffected_call = run.tool("wait", {}, { signal: new AbortController().signal });
      stop.abort();
      expect(await waiting_call).toMatchObject({ ok: false, kind: "timeout", brief: "stopped" });
      expect(await run.tool("wait", {}, { signal: AbortSignal.abort() })).toMatchObject({ brief: "stopped" });
      const first_ended = await Promise.race([
        unaffected_call.then(
          () => "ended",
          () => "ended",
        ),
        run.tool("upper", { text: "x" }),
      ]);
      expect((first_ended as ToolReturn).brief).toBe("shouted");
    }));

  test("keeps name, message and stack of an error that a tool throws", () =>
    withPlugin("shop", async ({ plugin }) => {
      const run = await loadIntoTestKernel(plugin);
      const error = await catchRejection(run.tool("broken", {}));
      expect({ name: error.name, message: error.message }).toEqual({
        name: "TypeError",
        message: "the shelf is empty",
      });
      expect(error.stack).toContain(join(FIXTURES, "shop/plugin.mjs"));
    }));

  test("calls adapter routes and services on behalf of the caller", () =>
    withPlugin("greeter", async ({ plugin }) => {
      expect(plugin.routes?.map(({ method, path, scope }) => [method, path, scope])).toEqual([
        ["GET", "/hello/{name}", "sessions:read"],
        ["POST", "/call-service", "sessions:write"],
      ]);
      expect(plugin.subscriptions()).toEqual(["assistant.message.*"]);
      const run = await loadIntoTestKernel(plugin, {
        services: { "greeter.greet": (args, as) => ({ args, as: as ?? null }) },
      });
      const callService = (body: JsonObject): Promise<AdapterResponse> =>
        run.request("POST /call-service", { body, as: "request-7" });
      expect(await run.request("GET /hello/{name}", { params: { name: "Åse" }, query: { a: "1" } })).toEqual({
        status: 200,
        body: { hello: "Åse", query: { a: "1" } },
        headers: { "x-greeter": "hello" },
      });
      expect(await callService({ empty: true })).toEqual({ status: 204 });
      expect(await callService({ service: "greeter.greet" })).toEqual({
        status: 200,
        body: { args: { n: 1 }, as: "request-7" },
      });
      expect(await callService({ service: "safe.open" })).toMatchObject({
        status: 403,
        body: { code: "policy.denied", message: "safe.open is not granted." },
      });
      expect(await catchRejection(callService({ fail: true }))).toMatchObject({
        name: "RangeError",
        message: "the scripted failure",
      });
    }));

  test("delivers and emits events in order, and can be unloaded twice", () =>
    withPlugin("emitter", async ({ plugin }) => {
      const provider = (id: string, owner: string) => ({ id, plugin: owner, label: `the ${id}`, config: {} });
      const run = await loadIntoTestKernel(plugin, {
        config: { api_key: "sk-0123456789", tone: "low" },
        providers: [provider("main", "emitter"), provider("spare", "emitter"), provider("other", "llm-echo")],
        active_provider: "spare",
      });
      const { id } = await run.event("llm.call.request", {}, { session_id: "s1" });
      expect(run.emitted.map(({ kind, payload, session_id }) => [session_id, kind, payload])).toEqual([
        ["s1", "llm.call.delta", { content: "a", request_id: id }],
        ["s1", "llm.call.delta", { content: "b", request_id: id }],
        [
          "s1",
          "llm.call.response",
          {
            text: "ab",
            usage: {},
            request_id: id,
            last: "string",
            facts: {
              config: { tone: "low" },
              key: 13,
              all: 3,
              mine: ["main", "spare"],
              one: "the main",
              none: null,
              active: "spare",
            },
          },
        ],
      ]);
      await run.unload();
      await run.unload();
      await expect
        .poll(() => run.logs.map(({ fields, level, message }) => [level, fields, message]))
        .toEqual([
          ["info", { folder: true }, "emitter is loaded"],
          ["info", { unloads: 1 }, "unloaded"],
          ["info", { unloads: 2 }, "unloaded"],
        ]);
    }));

  test("reports an error thrown by an event handler to the kernel with its code", () =>
    withPlugin("emitter", async ({ plugin }) => {
      const run = await loadIntoTestKernel(plugin);
      // `crashed` is also the code for the exit of a process, but here the plugin itself throws it.
      for (const code of ["E_MUTE", "crashed", "policy.denied"]) {
        const error = await catchRejection(run.event("llm.call.request", { fail: code }));
        expect(error).toMatchObject({ name: "Error", message: "no words", code });
        expect(error.stack).toContain(join(FIXTURES, "emitter/plugin.mjs"));
      }
    }));

  test("keeps the context of each event separate, even after it has been handled", () =>
    withPlugin("emitter", async ({ plugin }) => {
      const emitted: string[] = [];
      const { ctx } = await loadIntoTestKernel(plugin);
      const scoped = (org: string): PluginContext => ({
        ...ctx,
        async emit(kind, payload) {
          if (kind === "kernel.ready") throw new BackplaneError("policy.denied", "Not yours.");
          const { error, text } = payload as { text?: string; error?: string };
          emitted.push(`${org} ${kind} ${text ?? error}`);
          return { id: org };
        },
      });
      const event = (org_id: string, payload: JsonObject): BusEvent => ({
        id: "e1",
        kind: "llm.call.request",
        session_id: "s1",
        ts: 0,
        source: "kernel",
        org_id,
        project_id: null,
        payload,
      });
      await plugin.onEvent!(event("org_a", { later: true }), scoped("org_a"));
      await plugin.onEvent!(event("org_b", { forbidden: true }), scoped("org_b"));
      await expect.poll(() => emitted.length).toBe(2);
      expect(emitted.sort()).toEqual([
        "org_a llm.call.response later",
        "org_b llm.call.error refused: policy.denied",
      ]);
    }));

  test("reports an error in onLoad with its stack", () =>
    withPlugin("fails-on-load", async ({ plugin }) => {
      const error = await catchRejection(loadIntoTestKernel(plugin));
      expect(error.message).toBe("not today");
      expect(error.stack).toMatch(/at failToLoad \(.*fails-on-load\/plugin\.mjs/);
    }));

  test("answers a health check while an event handler hangs", () =>
    withPlugin("sleeper", async ({ plugin }) => {
      const run = await loadIntoTestKernel(plugin);
      const hanging = run.event("x.sleeper.a", {}).then(
        () => "ended",
        () => "failed",
      );
      expect(await run.health()).toEqual({ status: "ok", summary: "no checks registered" });
      expect(await Promise.race([hanging, Promise.resolve("open")])).toBe("open");
    }));
});

/** One suite for kernel plugins, run inline, hosted in the sandbox and hosted without: whoever holds a loaded plugin cannot tell which it is. */
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type AdapterAnswer,
  BackplaneError,
  type BusEvent,
  codeOf,
  type JsonObject,
  type KernelPlugin,
  PLUGIN_METHODS,
  type PluginContext,
  type ToolReturn,
} from "@backplane/contract";
import type { LoadedPlugin } from "@backplane/kernel/ports";
import { type KernelTestOptions, testKernelPlugin } from "@backplane/sdk/testing";
import { afterAll, describe, expect, test } from "vitest";
import { logTo } from "../../../test/support/log-to.ts";
import { confinedLoader } from "../../../test/support/confined-loader.ts";
import { systemClock } from "../src/clock.ts";
import { createPluginLoader } from "../src/plugin-loader.ts";

const FIXTURES = join(import.meta.dirname, "fixtures/plugins");
const home = mkdtempSync(join(tmpdir(), "backplane-contract-"));
const names = ["shop", "door", "teller", "grump", "sleeper"];
const options = {
  home,
  clock: systemClock(),
  log: logTo(),
  bundled_roots: names.map((name) => join(FIXTURES, name)),
  timeouts: { on_load_ms: 1_500, stop_ms: 500 },
};
const plain = createPluginLoader(options);
const confined = confinedLoader(options);
const { entries } = await plain.discover();
const NO_REACH = { allowed_domains: [] };

afterAll(async () => {
  await plain.close();
  await confined.close();
  rmSync(home, { recursive: true });
});

const entryOf = (name: string) => entries.find((entry) => entry.name === name)!;
const loadInto = (plugin: KernelPlugin, options: KernelTestOptions = {}) =>
  testKernelPlugin(plugin, { state_dir: home, ...options });
const rejection = async (work: Promise<unknown>): Promise<Error & { code?: string }> =>
  await work.then(
    () => expect.unreachable("it should have thrown"),
    (error) => error as Error,
  );

describe.each([
  ["inline", "inline", plain],
  ["hosted", "hosted", confined],
  ["hosted, the sandbox switched off", "hosted", plain],
] as const)("%s", (_how, mode, loader) => {
  const using = async (name: string, work: (loaded: LoadedPlugin) => Promise<void>) => {
    const loaded = await loader.load(entryOf(name), mode, NO_REACH);
    try {
      await work(loaded);
    } finally {
      await loaded.close();
    }
  };

  test("a tool plugin: its description, its tools, their answers", () =>
    using("shop", async ({ plugin }) => {
      expect({ ...plugin, subscriptions: plugin.subscriptions() }).toMatchObject({
        name: "shop",
        version: "1.2.3",
        category: "tool",
        requires: ["teller"],
        configSchema: { type: "object", properties: { open: { type: "boolean" } } },
        subscriptions: [],
      });
      expect(PLUGIN_METHODS.filter((method) => method in plugin)).toEqual(["onLoad", "healthCheck"]);
      const run = await loadInto(plugin, { config: { open: true } });
      expect([...run.tools.keys()]).toEqual(["upper", "wait", "broken", "buy"]);
      // It tried to register one twice; the refusal reached it with its code.
      expect(run.logs).toMatchObject([
        { level: "warn", fields: { code: "plugin.invalid" }, message: "There is a tool upper already." },
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
      expect(await run.health()).toEqual({ status: "ok", summary: "open" });
      run.setConfig({});
      expect(await run.health()).toEqual({ status: "degraded", summary: "closed", details: [] });
    }));

  test("a running tool hears the signal; one that is stopped before it begins does too", () =>
    using("shop", async ({ plugin }) => {
      const run = await loadInto(plugin);
      const stop = new AbortController();
      const answer = run.tool("wait", {}, { signal: stop.signal });
      await expect.poll(() => run.progress.length).toBe(1);
      // Another call on the same plugin is not touched by it.
      const other = run.tool("wait", {}, { signal: new AbortController().signal });
      stop.abort();
      expect(await answer).toMatchObject({ ok: false, kind: "timeout", brief: "stopped" });
      expect(await run.tool("wait", {}, { signal: AbortSignal.abort() })).toMatchObject({ brief: "stopped" });
      const still = await Promise.race([
        other.then(
          () => "ended",
          () => "ended",
        ),
        run.tool("upper", { text: "x" }),
      ]);
      expect((still as ToolReturn).brief).toBe("shouted");
    }));

  test("what a tool throws keeps its name, its words and its author's trace", () =>
    using("shop", async ({ plugin }) => {
      const run = await loadInto(plugin);
      const error = await rejection(run.tool("broken", {}));
      expect({ name: error.name, message: error.message }).toEqual({
        name: "TypeError",
        message: "the shelf is empty",
      });
      expect(error.stack).toContain(join(FIXTURES, "shop/plugin.mjs"));
    }));

  test("an adapter: routes, answers, services in the name of whoever asked", () =>
    using("door", async ({ plugin }) => {
      expect(plugin.routes?.map(({ method, path, scope }) => [method, path, scope])).toEqual([
        ["GET", "/hello/{name}", "sessions:read"],
        ["POST", "/knock", "sessions:write"],
      ]);
      expect(plugin.subscriptions()).toEqual(["assistant.message.*"]);
      const run = await loadInto(plugin, {
        services: { "door.open": (args, as) => ({ args, as: as ?? null }) },
      });
      const knock = (body: JsonObject): Promise<AdapterAnswer> =>
        run.request("POST /knock", { body, as: "request-7" });
      expect(await run.request("GET /hello/{name}", { params: { name: "Åse" }, query: { a: "1" } })).toEqual({
        status: 200,
        body: { hello: "Åse", query: { a: "1" } },
        headers: { "x-door": "open" },
      });
      expect(await knock({ empty: true })).toEqual({ status: 204 });
      expect(await knock({ service: "door.open" })).toEqual({
        status: 200,
        body: { args: { n: 1 }, as: "request-7" },
      });
      expect(await knock({ service: "safe.open" })).toMatchObject({
        status: 403,
        body: { code: "policy.denied", message: "safe.open is not granted." },
      });
      expect(await rejection(knock({ fall: true }))).toMatchObject({
        name: "RangeError",
        message: "fell over the doorstep",
      });
    }));

  test("an emitter: what it reads, what it emits, in order; unloading may come twice", () =>
    using("teller", async ({ plugin }) => {
      const provider = (id: string, owner: string) => ({ id, plugin: owner, label: `the ${id}`, config: {} });
      const run = await loadInto(plugin, {
        config: { api_key: "sk-0123456789", tone: "low" },
        providers: [provider("main", "teller"), provider("spare", "teller"), provider("other", "llm-echo")],
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
          ["info", { folder: true }, "teller is loaded"],
          ["info", { unloads: 1 }, "unloaded"],
          ["info", { unloads: 2 }, "unloaded"],
        ]);
    }));

  test("what an event handler throws goes to the kernel, with its own code", () =>
    using("teller", async ({ plugin }) => {
      const run = await loadInto(plugin);
      // `crashed` is also what the end of a process is called; here it is only a word.
      for (const code of ["E_MUTE", "crashed", "policy.denied"]) {
        const error = await rejection(run.event("llm.call.request", { fail: code }));
        expect(error).toMatchObject({ name: "Error", message: "no words", code });
        expect(error.stack).toContain(join(FIXTURES, "teller/plugin.mjs"));
      }
    }));

  test("each event has its own context, also after it was handled", () =>
    using("teller", async ({ plugin }) => {
      const told: string[] = [];
      const { ctx } = await loadInto(plugin);
      const scoped = (org: string): PluginContext => ({
        ...ctx,
        async emit(kind, payload) {
          if (kind === "kernel.ready") throw new BackplaneError("policy.denied", "Not yours.");
          const { error, text } = payload as { text?: string; error?: string };
          told.push(`${org} ${kind} ${text ?? error}`);
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
      await expect.poll(() => told.length).toBe(2);
      expect(told.sort()).toEqual([
        "org_a llm.call.response later",
        "org_b llm.call.error refused: policy.denied",
      ]);
    }));

  test("a throw in onLoad comes with the author's trace", () =>
    using("grump", async ({ plugin }) => {
      const error = await rejection(loadInto(plugin));
      expect(error.message).toBe("not today");
      expect(error.stack).toMatch(/at complain \(.*grump\/plugin\.mjs/);
    }));

  test("an event that hangs stays open and holds up nothing else", () =>
    using("sleeper", async ({ plugin }) => {
      const run = await loadInto(plugin);
      const hanging = run.event("x.sleeper.a", {}).then(
        () => "ended",
        () => "failed",
      );
      expect(await run.health()).toEqual({ status: "ok", summary: "no checks registered" });
      expect(await Promise.race([hanging, Promise.resolve("open")])).toBe("open");
    }));

  test.each([
    ["a syntax error", "export const plugin = {", /could not be loaded: (?!undefined)/],
    ["a throw at import", "throw new Error('no import today');", /could not be loaded: no import today$/],
    ["no plugin", "export const other = 1;", "The module of odd exports no `plugin`."],
    [
      "another name",
      pluginText({ name: "even" }),
      /not valid: it calls itself "even"; package.json says odd/,
    ],
    ["another category", pluginText({ category: "skill" }), /its category is skill; package.json says tool/],
    [
      "no such category",
      pluginText({ category: "gadget" }),
      /its category "gadget" is none of adapter, tool/,
    ],
    ["no subscriptions", pluginText({ subscriptions: 1 }), /subscriptions is no function/],
  ])("a module with %s is refused, in the same words", async (_what, text, message) => {
    const dir = openFolder();
    const module = join(dir, "odd.mjs");
    writeFileSync(module, text);
    const odd = { ...entryOf("shop"), name: "odd", dir, module };
    const error = await rejection(loader.load(odd, mode, NO_REACH));
    expect(codeOf(error)).toBe("plugin.invalid");
    if (typeof message === "string") expect(error.message).toBe(message);
    else expect(error.message).toMatch(message);
    if (text.startsWith("throw")) expect(error.stack).toContain(`${module}`);
  });

  test("a changed file is read anew", async () => {
    const dir = openFolder();
    const entry = { ...entryOf("shop"), name: "odd", dir, module: join(dir, "odd.mjs") };
    const versions: string[] = [];
    for (const version of ["1.0.0", "1.0.1"]) {
      writeFileSync(entry.module, pluginText({ version }));
      const loaded = await loader.load(entry, mode, NO_REACH);
      versions.push(loaded.plugin.version);
      await loaded.close();
    }
    expect(versions).toEqual(["1.0.0", "1.0.1"]);
  });
});

/** Only a process can be ended: inline, a hang is for ever, which is why it takes the operator's trust. */
describe.each([
  ["in the sandbox", confined],
  ["as a plain process", plain],
] as const)("hosted alone, %s", (_how, loader) => {
  test("an onLoad that hangs is killed, and the error says so", async () => {
    const loaded = await loader.load(entryOf("sleeper"), "hosted", NO_REACH);
    const error = await rejection(loadInto(loaded.plugin, { config: { where: "load" } }));
    expect(codeOf(error)).toBe("launch_failed");
    expect(error.message).toBe(
      "sleeper did not finish onLoad within 1500 ms, so its process was killed. Its last words on stderr: about to sleep",
    );
    await loaded.close();
  });

  test.each([
    ["crash", /^The process of sleeper ended with exit code 1\. .*fell out of bed/, "plugin.mjs"],
    ["exit", /^The process of sleeper ended with exit code 7\./, "about to sleep"],
  ])("a process that ends by itself (%s) is told once, with its last words", async (how, message, trace) => {
    const loaded = await loader.load(entryOf("sleeper"), "hosted", NO_REACH);
    const run = await loadInto(loaded.plugin);
    const told: Error[] = [];
    const exited = new Promise<void>((resolve) => {
      loaded.onExit((error) => {
        told.push(error);
        resolve();
      });
    });
    const failure = await rejection(run.event("x.sleeper.a", { [how]: true }));
    await exited;
    await loaded.close();
    expect(told.map((error) => error.message)).toEqual([failure.message]);
    expect(failure.message).toMatch(message);
    expect(failure.stack).toContain(trace);
    expect(codeOf(failure)).toBe("crashed");
    // Nothing is left to unload.
    await loaded.plugin.onUnload?.(run.ctx);
  });

  test("one that spins is ended all the same", async () => {
    const loaded = await loader.load(entryOf("sleeper"), "hosted", NO_REACH);
    // The folder that the kernel names is the one that the process writes to, whatever it is called in there.
    const state_dir = loader.stateDir("sleeper");
    rmSync(join(state_dir, "spins"), { force: true });
    const run = await loadInto(loaded.plugin, { state_dir });
    const spinning = rejection(run.event("x.sleeper.a", { spin: true }));
    await expect.poll(() => existsSync(join(state_dir, "spins"))).toBe(true);
    await loaded.close();
    await loaded.close();
    expect((await spinning).message).toMatch(
      /^The process of sleeper was ended because the plugin is unloaded/,
    );
  });
});

/** In a sandbox the plugin is another user, so its folder must be open to others. */
function openFolder(): string {
  const dir = mkdtempSync(join(home, "odd-"));
  chmodSync(dir, 0o755);
  return dir;
}

function pluginText(fields: Record<string, unknown>): string {
  const values = { name: "odd", version: "1.0.0", category: "tool", ...fields };
  const subscriptions = "subscriptions" in fields ? "" : "subscriptions: () => [],";
  return `export const plugin = { ...${JSON.stringify(values)}, ${subscriptions} };`;
}

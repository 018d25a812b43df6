/** Instrument plugins on a real gateway: the bundled host, timeouts, access modes, trust, access to models. */
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import {
  base,
  gateway,
  install,
  invoke,
  restart,
  unload,
  useInstrumentGateway,
  writePlugin,
} from "../support/plugins/instrument-gateway.ts";
import { verifies } from "../support/verifies.ts";

useInstrumentGateway();

const HELLO = resolve("examples/hello-instrument");

verifies(
  "instr.timeouts",
  "uses the caller's timeout, otherwise the default, capped by maxTimeoutMs",
  async () => {
    const source = `
    import { InstrumentResult } from "@backplane/sdk/instruments";
    const wait = (name, more) => ({
      name,
      riskLevel: "ReadOnly",
      metadata: { name, category: "Application", description: "Waits.", ...more },
      invoke: (_params, call) => new Promise((done) => {
        const timer = setTimeout(() => done(InstrumentResult.data(call.timeoutMs)), 60_000);
        call.signal.addEventListener("abort", () => { clearTimeout(timer); done(InstrumentResult.data("aborted")); }, { once: true });
      }),
    });
    export const Provider = {
      initialize() {},
      instruments: [wait("wait_short", { defaultTimeoutMs: 700, maxTimeoutMs: 1500 })],
    };
  `;
    const installed = await install(writePlugin("waits", { isolationMode: "External" }, source));
    expect(installed.body).toMatchObject({ state: "running", error: null });
    for (const [input, timeout_ms] of [
      [undefined, 700],
      [400, 400],
      [900_000, 1_500],
    ] as const) {
      const call = await invoke("wait_short", {}, input === undefined ? {} : { timeout_ms: input });
      expect(call).toMatchObject({ status: "failed", timeout_ms, error: { code: "timeout" } });
    }
    await unload("waits");
  },
);

verifies(
  "instr.exclusive",
  "runs calls of an Exclusive instrument one at a time and of a Shared one concurrently",
  async () => {
    const source = `
    import { InstrumentResult } from "@backplane/sdk/instruments";
    const running = { alone: 0, together: 0 };
    const make = (name, accessMode) => ({
      name,
      riskLevel: "ReadOnly",
      metadata: { name, category: "Application", description: "Counts the calls that run at the same time.", accessMode },
      async invoke() {
        running[name]++;
        await new Promise((done) => setTimeout(done, 300));
        const concurrent = running[name];
        running[name]--;
        return InstrumentResult.data(concurrent);
      },
    });
    export class Provider {
      initialize() {}
      instruments = [make("alone", "Exclusive"), make("together", "Shared")];
    }
  `;
    await install(writePlugin("access", { isolationMode: "External" }, source));
    const maxConcurrent = async (name: string) => {
      const calls = await Promise.all([1, 2, 3, 4].map(() => invoke(name, {})));
      expect(calls.map(({ status }) => status)).toEqual(["succeeded", "succeeded", "succeeded", "succeeded"]);
      return Math.max(...calls.map(({ tool_result }) => Number(tool_result?.structured_output)));
    };
    expect(await maxConcurrent("alone")).toBe(1);
    expect(await maxConcurrent("together")).toBeGreaterThan(1);
    await unload("access");
  },
);

test("keeps the data folder of the TypeScript example across a restart of the gateway", async () => {
  expect((await install(HELLO, { config: { greeting: "Ahoj" } })).body).toMatchObject({
    plugin_id: "hello-world",
    class: "isolated",
    state: "running",
    instruments: [
      { name: "hello_world", origin: "plugin:hello-world", risk: "medium" },
      { name: "hello_summary", risk: "low" },
    ],
  });
  expect(await invoke("hello_world", { name: "Ada" })).toMatchObject({
    status: "succeeded",
    class: "isolated",
    tool_result: { content: [{ type: "text", text: "Ahoj, Ada! (1)" }] },
  });
  // Denied by the plugin's own rule.
  expect(await invoke("hello_world", { name: "root" })).toMatchObject({ error: { code: "policy.denied" } });
  expect(await invoke("hello_summary", { text: "x" })).toMatchObject({
    status: "failed",
    error: { details: { plugin_code: "UnsupportedOperation" } },
  });
  const { home } = gateway;
  await gateway.stop();
  await restart();
  expect(await invoke("hello_world", {})).toMatchObject({
    tool_result: { content: [{ type: "text", text: "Ahoj, World! (2)" }] },
  });
  const greeted = "data/plugins/hello-world/org_local/proj_default/greeted";
  expect(readFileSync(join(home, greeted), "utf8")).toBe("2");
});

verifies(
  "instr.isolation",
  "refuses an untrusted in-process plugin with the remedy, and runs a trusted one with access to the models",
  async () => {
    const folder = join(base, "trusted");
    cpSync(HELLO, folder, { recursive: true });
    const file = join(folder, "META-INF/hefty-plugin.json");
    const manifest = JSON.parse(readFileSync(file, "utf8"));
    writeFileSync(
      file,
      JSON.stringify({ ...manifest, version: "2.0.0", isolationMode: "ClassLoaderIsolated" }),
    );
    const refused = await install(folder);
    expect(refused.body).toMatchObject({
      version: "2.0.0",
      state: "skipped",
      error: { code: "plugin.untrusted" },
    });
    expect(refused.body.error?.message).toMatch(/--class worker.*--class inline/);
    const trusted = await install(folder, { class: "inline" });
    expect(trusted.body).toMatchObject({ state: "running", class: "inline", error: null });
    const summarized = await invoke("hello_summary", { text: "a long story" });
    expect(summarized).toMatchObject({ status: "succeeded", class: "inline" });
    expect(summarized.tool_result?.structured_output).toMatchObject({
      summary: expect.any(String),
      dimensions: 256,
    });
    const audit = await gateway.http<{ items: { action: string; actor: string; details: object }[] }>(
      "GET",
      "/v1/audit?action=cognition.request",
    );
    expect(audit.body.items).toMatchObject([
      { actor: "plugin:hello-world", details: { provider: expect.any(String), usage: expect.any(Object) } },
    ]);
    expect(JSON.stringify(audit.body)).not.toContain("a long story");
    await unload("hello-world");
  },
);

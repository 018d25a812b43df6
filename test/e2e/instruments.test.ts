/** Instrument plugins from outside: a real gateway, a real jar, the ready host, trust, the models, the admin's tools. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Approval, InstrumentPluginView, Invocation } from "@backplane/contract";
import { type Client, createClient } from "@backplane/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { buildJar, missingJdk } from "../../examples/java-instrument/test/build-jar.ts";
import { zip } from "../../packages/supply/test/zip-bytes.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { verifies } from "../support/verifies.ts";

const HELLO = resolve("examples/hello-instrument");
const base = mkdtempSync(join(tmpdir(), "backplane-instruments-"));
let gateway: TestGateway;
let client: Client;

beforeAll(async () => {
  gateway = await startTestGateway();
  client = createClient({ url: gateway.url, token: gateway.token });
});
afterAll(async () => {
  await gateway.dispose();
  rmSync(base, { recursive: true, force: true });
});

const install = (path: string, more: object = {}) =>
  gateway.http<InstrumentPluginView>("POST", "/v1/instrument-plugins", { path, ...more });
const list = async () =>
  (await gateway.http<{ items: InstrumentPluginView[] }>("GET", "/v1/instrument-plugins")).body.items;
const unload = (id: string) => gateway.http("DELETE", `/v1/instrument-plugins/${id}`);
async function invoke(export_id: string, input: object, more: object = {}): Promise<Invocation> {
  const { body } = await gateway.http<Invocation>("POST", "/v1/invocations?wait=30", {
    export_id,
    input,
    ...more,
  });
  return body;
}

/** A folder with a plugin of its own. */
function plugin(id: string, changes: object, provider: string): string {
  const folder = join(base, id);
  mkdirSync(join(folder, "META-INF"), { recursive: true });
  const manifest = {
    id,
    name: id,
    version: "1.0.0",
    author: "us",
    description: "For a test.",
    providerClass: "./provider.mjs#Provider",
    ...changes,
  };
  writeFileSync(join(folder, "META-INF/hefty-plugin.json"), JSON.stringify(manifest));
  writeFileSync(join(folder, "provider.mjs"), provider);
  return folder;
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await holds())) {
    if (Date.now() > end)
      throw new Error(`still not so after a minute: ${holds.toString()}\n${gateway.log()}`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** A provider that writes down what happens to it. */
function diary(id: string): string {
  return `
    import { appendFileSync } from "node:fs";
    import { join } from "node:path";
    const name = ${JSON.stringify(id.replaceAll("-", "_"))};
    export class Provider {
      initialize({ dataDir }) {
        this.note = (line) => appendFileSync(join(dataDir, "life"), line + "\\n");
        this.note("initialize");
      }
      instruments = [{ name, riskLevel: "ReadOnly", metadata: { name, category: "Shell", description: "x" }, invoke() {} }];
      shutdown() {
        this.note("shutdown");
      }
    }`;
}

verifies("instr.timeouts", "the caller's time, else the default, capped by maxTimeoutMs", async () => {
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
  const installed = await install(plugin("waits", { isolationMode: "External" }, source));
  expect(installed.body).toMatchObject({ state: "running", error: null });
  for (const [asked, given] of [
    [undefined, 700],
    [400, 400],
    [900_000, 1_500],
  ] as const) {
    const call = await invoke("wait_short", {}, asked === undefined ? {} : { timeout_ms: asked });
    expect(call).toMatchObject({ status: "failed", timeout_ms: given, error: { code: "timeout" } });
  }
  await unload("waits");
});

verifies("instr.exclusive", "Exclusive runs one at a time, Shared concurrently", async () => {
  const source = `
    import { InstrumentResult } from "@backplane/sdk/instruments";
    const running = { alone: 0, together: 0 };
    const make = (name, accessMode) => ({
      name,
      riskLevel: "ReadOnly",
      metadata: { name, category: "Application", description: "Counts who runs beside it.", accessMode },
      async invoke() {
        running[name]++;
        await new Promise((done) => setTimeout(done, 300));
        const beside = running[name];
        running[name]--;
        return InstrumentResult.data(beside);
      },
    });
    export class Provider {
      initialize() {}
      instruments = [make("alone", "Exclusive"), make("together", "Shared")];
    }
  `;
  await install(plugin("access", { isolationMode: "External" }, source));
  const most = async (name: string) => {
    const calls = await Promise.all([1, 2, 3, 4].map(() => invoke(name, {})));
    expect(calls.map(({ status }) => status)).toEqual(["succeeded", "succeeded", "succeeded", "succeeded"]);
    return Math.max(...calls.map(({ tool_result }) => Number(tool_result?.structured_output)));
  };
  expect(await most("alone")).toBe(1);
  expect(await most("together")).toBeGreaterThan(1);
  await unload("access");
});

test("the TypeScript example behind the ready host: its folder lasts over a restart of the gateway", async () => {
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
  // The plugin's own rule.
  expect(await invoke("hello_world", { name: "root" })).toMatchObject({ error: { code: "policy.denied" } });
  expect(await invoke("hello_summary", { text: "x" })).toMatchObject({
    status: "failed",
    error: { details: { plugin_code: "UnsupportedOperation" } },
  });
  const { home } = gateway;
  await gateway.stop();
  gateway = await startTestGateway({ home });
  client = createClient({ url: gateway.url, token: gateway.token });
  expect(await invoke("hello_world", {})).toMatchObject({
    tool_result: { content: [{ type: "text", text: "Ahoj, World! (2)" }] },
  });
  const { binding_id } = (await list()).find(({ plugin_id }) => plugin_id === "hello-world")!;
  expect(readFileSync(join(home, "data", binding_id, "proj_default/greeted"), "utf8")).toBe("2");
});

verifies(
  "instr.isolation",
  "not trusted it is refused with the way out; trusted it runs in the gateway and reaches the models",
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
    const thought = await invoke("hello_summary", { text: "a long story" });
    expect(thought).toMatchObject({ status: "succeeded", class: "inline" });
    expect(thought.tool_result?.structured_output).toMatchObject({
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

verifies(
  "instr.lifecycle",
  "discovered in the plugins folder, loaded in order, skipped without a dependency, shut down; every step is told",
  async () => {
    const { home } = gateway;
    await gateway.stop();
    for (const [id, dependencies, more] of [
      ["a-child", ["z-parent"], {}],
      ["b-orphan", ["nobody"], {}],
      ["c-too-new", [], { minHeftyVersion: "99.0.0" }],
      ["d-elsewhere", [], { platforms: ["Windows"] }],
      ["z-parent", [], {}],
    ] as const) {
      const folder = plugin(id, { isolationMode: "External", dependencies, ...more }, diary(id));
      const files = ["META-INF/hefty-plugin.json", "provider.mjs"];
      const bytes = zip(files.map((name) => ({ name, body: readFileSync(join(folder, name)) })));
      writeFileSync(join(home, "plugins", `${id}.zip`), bytes);
    }
    gateway = await startTestGateway({ home });
    client = createClient({ url: gateway.url, token: gateway.token });
    const states = async () =>
      Object.fromEntries(
        (await list()).map(({ error, plugin_id, state }) => [plugin_id, error?.message ?? state]),
      );
    await until(async () => (await states())["a-child"] === "running");
    expect(await states()).toMatchObject({
      "a-child": "running",
      "b-orphan": "b-orphan is skipped: it depends on nobody, which is not installed and bound here.",
      "z-parent": "running",
    });
    const log = gateway.log();
    expect(log).toContain("needs Hefty 99.0.0, and this host is compatible with 0.22.0");
    for (const words of [
      /"plugin":"z-parent".*an instrument plugin was discovered/,
      /"plugin":"a-child".*an instrument plugin is registered/,
      /"plugin":"a-child".*lists no sideEffects.*an instrument plugin looks wrong/,
      /d-elsewhere\.zip.*package\.platform/,
    ]) {
      expect(
        log.split("\n").some((line) => words.test(line)),
        String(words),
      ).toBe(true);
    }
    const parent = (await list()).find(({ plugin_id }) => plugin_id === "z-parent")!;
    expect(parent.warnings).toEqual([expect.stringContaining("lists no sideEffects")]);
    await unload("z-parent");
    expect((await states())["a-child"]).toContain(
      "it depends on z-parent, which is not installed and bound here",
    );
    const life = join(home, "data", parent.binding_id, "proj_default/life");
    await until(() => readFileSync(life, "utf8") === "initialize\nshutdown\n");
    for (const id of ["a-child", "b-orphan"]) await unload(id);
    for (const name of readdirSync(join(home, "plugins"))) {
      if (name.endsWith(".zip")) rmSync(join(home, "plugins", name));
    }
  },
  120_000,
);

const jdk = missingJdk();
test("a jar that lies in the plugins folder is discovered at the start, and Java answers from the sandbox", async ({
  skip,
}) => {
  if (jdk !== null) {
    console.error(`SKIPPED, not shown: instruments in Java: ${jdk}`);
    skip(jdk);
  }
  const { home } = gateway;
  await gateway.stop();
  cpSync(buildJar(base), join(home, "plugins", "text.jar"));
  writeFileSync(join(home, "plugins", "broken.jar"), "PK\x03\x04 nothing");
  gateway = await startTestGateway({ home });
  client = createClient({ url: gateway.url, token: gateway.token });
  await until(async () => (await list()).some(({ state }) => state === "running"));
  expect(await list()).toMatchObject([{ plugin_id: "java-text", state: "running", class: "isolated" }]);
  expect(gateway.log()).toContain("broken.jar");
  expect(await invoke("word_count", { text: "a b a" })).toMatchObject({
    status: "succeeded",
    tool_result: { structured_output: { words: 3, counts: { a: 2, b: 1 } } },
  });
  const notes = await Promise.all(["one", "two", "three"].map((text) => invoke("note_append", { text })));
  expect(notes.map(({ status }) => status)).toEqual(["succeeded", "succeeded", "succeeded"]);
  expect(existsSync(join(home, "data"))).toBe(true);
}, 180_000);

verifies(
  "instr.admin",
  "an admin's agent lists, installs and unloads; each is approved; nobody else may",
  async () => {
    const source = `export const Provider = { initialize() {}, instruments: [{ name: "late_comer", riskLevel: "ReadOnly",
    metadata: { name: "late_comer", category: "Application", description: "Came late." },
    invoke: () => ({ status: "Success", data: "here" }) }] };`;
    const path = plugin("late", { isolationMode: "External" }, source);
    const say = async (text: string) => {
      const { body: run } = await gateway.http<{ id: string; status: string }>("POST", "/v1/runs", {
        session_id: "admin-talk",
        input: { text },
      });
      let asked: Approval | undefined;
      for (;;) {
        const now = await client.runs.get(run.id);
        if (now.status !== "running") break;
        const { items } = await client.approvals.list({ status: "pending" });
        if (items[0] !== undefined && asked === undefined) {
          asked = items[0];
          await client.approvals.answer(asked.id, { response: "approve" });
        }
        await new Promise((done) => setTimeout(done, 50));
      }
      return asked;
    };
    expect(await say(`/tool plugin_install ${JSON.stringify({ path })}`)).toMatchObject({ risk: "high" });
    expect((await list()).find(({ plugin_id }) => plugin_id === "late")).toMatchObject({ state: "running" });
    expect(await invoke("late_comer", {})).toMatchObject({ status: "succeeded" });
    expect(await say("/tool plugins_list {}")).toMatchObject({ risk: "high" });
    const calls = await gateway.http<{ items: Invocation[] }>(
      "GET",
      "/v1/invocations?export_id=plugins_list",
    );
    expect(JSON.stringify(calls.body.items[0]?.result)).toContain("late_comer");
    expect(await say('/tool plugin_unload {"plugin_id":"late"}')).toMatchObject({ risk: "high" });
    expect((await list()).some(({ plugin_id }) => plugin_id === "late")).toBe(false);
    expect(
      (await gateway.http("POST", "/v1/invocations", { export_id: "late_comer", input: {} })).status,
    ).toBe(404);

    const key = await gateway.http<{ token: string }>("POST", "/v1/keys", {
      name: "a user",
      role: "user",
      scopes: ["invocations:write", "packages:write", "bindings:write"],
    });
    const asUser = { authorization: `Bearer ${key.body.token}` };
    for (const [method, at, body] of [
      ["GET", "/v1/instrument-plugins", undefined],
      ["POST", "/v1/instrument-plugins", { path }],
      ["DELETE", "/v1/instrument-plugins/java-text", undefined],
    ] as const) {
      expect((await gateway.http(method, at, body, asUser)).status).toBe(403);
    }
  },
);

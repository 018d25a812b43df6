/** Instrument plugins in the plugins folder, and those that an admin installs with tools. */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Approval, Invocation } from "@backplane/contract";
import { expect, test } from "vitest";
import { buildJar, missingJdk } from "../../examples/java-instrument/test/build-jar.ts";
import { buildProviderJar } from "../../examples/java-provider/test/build-jar.ts";
import { buildHeftyClasses, packHeftyJar } from "../../examples/java-provider/test/hefty-api.ts";
import { zip } from "../../packages/supply/test/zip-bytes.ts";
import {
  base,
  client,
  gateway,
  install,
  invoke,
  list,
  plugin,
  restart,
  unload,
  until,
  useInstrumentGateway,
} from "../support/instrument-gateway.ts";
import { verifies } from "../support/verifies.ts";

useInstrumentGateway();

/** A provider that logs its lifecycle. */
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

verifies(
  "instr.lifecycle",
  "discovers plugins in the plugins folder, loads them in order, skips one without its dependency, and logs every step",
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
    await restart();
    const states = async () =>
      Object.fromEntries(
        (await list()).map(({ error, plugin_id, state }) => [plugin_id, error?.message ?? state]),
      );
    await until(async () => (await states())["a-child"] === "running");
    expect(await states()).toMatchObject({
      "a-child": "running",
      "b-orphan": "b-orphan is skipped: its dependency nobody is not installed and bound.",
      "z-parent": "running",
    });
    const log = gateway.log();
    expect(log).toContain("needs Hefty 99.0.0, and this host is compatible with 0.22.0");
    for (const pattern of [
      /"plugin":"z-parent".*discovered an instrument plugin/,
      /"plugin":"a-child".*instrument plugin loaded/,
      /"plugin":"a-child".*lists no sideEffects.*instrument plugin has a warning/,
      /d-elsewhere\.zip.*package\.platform/,
    ]) {
      expect(
        log.split("\n").some((line) => pattern.test(line)),
        String(pattern),
      ).toBe(true);
    }
    const parent = (await list()).find(({ plugin_id }) => plugin_id === "z-parent")!;
    expect(parent.warnings).toEqual([expect.stringContaining("lists no sideEffects")]);
    await unload("z-parent");
    expect((await states())["a-child"]).toContain("its dependency z-parent is not installed and bound");
    const life = join(home, "data/plugins/z-parent/org_local/proj_default/life");
    await until(() => readFileSync(life, "utf8") === "initialize\nshutdown\n");
    for (const id of ["a-child", "b-orphan"]) await unload(id);
    for (const name of readdirSync(join(home, "plugins"))) {
      if (name.endsWith(".zip")) rmSync(join(home, "plugins", name));
    }
  },
  120_000,
);

const jdk = missingJdk();

test("discovers a jar in the plugins folder at start and runs it in the sandbox", async ({ skip }) => {
  if (jdk !== null) {
    console.error(`SKIPPED, not shown: instruments in Java: ${jdk}`);
    skip(jdk);
  }
  const { home } = gateway;
  await gateway.stop();
  cpSync(buildJar(base), join(home, "plugins", "text.jar"));
  writeFileSync(join(home, "plugins", "broken.jar"), "PK\x03\x04 nothing");
  await restart();
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

test("runs a Java class without a main in the bundled host, which is compiled at first use", async ({
  skip,
}) => {
  if (jdk !== null) {
    console.error(`SKIPPED, not shown: a provider in Java: ${jdk}`);
    skip(jdk);
  }
  const { body } = await install(buildProviderJar(base), { config: { signature: "me" } });
  expect(body).toMatchObject({ plugin_id: "java-notes", state: "running", class: "isolated", error: null });
  expect(readdirSync(join(gateway.home, "programs"))).toEqual([
    expect.stringMatching(/^instrument-host-.*\.jar$/),
    expect.stringMatching(/^instrument-host-.*\.jar\.sha256$/),
  ]);
  const [kept, waited] = await Promise.all([
    invoke("note_keep", { text: "milk" }),
    invoke("wait_a_while", { ms: 10 }),
  ]);
  expect(kept).toMatchObject({
    status: "succeeded",
    tool_result: { structured_output: { notes: 1, signature: "me" } },
  });
  expect(waited).toMatchObject({ tool_result: { content: [{ text: "waited 10 ms" }] } });
  expect(await invoke("note_keep", { text: "my password" })).toMatchObject({
    error: { code: "policy.denied" },
  });
  const slow = await invoke("wait_a_while", { ms: 60_000 }, { timeout_ms: 500 });
  expect(slow).toMatchObject({ status: "failed", error: { code: "timeout" } });
}, 180_000);

verifies(
  ["instr.manifest", "instr.external-host"],
  "installs the published manifest with a jar for Hefty's API, and names the jars that a plugin lacks",
  async ({ skip }) => {
    if (jdk !== null) {
      console.error(`SKIPPED, not shown: a jar for Hefty's API: ${jdk}`);
      skip(jdk);
    }
    const manifest = "test/fixtures/published/hefty-plugin.json";
    const folder = join(base, "hefty");
    const classes = buildHeftyClasses(folder);
    const alone = await install(packHeftyJar(classes, folder, manifest, false));
    expect(alone.body).toMatchObject({
      plugin_id: "hello-world",
      state: "skipped",
      error: { message: expect.stringMatching(/add the jars of hefty-core, the Scala library.*to lib\//) },
      warnings: [expect.stringContaining("declares isolationMode InProcess and runs as External")],
    });
    // The same version with other content is installed after the first was removed.
    await gateway.http("DELETE", `/v1/plugin-bindings/${alone.body.binding_id}`);
    await gateway.cli("plugin", "remove", "hefty/hello-world", "--yes");
    const jar = packHeftyJar(classes, folder, manifest, true);
    const whole = await install(jar, { config: { greeting: "Ahoj" } });
    expect(whole.body).toMatchObject({
      state: "running",
      class: "isolated",
      error: null,
      warnings: [expect.stringContaining("runs as External")],
      instruments: [{ name: "hello_world", origin: "plugin:hello-world", risk: "low" }],
    });
    expect(await invoke("hello_world", { name: "Eva" })).toMatchObject({
      status: "succeeded",
      tool_result: { content: [{ text: expect.stringContaining("Hello, ") }] },
    });
    await unload("hello-world");
  },
  180_000,
);

verifies(
  "instr.admin",
  "lets only an admin's agent list, install and unload plugins, each with an approval",
  async () => {
    const source = `export const Provider = { initialize() {}, instruments: [{ name: "late_comer", riskLevel: "ReadOnly",
    metadata: { name: "late_comer", category: "Application", description: "Came late." },
    invoke: () => ({ status: "Success", data: "here" }) }] };`;
    const path = plugin("late", { isolationMode: "External" }, source);
    const requestTool = async (text: string) => {
      const { body: run } = await gateway.http<{ id: string; status: string }>("POST", "/v1/runs", {
        session_id: "admin-talk",
        input: { text },
      });
      let approval: Approval | undefined;
      for (;;) {
        const now = await client.runs.get(run.id);
        if (now.status !== "running") break;
        const { items } = await client.approvals.list({ status: "pending" });
        if (items[0] !== undefined && approval === undefined) {
          approval = items[0];
          await client.approvals.answer(approval.id, { response: "approve" });
        }
        await new Promise((done) => setTimeout(done, 50));
      }
      return approval;
    };
    expect(await requestTool(`/tool plugin_install ${JSON.stringify({ path })}`)).toMatchObject({
      risk: "high",
    });
    expect((await list()).find(({ plugin_id }) => plugin_id === "late")).toMatchObject({ state: "running" });
    expect(await invoke("late_comer", {})).toMatchObject({ status: "succeeded" });
    expect(await requestTool("/tool plugins_list {}")).toMatchObject({ risk: "high" });
    const calls = await gateway.http<{ items: Invocation[] }>(
      "GET",
      "/v1/invocations?export_id=plugins_list",
    );
    expect(JSON.stringify(calls.body.items[0]?.result)).toContain("late_comer");
    expect(await requestTool('/tool plugin_unload {"plugin_id":"late"}')).toMatchObject({ risk: "high" });
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

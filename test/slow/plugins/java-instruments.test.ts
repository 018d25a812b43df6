/**
 * Instrument plugins in Java: jars in the plugins folder, and providers without a main method in the bundled host.
 */
import { cpSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildJar, findJdkProblem } from "../../../examples/java-instrument/test/build-jar.ts";
import { buildProviderJar } from "../../../examples/java-provider/test/build-jar.ts";
import { buildHeftyClasses, packHeftyJar } from "../../../examples/java-provider/test/hefty-api.ts";
import {
  base,
  gateway,
  install,
  invoke,
  list,
  restart,
  unload,
  until,
  useInstrumentGateway,
} from "../../support/plugins/instrument-gateway.ts";
import { verifies } from "../../support/verifies.ts";

useInstrumentGateway();

const jdk_problem = findJdkProblem();

test("discovers a jar in the plugins folder at start and runs it in the sandbox", async ({ skip }) => {
  if (jdk_problem !== null) {
    console.error(`SKIPPED, not verified: instruments in Java: ${jdk_problem}`);
    skip(jdk_problem);
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

test("runs a Java class without a main method in the bundled host, which is compiled at first use", async ({
  skip,
}) => {
  if (jdk_problem !== null) {
    console.error(`SKIPPED, not verified: a provider in Java: ${jdk_problem}`);
    skip(jdk_problem);
  }
  const { body } = await install(buildProviderJar(base), { config: { signature: "me" } });
  expect(body).toMatchObject({ plugin_id: "java-notes", state: "running", class: "isolated", error: null });
  expect(readdirSync(join(gateway.home, "programs"))).toEqual([
    expect.stringMatching(/^instrument-host-.*\.jar$/),
    expect.stringMatching(/^instrument-host-.*\.jar\.sha256$/),
  ]);
  const [stored, waited] = await Promise.all([
    invoke("note_keep", { text: "milk" }),
    invoke("wait_a_while", { ms: 10 }),
  ]);
  expect(stored).toMatchObject({
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
  "installs a jar for Hefty's API with the published manifest, and names the jars that a plugin lacks",
  async ({ skip }) => {
    if (jdk_problem !== null) {
      console.error(`SKIPPED, not verified: a jar for Hefty's API: ${jdk_problem}`);
      skip(jdk_problem);
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

/** The commands of an author, from a new plugin to its first call. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { KINDS, LANGUAGES } from "@backplane/authoring";
import type { Binding } from "@backplane/contract";
import { afterAll, beforeAll, expect, test } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { createPluginFolder } from "../../../../authoring/test/conformance/plugin-folder.ts";
import { runProgram } from "../../../src/index.ts";
import { captureIo } from "../../support/capture-io.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";

let gateway: TestGateway;
let folder: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  folder = mkdtempSync(join(tmpdir(), "backplane-authoring-"));
});

afterAll(async () => {
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

const runCommand = (...argv: string[]) => gateway.backplane(argv, { cwd: folder });
const runForJson = <T>(...argv: string[]) => gateway.json<T>(argv, { cwd: folder });

/** A key that the gateway trusts for packages of acme. */
async function createTrustedKey(): Promise<string> {
  const key = join(folder, "acme.key");
  if (existsSync(key)) return key;
  await runForJson("key", "generate", "-o", key);
  await runForJson("key", "trust", `${key}.pub`, "--name", "Acme", "--packages", "acme/*");
  return key;
}

for (const lang of ["ts", "py"] as const)
  verifies(
    ["author.init", "author.test"],
    `creates, tests, packs, signs, installs and invokes a ${lang} plugin`,
    async () => {
      const name = `story-${lang}`;
      await runForJson("plugin", "init", `acme/${name}`, "--lang", lang, "--kind", "tool");
      expect(await runForJson("plugin", "test", name)).toMatchObject({ conforms: true, failed: 0 });
      const archive = `${name}-0.1.0.tgz`;
      await runForJson("plugin", "pack", name, "-o", archive);
      const signature = `${archive}.signature.json`;
      await runForJson("plugin", "sign", archive, "--key", await createTrustedKey(), "-o", signature);
      await runForJson("plugin", "install", archive, "--signature", signature, "--bind");
      expect((await runCommand("plugin", "info", `acme/${name}`)).out).toContain("verified: Acme");
      const called = await runForJson<{ result: unknown }>(
        "invoke",
        `story_${lang}`,
        "--input",
        '{"text":"one two three"}',
      );
      expect(called.result).toMatchObject({ structured_output: { words: 3 } });
    },
  );

/** How the export of each kind is called, and the expected output. */
const CALLS: Record<
  (typeof KINDS)[number],
  (export_id: string, binding_id: string) => { argv: string[]; output: string }
> = {
  tool: (id) => ({ argv: ["invoke", id, "--input", '{"text":"one two"}'], output: '"words":2' }),
  hook: (_id, binding_id) => ({ argv: ["hook", "test", binding_id], output: '"delivered"' }),
  compactor: (id) => ({
    argv: [
      "invoke",
      id,
      "--input",
      JSON.stringify({
        source: {
          chain_id: "ch_1",
          projection: {
            transport: "inline",
            blocks: [{ entry_id: 1, kind: "input", content: [{ type: "text", text: 'He said "hi".' }] }],
            pinned_items: [],
            token_estimate: 4,
          },
        },
        target: { max_input_tokens: 1_000 },
        policy: { retain_system: true, retain_open_tasks: true },
      }),
    ],
    output: "0 earlier blocks were removed.",
  }),
  harness: (id) => ({
    argv: ["run", "start", "--session", "demo", "--harness", id, "--input", "one\ntwo", "--wait"],
    output: "2 lines done.",
  }),
};

verifies(
  "author.init",
  "creates a plugin that can be installed and called for every language and kind",
  async () => {
    for (const lang of LANGUAGES) {
      for (const kind of KINDS) {
        const name = `${lang}-${kind}`;
        const created = await runForJson<{ export_id: string }>(
          "plugin",
          "init",
          name,
          "--lang",
          lang,
          "--kind",
          kind,
        );
        const installed = await runForJson<{ bindings: Binding[] }>("plugin", "install", name, "--bind");
        const { argv, output } = CALLS[kind](created.export_id, installed.bindings[0]!.binding_id);
        const { exit, out, err } = await runCommand(...argv, "--json");
        expect({ name, exit, err }).toEqual({ name, exit: 0, err: expect.any(String) });
        expect(out).toContain(output);
      }
    }
  },
);

verifies(
  "author.test",
  "exits with 7 and shows the rule that a plugin breaks, with its frame and fix",
  async () => {
    const plugin = createPluginFolder("plugin.py", "acknowledges");
    const junit = join(folder, "report.xml");
    const { exit, out } = await runCommand("plugin", "test", plugin, "--junit", junit);
    expect(exit).toBe(7);
    expect(out).toMatch(/^acme\/count@0\.1\.0 does not conform to vai\.rpc\.v1: \d+ passed, 1 failed/);
    expect(out).toContain("failed response.status: A hook answers ack");
    expect(out).toMatch(/ {2}frame: {2}\{"protocol":"vai\.rpc\.v1","type":"response",.*"status":"ack"/);
    expect(out).toContain('  fix:    Use "ack" for a hook');
    expect(out).not.toContain("\u001b");
    expect(readFileSync(junit, "utf8")).toContain('<failure type="response.status"');
    const missing = await runCommand("plugin", "test", "no-such-folder");
    expect(missing).toMatchObject({ exit: 2, err: expect.stringContaining("does not exist") });
  },
);

test("refuses an invalid name, an unknown language and a folder that is not empty", async () => {
  for (const name of ["Word-Count", "word_count", "a//b", "1st", "acme/", "x".repeat(61), "../escape"]) {
    const { exit, err } = await runCommand("plugin", "init", name);
    expect({ name, exit }).toEqual({ name, exit: 2 });
    expect(err).toContain("is not a valid plugin name");
  }
  const unknown = await runCommand("plugin", "init", "words", "--lang", "cobol");
  expect(unknown).toMatchObject({ exit: 2, err: expect.stringContaining("ts, py, sh") });
  mkdirSync(join(folder, "full"));
  writeFileSync(join(folder, "full/notes.txt"), "keep me");
  const full = await runCommand("plugin", "init", "words", "--dir", "full");
  expect(full).toMatchObject({ exit: 2, err: expect.stringContaining("is not empty") });
  expect(readFileSync(join(folder, "full/notes.txt"), "utf8")).toBe("keep me");
  expect(existsSync(join(folder, "words"))).toBe(false);
});

test("requires a name without a terminal and uses defaults for language and kind", async () => {
  const nameless = await runCommand("plugin", "init");
  expect(nameless).toMatchObject({ exit: 2, err: expect.stringContaining("needs a name") });
  const created = await runForJson("plugin", "init", "defaults");
  expect(created).toMatchObject({ package_id: "local/defaults", lang: "ts", kind: "tool" });
});

test("asks for name, language and kind at a terminal", async () => {
  const io = captureIo({ tty: true, cwd: folder, env: { BACKPLANE_HOME: gateway.home } });
  const ended = runProgram(["plugin", "init"], io);
  for (const [question, answer] of [
    ["Name of the plugin", "asked"],
    ["--lang (ts, py, sh) [ts]", "py"],
    ["--kind (tool, hook, compactor, harness) [tool]", ""],
  ] as const) {
    await expect.poll(() => io.err()).toContain(question);
    io.stdin.write(`${answer}\r`);
  }
  expect(await ended).toBe(0);
  expect(readFileSync(join(folder, "asked/bin/plugin.py"), "utf8")).toContain(
    'Plugin("local/asked", "0.1.0")',
  );
});

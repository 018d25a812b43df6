/** The reference plugins and every template conform to their protocol, and every rule finds a plugin that breaks it. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  type ConformanceSuite,
  createPlugin,
  KINDS,
  LANGUAGES,
  openConformanceSuite,
  SIDE_RULES,
  VAI_RULES,
} from "@backplane/authoring";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  expectedRules,
  findBrokenRules,
  SIDE_DEFECTS,
  VAI_DEFECTS,
} from "../../../packages/authoring/test/conformance/defective-plugins.ts";
import { verifies } from "../../support/verifies.ts";

let suite: ConformanceSuite;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "backplane-templates-"));
  suite = await openConformanceSuite({
    version: "0.1.0",
    host: { os: "linux", arch: process.arch === "arm64" ? "arm64" : "amd64" },
    log: createTestLogger(),
  });
});

afterAll(async () => {
  await suite?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The rules that the plugin in a folder breaks. */
async function listBrokenRules(path: string): Promise<string[]> {
  const { results } = await suite.run(path);
  return results
    .filter(({ status }) => status === "failed")
    .map(({ id, failure }) => `${id}: ${failure!.message}`);
}

const EXAMPLES = readdirSync("examples").filter((name) =>
  existsSync(join("examples", name, "vai-plugin.toml")),
);

verifies("author.test", "finds no broken rule in the reference plugins", async () => {
  expect(EXAMPLES.length).toBeGreaterThanOrEqual(8);
  for (const name of EXAMPLES)
    expect({ name, broken: await listBrokenRules(resolve("examples", name)) }).toEqual({ name, broken: [] });
});

verifies(
  ["author.init", "author.test"],
  "finds no broken rule in the template of any language and kind",
  async () => {
    for (const lang of LANGUAGES)
      for (const kind of KINDS) {
        const name = `${lang}-${kind}`;
        createPlugin({ name: `acme/${name}`, lang, kind, folder: join(folder, name), version: "0.1.0" });
        expect({ name, broken: await listBrokenRules(join(folder, name)) }).toEqual({ name, broken: [] });
      }
  },
);

verifies("author.test", "names exactly the broken rule of every defective plugin", async () => {
  expect(await findBrokenRules((path) => suite.run(path), "plugin.py", Object.keys(VAI_DEFECTS))).toEqual(
    expectedRules(VAI_DEFECTS),
  );
  expect(await findBrokenRules((path) => suite.run(path), "side.py", Object.keys(SIDE_DEFECTS))).toEqual(
    expectedRules(SIDE_DEFECTS),
  );
});

verifies("author.test", "finds a compactor that loses a system message", async () => {
  const lossy = join(folder, "lossy");
  createPlugin({ name: "acme/lossy", lang: "py", kind: "compactor", folder: lossy, version: "0.1.0" });
  const program = join(lossy, "bin/plugin.py");
  const text = readFileSync(program, "utf8");
  writeFileSync(program, text.replace(' or block["kind"] == "system"', ""));
  expect(await listBrokenRules(lossy)).toEqual([
    expect.stringMatching(/^compactor\.retains: The block .*Answer briefly/),
    expect.stringMatching(/^case:drops the first turn: /),
  ]);
});

test("every rule has a plugin that breaks it", () => {
  const broken = new Set([
    ...Object.values(VAI_DEFECTS),
    ...Object.values(SIDE_DEFECTS),
    "compactor.retains",
  ]);
  const rules = [...Object.keys(VAI_RULES), ...Object.keys(SIDE_RULES)];
  expect(rules.filter((rule) => !broken.has(rule))).toEqual([]);
});

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readFrontMatter } from "../../../src/import/agent-plugin/front-matter.ts";
import { buildSkillsManifest, openAgentPlugin } from "../../../src/import/agent-plugin/open-agent-plugin.ts";
import { readAgentPlugin } from "../../../src/import/agent-plugin/read-agent-plugin.ts";
import type { PartImporters } from "../../../src/import/parts/source-content.ts";
import { readManifest } from "../../../src/index.ts";

const FIXTURE = resolve("test/fixtures/agent-plugin");
const SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json";

function changedFixture(files: Record<string, unknown>): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-agent-plugin-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(FIXTURE, folder, { recursive: true });
  for (const [name, value] of Object.entries(files))
    writeFileSync(join(folder, name), typeof value === "string" ? value : JSON.stringify(value));
  return folder;
}

test("reads servers and skills with expanded placeholders, and leaves out invalid ones", async () => {
  const plugin = (await readAgentPlugin(FIXTURE))!;
  expect(plugin).toMatchObject({ name: "office-kit", version: "1.2.0", license: "MIT" });
  expect(plugin.servers).toEqual([
    {
      name: "notes",
      from: { kind: "files", folder: FIXTURE, command: "node" },
      args: ["./server/main.mjs", "--greeting", "hello"],
      env: { NOTES_DIR: "/sandbox/scratch/notes" },
      secret_env: {},
      secret_slots: [],
    },
  ]);
  expect(plugin.skills).toEqual([
    {
      name: "fill-forms",
      description: "Fills in paper forms. Use it when somebody has a form with boxes.",
      path: "skills/fill-forms",
    },
  ]);
  expect(plugin.left_out.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "server old",
    "server empty",
    "skill Broken",
  ]);
  expect(plugin.notes).toEqual([expect.stringContaining("commands")]);
});

test("reports what the servers of a plugin request but do not get", async () => {
  const one = { command: "docker", args: ["run", "--name", "x", "-v", "/srv:/data", "acme/x"] };
  const two = { command: "npx", args: ["acme"], cwd: ".", timeout: 5 };
  const tree = changedFixture({ "mcp.json": { mcpServers: { one, two } } });
  const { notes } = await openAgentPlugin(tree, {} as PartImporters);
  expect(notes.slice(1)).toEqual([
    expect.stringContaining("one requests the folder /srv, which is not granted."),
    expect.stringContaining("one is started with --name, which has no effect here"),
    expect.stringContaining('two is started with the setting "timeout", which has no effect here'),
  ]);
});

test("refuses a plugin with an invalid manifest, and returns null for another format", async () => {
  expect(await readAgentPlugin(changedFixture({ "plugin.json": { name: "x" } }))).toBe(null);
  for (const manifest of [
    { $schema: SCHEMA },
    { $schema: SCHEMA, name: "A--b" },
    { $schema: SCHEMA, name: "a", version: 1 },
  ])
    await expect(readAgentPlugin(changedFixture({ "plugin.json": manifest }))).rejects.toMatchObject({
      code: "package.invalid",
    });
});

test("leaves out the servers but not the skills when mcp.json is invalid", async () => {
  for (const text of ["{", "[]", "{}"]) {
    const plugin = (await readAgentPlugin(changedFixture({ "mcp.json": text })))!;
    expect([plugin.servers.length, plugin.skills.length]).toEqual([0, 1]);
    expect(plugin.left_out[0]).toMatchObject({ kind: "server", name: "mcp.json" });
  }
});

test("leaves out a server whose command is outside the plugin", async () => {
  const servers = {
    own: { type: "stdio", command: `${"$"}{PLUGIN_ROOT}/bin/run` },
    up: { type: "stdio", command: "../evil" },
    root: { type: "stdio", command: "/bin/sh" },
    away: { type: "stdio", command: "node", cwd: "/etc" },
    npm: { type: "stdio", command: "npx", args: ["-y", "@acme/server@1.0.0", "--fast"] },
    far: { type: "streamable-http", url: "https://example.com/mcp" },
  };
  const plugin = (await readAgentPlugin(changedFixture({ "mcp.json": { mcpServers: servers } })))!;
  expect(plugin.servers.map(({ name, from }) => [name, from.kind])).toEqual([
    ["own", "files"],
    ["npm", "npm"],
    ["far", "http"],
  ]);
  expect(plugin.servers[0]!.from).toMatchObject({ command: "./bin/run" });
});

test("writes a manifest of skills that is read back unchanged", () => {
  const skills = [{ name: "a", description: 'Says "hi"\nand more', path: "skills/a" }];
  const plugin = {
    package_id: "x/skills",
    version: "1.0.0",
    name: "x",
    description: "d",
    license: "MIT",
  };
  expect(readManifest(buildSkillsManifest({ ...plugin, skills }))).toMatchObject({
    package_id: "x/skills",
    skills,
  });
});

test("reads plain, quoted, folded and literal values of front matter", async () => {
  expect(await readFrontMatter("---\nname: a\ndescription: plain # note\n---\n")).toEqual({
    name: "a",
    description: "plain",
  });
  expect(await readFrontMatter("---\nname: 'it''s'\ndescription: \"a: \\\"b\\\"\"\n---")).toEqual({
    name: "it's",
    description: 'a: "b"',
  });
  expect(await readFrontMatter("---\nd: >-\n  one\n  two\ne: |-\n  one\n  two\nm:\n  k: v\n---")).toEqual({
    d: "one two",
    e: "one\ntwo",
    m: { k: "v" },
  });
  expect(await readFrontMatter("\uFEFF---\r\nname: a\r\n---\r\nbody")).toEqual({ name: "a" });
  expect(await readFrontMatter("---\n---\n")).toEqual({});
  expect(await readFrontMatter("# no front matter")).toBe(null);
  expect(await readFrontMatter("---\nname: a\n")).toBe(null);
});

test("reads YAML syntax beyond plain keys and values", async () => {
  // Escapes, a quoted key, a value over several lines, a comment line, a flow map, and scalars that are not strings.
  const text = [
    "---",
    '"name": tab\\there',
    'description: "a\\tb \\u00e9',
    '  continued"',
    "# comment: no",
    "metadata: { author: me, tags: [x, y] }",
    "folded: >-",
    "  one",
    "",
    "  two",
    "version: 1.0",
    "flag: yes",
    "---",
  ].join("\n");
  expect(await readFrontMatter(text)).toEqual({
    name: "tab\\there",
    description: "a\tb é continued",
    metadata: { author: "me", tags: ["x", "y"] },
    folded: "one\ntwo",
    version: "1.0",
    flag: "yes",
  });
});

test.each([
  ["a mapping inside a plain value", "description: Use it: always"],
  ["the same key twice", "name: a\nname: b"],
  ["an open quote", 'name: "a'],
  [
    "aliases that expand too far",
    `a: &a [x]\nb: [${"*a,".repeat(50)}]\nc: &c [*a, *a, *a]\nd: [${"*c,".repeat(50)}]`,
  ],
  ["deep nesting", `a: ${"[".repeat(20_000)}`],
  ["more than the maximum size", `a: ${"x".repeat(70_000)}`],
])("refuses front matter with %s", async (_what, yaml) => {
  await expect(readFrontMatter(`---\n${yaml}\n---\n`)).rejects.toThrow(/front matter/);
});

test("leaves out a skill with invalid front matter and reports why", async () => {
  const folder = changedFixture({
    "skills/fill-forms/SKILL.md": "---\nname: fill-forms\ndescription: a: b\n---\n",
  });
  const plugin = (await readAgentPlugin(folder))!;
  expect(plugin.skills).toEqual([]);
  expect(plugin.left_out.find(({ name }) => name === "fill-forms")?.reason).toMatch(/not valid YAML/);
});

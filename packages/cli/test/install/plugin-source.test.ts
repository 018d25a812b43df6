import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readMcpFile, readPluginSource } from "../../src/install/plugin-source.ts";

let cwd: string;
const KERNEL = JSON.stringify({ name: "k", "yaya.plugins.v1": { k: { category: "tool" } } });

beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), "backplane-cli-"));
  for (const name of ["package", "kernel", "both", "neither"]) mkdirSync(join(cwd, name));
  writeFileSync(join(cwd, "package/vai-plugin.toml"), "");
  writeFileSync(join(cwd, "kernel/package.json"), KERNEL);
  writeFileSync(join(cwd, "both/vai-plugin.toml"), "");
  writeFileSync(join(cwd, "both/package.json"), KERNEL);
  writeFileSync(join(cwd, "neither/package.json"), '{"name":"x"}');
  writeFileSync(join(cwd, "some.tgz"), "");
  writeFileSync(join(cwd, "mcp.json"), "{}");
});
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

test.each([
  ["package", { kind: "package", is_folder: true }],
  ["./package", { kind: "package", is_folder: true }],
  ["both", { kind: "package", is_folder: true }],
  ["neither", { kind: "package", is_folder: true }],
  ["some.tgz", { kind: "package", is_folder: false }],
  ["mcp.json", { kind: "mcp" }],
  ["kernel", { kind: "kernel" }],
  ["npm:acme-memory@1.2.0", { kind: "npm", spec: "acme-memory@1.2.0" }],
  ["npm:@acme/memory@next", { kind: "npm", spec: "@acme/memory@next" }],
  ["npm:kernel", { kind: "npm", spec: "kernel" }],
  ["example:hello-tool", { kind: "package", is_folder: true, path: resolve("examples/hello-tool") }],
])("recognizes the kind of %s", (text, expected) => {
  expect(readPluginSource(cwd, text)).toMatchObject(expected);
});

test.each(["./absent", "/absent", "absent/folder", "absent.tgz", "absent.json", "Absent Name", "../absent"])(
  "treats %s as a path and never downloads it",
  (text) => {
    expect(() => readPluginSource(cwd, text)).toThrow("does not exist or cannot be read");
  },
);

test.each(["absent", "..", ""])("lists the examples if example:%s is not one", (name) => {
  expect(() => readPluginSource(cwd, `example:${name}`)).toThrow(
    expect.objectContaining({ code: "cli.usage", fix: expect.stringContaining("example:hello-tool") }),
  );
});

test.each(["absent", "acme-memory@1.2.0", "@acme/memory"])(
  "suggests npm:%s for a name that is not a folder",
  (text) => {
    expect(() => readPluginSource(cwd, text)).toThrow(
      expect.objectContaining({
        code: "cli.usage",
        fix: expect.stringContaining(`backplane plugin install npm:${text}`),
      }),
    );
  },
);

test.each([
  ["{", "broken.json is not valid JSON"],
  ["[]", 'broken.json has no "mcpServers"'],
])("refuses the mcp.json %s before it is sent", (text, reason) => {
  const path = join(cwd, "broken.json");
  writeFileSync(path, text);
  expect(() => readMcpFile(path)).toThrow(reason);
});

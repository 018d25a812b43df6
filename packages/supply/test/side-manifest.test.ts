import { SIDE_TIMEOUTS } from "@backplane/contract";
import { expect, test } from "vitest";
import { verifies } from "../../../test/support/verifies.ts";
import { readManifest, sideSpec } from "../src/index.ts";

const TOML = `api_version = "vai.plugin.v1"
package_id = "acme/side"
version = "1.2.3"
name = "Side"
[runtime]
protocol = "rterm.plugin.v1"
entrypoint = ["python3", "-u", "main.py"]
env = { LANG = "C" }
capabilities = ["net", "disk"]
[[exports]]
id = "search"
kind = "tool"
description = "Searches"
tool = { input_schema = "schemas/in.json" }
[[exports]]
id = "ping"
kind = "tool"
display_name = "Ping"
tool = {}
`;
const manifest = readManifest(TOML);

test("derives the record of a side process from the manifest and the binding alone", () => {
  const schema = { type: "object" };
  expect(
    sideSpec(manifest, { capabilities: ["net"], timeout_ms: 900 }, { "schemas/in.json": schema }),
  ).toEqual({
    plugin_id: "acme/side",
    command: "python3",
    args: ["-u", "main.py"],
    env: { LANG: "C" },
    capabilities: ["net"],
    tools: [
      { name: "search", timeout_ms: 900, description: "Searches", schema },
      { name: "ping", timeout_ms: 900, description: "Ping", schema: null },
    ],
  });
});

verifies("side.tool-name", "prefers the plugin's own names in the record", () => {
  const foreign = readManifest(
    TOML.replace("entrypoint", 'plugin_id = "Published Plugin"\nentrypoint')
      .replace("tool = {}", 'tool = { tool_name = "plugin.python_echo" }')
      .replace("tool = { input_schema", 'tool = { tool_name = "größe: m/s²", input_schema'),
  );
  const { plugin_id, tools } = sideSpec(foreign);
  expect([plugin_id, ...tools.map(({ name }) => name)]).toEqual([
    "Published Plugin",
    "größe: m/s²",
    "plugin.python_echo",
  ]);
});

test.each([
  ['tool_name = ""', "tool_name"],
  ['tool_name = " padded"', "tool_name"],
  ['tool_name = "a\\nb"', "tool_name"],
  ["tool_name = 7", "tool_name"],
])("refuses %s with its line", (line, field) => {
  const broken = TOML.replace("tool = {}", `tool = { ${line} }`);
  expect(() => readManifest(broken)).toThrow(new RegExp(`vai-plugin.toml:\\d+: .*${field}`));
});

test("refuses a tool_name in another dialect and says to remove it", () => {
  const other = TOML.replace("rterm.plugin.v1", "vai.rpc.v1").replace(
    "tool = {}",
    'tool = { tool_name = "plugin.echo" }',
  );
  expect(() => readManifest(other)).toThrow(
    /tool_name is "plugin.echo", but protocol is "vai.rpc.v1".*remove it/,
  );
});

verifies("side.wire", "limits a call of a side process to 5 s by default", () => {
  const timeouts = (toml: string) => sideSpec(readManifest(toml)).tools.map(({ timeout_ms }) => timeout_ms);
  expect(SIDE_TIMEOUTS.invoke_ms).toBe(5_000);
  expect(readManifest(TOML).exports.map((item) => item.default_timeout_ms)).toEqual([5_000, 5_000]);
  expect(timeouts(TOML)).toEqual([5_000, 5_000]);
  const own = TOML.replace('id = "ping"', 'id = "ping"\ndefault_timeout_ms = 60000');
  expect(timeouts(own)).toEqual([5_000, 60_000]);
  const short = TOML.replace('id = "ping"', 'id = "ping"\nmax_timeout_ms = 900');
  expect(timeouts(short)).toEqual([5_000, 900]);
  const vai = TOML.replace("rterm.plugin.v1", "vai.rpc.v1");
  expect(readManifest(vai).exports.map((item) => item.default_timeout_ms)).toEqual([30_000, 30_000]);
});

test("grants no capability without an allow-list", () => {
  expect(sideSpec(manifest)).toMatchObject({ capabilities: [] });
});

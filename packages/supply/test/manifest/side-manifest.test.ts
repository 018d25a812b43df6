import { expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { readManifest } from "../../src/index.ts";

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

verifies("side.tool-name", "accepts the plugin's own names for itself and its tools", () => {
  const foreign = readManifest(
    TOML.replace("entrypoint", 'plugin_id = "Published Plugin"\nentrypoint')
      .replace("tool = {}", 'tool = { tool_name = "plugin.python_echo" }')
      .replace("tool = { input_schema", 'tool = { tool_name = "größe: m/s²", input_schema'),
  );
  expect(foreign.runtime.plugin_id).toBe("Published Plugin");
  expect(foreign.exports.map((item) => item.kind === "tool" && item.tool.tool_name)).toEqual([
    "größe: m/s²",
    "plugin.python_echo",
  ]);
});

test.each([
  ['tool_name = ""', "tool_name"],
  ['tool_name = " padded"', "tool_name"],
  ['tool_name = "a\\nb"', "tool_name"],
  ["tool_name = 7", "tool_name"],
])("refuses %s and reports its line", (line, field) => {
  const broken = TOML.replace("tool = {}", `tool = { ${line} }`);
  expect(() => readManifest(broken)).toThrow(new RegExp(`vai-plugin.toml:\\d+: .*${field}`));
});

test("refuses a tool_name in another dialect and suggests removing it", () => {
  const other = TOML.replace("rterm.plugin.v1", "vai.rpc.v1").replace(
    "tool = {}",
    'tool = { tool_name = "plugin.echo" }',
  );
  expect(() => readManifest(other)).toThrow(
    /tool_name is "plugin.echo", but protocol is "vai.rpc.v1".*remove it/,
  );
});

test("gives an export of a side process a timeout of 5 s unless the manifest sets a timeout or a lower maximum", () => {
  const timeouts = (toml: string) => readManifest(toml).exports.map((item) => item.default_timeout_ms);
  expect(timeouts(TOML)).toEqual([5_000, 5_000]);
  const own_timeout = TOML.replace('id = "ping"', 'id = "ping"\ndefault_timeout_ms = 60000');
  expect(timeouts(own_timeout)).toEqual([5_000, 60_000]);
  const short = TOML.replace('id = "ping"', 'id = "ping"\nmax_timeout_ms = 900');
  expect(timeouts(short)).toEqual([5_000, 900]);
  const vai = TOML.replace("rterm.plugin.v1", "vai.rpc.v1");
  expect(timeouts(vai)).toEqual([30_000, 30_000]);
});

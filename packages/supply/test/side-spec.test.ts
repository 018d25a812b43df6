import { expect, test } from "vitest";
import { readManifest, sideSpec } from "../src/index.ts";

const manifest = readManifest(`api_version = "vai.plugin.v1"
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
`);

test("the host's record of a side process comes from the manifest and the binding alone", () => {
  const schema = { type: "object" };
  expect(
    sideSpec(manifest, { capabilities: ["net"], timeout_ms: 900 }, { "schemas/in.json": schema }),
  ).toEqual({
    plugin_id: "acme/side",
    command: "python3",
    args: ["-u", "main.py"],
    env: { LANG: "C" },
    timeout_ms: 900,
    capabilities: ["net"],
    tools: [
      { name: "search", description: "Searches", schema },
      { name: "ping", description: "Ping", schema: null },
    ],
  });
});

test("what the plugin asks for is not what it gets: without an allow-list it has no capability", () => {
  expect(sideSpec(manifest)).toMatchObject({ capabilities: [], timeout_ms: 5_000 });
});

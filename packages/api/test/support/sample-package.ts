/** A package folder with one export of every kind, a tool with secret slots and one that requires approval. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const PACKAGE_ID = "acme/devkit";

const tool = (id: string, more: string, permissions = "", effect_class = "read_only") => `
[[exports]]
id = "${id}"
kind = "tool"
${permissions}
[exports.tool]
effect_class = "${effect_class}"
${more}
`;

const manifestText = (
  version: string,
  scopes: string[],
  effect_class: string,
) => `api_version = "vai.plugin.v1"
package_id = "${PACKAGE_ID}"
version = "${version}"
name = "Acme Dev Kit"

[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["./bin/plugin"]
${tool("echo", 'input_schema = "schemas/input.json"', `[exports.permissions]\ngateway_api_scopes = ${JSON.stringify(scopes)}`, effect_class)}
${tool("ask", "requires_approval = true")}
${tool("search", "", '[exports.permissions]\nsecret_slots = ["jira_token"]')}
[[exports]]
id = "notify"
kind = "hook"
[exports.hook]
subscribes_to = ["session.archived"]

[[exports]]
id = "shrink"
kind = "compactor"
config_schema = "schemas/config.json"
[exports.compactor]

[[exports]]
id = "triage"
kind = "harness"
[exports.permissions]
gateway_api_scopes = ${JSON.stringify(scopes)}
[exports.harness]
`;

/** `scopes` are those of the tool `echo` and the harness `triage`, `effect_class` that of the tool. */
export function writeSamplePackage(
  parent: string,
  version = "1.0.0",
  remark = "",
  scopes: string[] = [],
  effect_class = "read_only",
): string {
  const dir = join(parent, `devkit-${version}-${remark}`);
  mkdirSync(join(dir, "bin"), { recursive: true });
  mkdirSync(join(dir, "schemas"), { recursive: true });
  writeFileSync(join(dir, "vai-plugin.toml"), manifestText(version, scopes, effect_class));
  writeFileSync(join(dir, "bin/plugin"), `#!/bin/sh\n# ${remark}\n`, { mode: 0o755 });
  writeFileSync(
    join(dir, "schemas/input.json"),
    JSON.stringify({ type: "object", properties: { text: { type: "string" } } }),
  );
  writeFileSync(
    join(dir, "schemas/config.json"),
    JSON.stringify({
      type: "object",
      properties: { window: { type: "integer" } },
      additionalProperties: false,
    }),
  );
  return dir;
}

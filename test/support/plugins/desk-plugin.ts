/** A package with a tool that has a configuration and a secret, and a tool that requires approval. */
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CANARY_SLOT } from "../gateway/canary.ts";
import { vaiProgram } from "./plugin-folder.ts";

/** References, alternatives, values that may be null and lists of objects: what forms must not lose. */
const CONFIG_SCHEMA = {
  type: "object",
  $defs: { place: { type: "object", properties: { city: { type: "string", title: "City" } } } },
  properties: {
    greeting: { type: "string", title: "Greeting" },
    home: { $ref: "#/$defs/place" },
    target: {
      oneOf: [
        { title: "By mail", type: "object", properties: { mail: { type: "string" } }, required: ["mail"] },
        {
          title: "By phone",
          type: "object",
          properties: { phone: { type: "integer" } },
          required: ["phone"],
        },
      ],
    },
    limit: { anyOf: [{ type: "integer" }, { type: "null" }], title: "Limit" },
    stops: {
      type: "array",
      title: "Stops",
      items: { type: "object", properties: { name: { type: "string" }, at: { $ref: "#/$defs/place" } } },
    },
  },
};

/** Every version but the first also requests network access. */
export function writeDeskPlugin(package_id: string, version: string): string {
  const folder = mkdtempSync(join(tmpdir(), "backplane-plugin-"));
  mkdirSync(join(folder, "bin"));
  writeFileSync(
    join(folder, "bin/plugin.mjs"),
    vaiProgram(
      package_id,
      `async ({ body }) => {
        const { config, secrets } = body.context;
        const report = { version: "${version}", config, secret: Object.keys(secrets) };
        return { status: "succeeded", result: { content: [{ type: "text", text: JSON.stringify(report) }] } };
      }`,
      version,
    ),
  );
  writeFileSync(join(folder, "config.json"), JSON.stringify(CONFIG_SCHEMA));
  const network = version === "1.0.0" ? '"none"' : '"egress"\nallowed_domains = ["api.desk.test"]';
  const tool = (id: string, rest: string, permissions: string) => `
[[exports]]
id = "${id}"
kind = "tool"
description = "Reports what it received"
${rest}
[exports.permissions]
${permissions}
[exports.tool]
effect_class = "${id === "look" ? "read_only" : "non_idempotent_write"}"
requires_approval = ${id === "pay"}
`;
  writeFileSync(
    join(folder, "vai-plugin.toml"),
    `api_version = "vai.plugin.v1"
package_id = "${package_id}"
version = "${version}"
name = "${package_id}"
description = "Looks after a desk"
[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["node", "./bin/plugin.mjs"]
${tool(
  "look",
  'config_schema = "config.json"',
  `network = ${network}
secret_slots = ["${CANARY_SLOT}"]
[exports.permissions.reasons]
${CANARY_SLOT} = "signs in to the desk"`,
)}${tool("pay", "", "")}`,
  );
  return folder;
}

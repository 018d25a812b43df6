/** Writes plugin folders for tests. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const MANIFEST = `api_version = "vai.plugin.v1"
package_id = "acme/hello"
version = "0.1.0"
name = "Hello"

[runtime]
protocol = "vai.rpc.v1"
entrypoint = ["./bin/plugin"]

[[exports]]
id = "greet"
kind = "tool"

[exports.tool]
input_schema = "schemas/greet.json"
`;

export const HELLO: Record<string, string> = {
  "vai-plugin.toml": MANIFEST,
  "bin/plugin": "#!/bin/sh\nexit 0\n",
  "schemas/greet.json": '{"type":"object","required":["name"],"properties":{"name":{"type":"string"}}}',
};

/** Files below bin/ are executable. */
export function writeFolder(dir: string, files: Record<string, string | Uint8Array>): string {
  for (const [path, content] of Object.entries(files)) {
    const file = join(dir, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    chmodSync(file, path.startsWith("bin/") ? 0o755 : 0o644);
  }
  return dir;
}

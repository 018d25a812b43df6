/** Creates plugin folders with one of the fixture programs and an optional defect. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import { type ConformanceSuite, openConformanceSuite } from "../../src/index.ts";

export type Program = "plugin.py" | "side.py";

export interface FolderOptions {
  /** The content of tests/cases.json. */
  cases?: unknown;
  /** How long a call may take. The suite extends it on a busy machine; a gateway needs a larger value. */
  timeout_ms?: number;
}

export function createPluginFolder(program: Program, defect = "", options: FolderOptions = {}): string {
  const { cases, timeout_ms = 1_000 } = options;
  const folder = mkdtempSync(join(tmpdir(), "backplane-conformance-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const part of ["bin", "schemas", "tests"]) mkdirSync(join(folder, part));
  copyFileSync(new URL(`../fixtures/${program}`, import.meta.url), join(folder, "bin/plugin.py"));
  const protocol = program === "side.py" ? "rterm.plugin.v1" : "vai.rpc.v1";
  const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
  const words = { type: "object", properties: { words: { type: "integer" } }, required: ["words"] };
  const files: Record<string, string> = {
    "vai-plugin.toml": `api_version = "vai.plugin.v1"
package_id = "acme/count"
version = "0.1.0"
name = "Count"

[runtime]
protocol = "${protocol}"
entrypoint = ["python3", "./bin/plugin.py"]
env = { DEFECT = "${defect}", PYTHONDONTWRITEBYTECODE = "1" }
${program === "side.py" ? "capabilities = []" : ""}

[[exports]]
id = "count"
kind = "tool"
default_timeout_ms = ${timeout_ms}

[exports.permissions]
secret_slots = ["api_key"]

[exports.tool]
input_schema = "schemas/input.json"
output_schema = "schemas/output.json"
`,
    ".vaiignore": "/tests/\n",
    "schemas/input.json": JSON.stringify(text),
    "schemas/output.json": JSON.stringify(words),
    ...(cases === undefined ? {} : { "tests/cases.json": JSON.stringify(cases) }),
  };
  for (const [path, content] of Object.entries(files)) writeFileSync(join(folder, path), content);
  return folder;
}

/** One suite for the tests of a file. */
export function useSuite(): { run: ConformanceSuite["run"] } {
  let suite: ConformanceSuite;
  beforeAll(async () => {
    suite = await openConformanceSuite({
      version: "0.1.0",
      host: { os: "linux", arch: process.arch === "arm64" ? "arm64" : "amd64" },
      log: createTestLogger(),
      // Short limits, so that tests of plugins that exceed a limit stay fast.
      limits: { hello_ms: 1_000, exit_ms: 1_000 },
    });
  });
  afterAll(() => suite?.close());
  return { run: (folder) => suite.run(folder) };
}

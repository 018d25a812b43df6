/** Valid manifests, and random edits of one. */
import { readFileSync } from "node:fs";
import type { Manifest } from "@backplane/contract";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { readManifest } from "../../src/index.ts";
import { type Refusal, refusalOf, replaceInMinimal } from "./minimal-manifest.ts";

const DEVKIT = readFileSync(new URL("../fixtures/devkit.toml", import.meta.url), "utf8");

verifies(["pkg.manifest", "pkg.exports"], "reads every field of the full example", () => {
  const expected: Manifest = {
    api_version: "vai.plugin.v1",
    package_id: "acme/devkit",
    version: "0.1.0",
    name: "Acme Dev Kit",
    description: "Harnesses, tools, hooks, and compaction strategies",
    license: "Apache-2.0",
    source: "oci://ghcr.io/acme/devkit:0.1.0",
    runtime: {
      protocol: "vai.rpc.v1",
      transport: "stdio",
      entrypoint: ["./bin/plugin"],
      os: ["linux", "darwin"],
      arch: ["amd64", "arm64"],
      env: {},
    },
    exports: [
      {
        id: "triage",
        kind: "harness",
        display_name: "Triage Harness",
        description: "Composite bug triage harness",
        execution_class: "isolated",
        default_timeout_ms: 1_800_000,
        max_concurrency: 4,
        config_schema: "schemas/triage_config.json",
        permissions: {
          network: "egress",
          filesystem: "scratch",
          gateway_api_scopes: [
            "sessions:read",
            "chains:read",
            "chains:write",
            "runs:write",
            "compactions:write",
          ],
          secret_slots: ["anthropic_key", "openai_key"],
        },
        harness: {
          mode: "composite",
          fidelity: "checkpoint",
          supports: ["continue", "branch_session", "compact", "tool"],
        },
      },
      {
        id: "jira_search",
        kind: "tool",
        display_name: "Jira Search",
        execution_class: "isolated",
        default_timeout_ms: 20_000,
        config_schema: "schemas/jira_search_config.json",
        permissions: {
          network: "egress",
          filesystem: "none",
          gateway_api_scopes: [],
          secret_slots: ["jira_token"],
        },
        tool: {
          effect_class: "read_only",
          streaming: false,
          requires_approval: false,
          input_schema: "schemas/jira_search_input.json",
          output_schema: "schemas/jira_search_output.json",
        },
      },
      {
        id: "slack_notify",
        kind: "hook",
        display_name: "Slack Notifier",
        execution_class: "worker",
        default_timeout_ms: 15_000,
        config_schema: "schemas/slack_notify_config.json",
        permissions: {
          network: "egress",
          filesystem: "none",
          gateway_api_scopes: ["runs:read"],
          secret_slots: ["slack_webhook"],
        },
        hook: { subscribes_to: ["run.completed", "chain.compacted"] },
      },
      {
        id: "coder_window",
        kind: "compactor",
        display_name: "Coder Window",
        execution_class: "worker",
        default_timeout_ms: 120_000,
        config_schema: "schemas/coder_window_config.json",
        permissions: { network: "none", filesystem: "scratch", gateway_api_scopes: [], secret_slots: [] },
        compactor: { target_context: "coding", supports_pinned_items: true },
      },
    ],
  };
  expect(readManifest(DEVKIT)).toEqual(expected);
});

test("leaves the class of an export undefined when the manifest does not set it", () => {
  const manifest = readManifest(DEVKIT.replace(/^execution_class.*\n/gm, ""));
  expect(manifest.exports.map((item) => item.execution_class)).toEqual(manifest.exports.map(() => undefined));
});

test("returns a manifest or an error with a line for any edited manifest", () => {
  const lines = DEVKIT.split("\n");
  const fragments = [
    '"',
    "'",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    "#",
    "\n",
    '"""',
    "[[exports]]",
    "__proto__ = 1",
    "constructor = {}",
    "x",
    "1",
    "",
  ];
  const edit = fc.record({
    at: fc.nat(DEVKIT.length - 1),
    removed: fc.nat(8),
    inserted: fc.constantFrom(...fragments),
  });
  fc.assert(
    fc.property(fc.array(edit, { minLength: 1, maxLength: 3 }), (edits) => {
      let toml = DEVKIT;
      for (const { at, removed, inserted } of edits)
        toml = toml.slice(0, at) + inserted + toml.slice(at + removed);
      try {
        expect(readManifest(toml).api_version).toBe("vai.plugin.v1");
      } catch (error) {
        const { code, details } = error as Refusal;
        expect(code).toBe("package.invalid");
        for (const { line } of details.issues) expect(line >= 1 && line <= lines.length + 4).toBe(true);
      }
    }),
    { numRuns: 3_000, seed: 3 },
  );
});

describe("the program of an entrypoint", () => {
  test.each(["node", "python3", "sh", "python3.12", "./bin/x", "bin/x", "./x"])("may be %s", (program) => {
    expect(readManifest(replaceInMinimal("./bin/plugin", program)).runtime.entrypoint).toEqual([program]);
  });
  test.each(["/bin/sh", "../x", "./../x", "a/../../b", "", " ", "./", "C:\\\\x", "-x"])(
    "must not be %j",
    (program) => {
      expect(refusalOf(replaceInMinimal("./bin/plugin", program)).code).toBe("package.invalid");
    },
  );
});

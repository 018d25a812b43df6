import { DEFAULT_CLASS } from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import { expect, test } from "vitest";

const tool = { id: "echo", kind: "tool", tool: {} };
const manifest = (change: object = {}) => ({
  api_version: "vai.plugin.v1",
  package_id: "acme/devkit",
  version: "0.1.0",
  name: "Acme",
  runtime: { protocol: "vai.rpc.v1", entrypoint: ["./bin/plugin"] },
  exports: [tool],
  ...change,
});
const issuePathsOf = (value: unknown) =>
  ManifestSchema.safeParse(value).error?.issues.map((issue) => issue.path.join(".")) ?? [];

test("optional fields have their documented defaults", () => {
  const parsed = ManifestSchema.parse(manifest());
  const [echo] = parsed.exports;
  expect(echo).toMatchObject({
    default_timeout_ms: 30_000,
    permissions: { network: "none", filesystem: "none", gateway_api_scopes: [], secret_slots: [] },
    tool: { effect_class: "unknown", streaming: false, requires_approval: false },
  });
  expect(parsed.runtime).toMatchObject({ transport: "stdio", env: {} });
  expect(DEFAULT_CLASS).toEqual({
    harness: "isolated",
    tool: "isolated",
    hook: "worker",
    compactor: "worker",
  });
});

test.each([
  ["an unknown field", manifest({ surprise: 1 }), ""],
  ["a package id without publisher", manifest({ package_id: "devkit" }), "package_id"],
  ["an invalid version", manifest({ version: "1" }), "version"],
  ["two exports with one id", manifest({ exports: [tool, tool] }), "exports"],
  ["a package without an export", manifest({ exports: [] }), "exports"],
  [
    "a hook table on a tool",
    manifest({ exports: [{ ...tool, hook: { subscribes_to: ["run.started"] } }] }),
    "exports.0",
  ],
  [
    "an unknown scope",
    manifest({ exports: [{ ...tool, permissions: { gateway_api_scopes: ["root:all"] } }] }),
    "exports.0.permissions.gateway_api_scopes.0",
  ],
  [
    "a schema outside the package",
    manifest({ exports: [{ ...tool, config_schema: "../../etc/passwd" }] }),
    "exports.0.config_schema",
  ],
  [
    "an unknown event",
    manifest({ exports: [{ id: "h", kind: "hook", hook: { subscribes_to: ["run.exploded"] } }] }),
    "exports.0.hook.subscribes_to.0",
  ],
])("rejects %s", (_description, value, path) => {
  expect(issuePathsOf(value)).toContain(path);
});

/** The test support for authors: running plugins, test contexts, and the comparison with the manifest. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { compactor, definePlugin, hook, tool } from "../../src/index.ts";
import {
  checkManifest,
  type ManifestLike,
  runPlugin,
  startPlugin,
  testContext,
} from "../../src/testing/index.ts";

const input = { type: "object", properties: { q: { type: "string" } }, required: ["q"] } as const;
const plugin = definePlugin({
  package_id: "acme/kit",
  version: "1.0.0",
  exports: [
    tool({
      id: "find",
      input,
      run(_input, call) {
        call.log("looking", { for: "it" });
        return "found";
      },
    }),
    tool({ id: "unresponsive", run: () => new Promise(() => {}) }),
    hook({ id: "watch", on: ["run.completed"], handle() {} }),
    compactor({ id: "window", compact: () => ({ seed_blocks: [] }) }),
  ],
});

test("collects logs", async () => {
  const run = await runPlugin(plugin);
  await run.invoke("find", { q: "x" });
  expect(run.logs).toEqual(['[inv_test_1] looking {"for":"it"}']);
});

test("rejects a call after the grace period if the tool ignores its deadline or its cancel", async () => {
  const run = await runPlugin(plugin);
  const grace = { cancel_grace_ms: 20 };
  await expect(run.invoke("unresponsive", {}, { timeout_ms: 20, ...grace })).rejects.toMatchObject({
    code: "timeout",
  });
  const cancelled = run.invoke("unresponsive", {}, { signal: AbortSignal.abort(), ...grace });
  await expect(cancelled).rejects.toMatchObject({ code: "cancelled" });
  expect(run.inFlight).toBe(0);
});

test("refuses a program with a different identity", async () => {
  const cwd = fileURLToPath(new URL("../fixtures", import.meta.url));
  const started = startPlugin(
    ["python3", "-B", "all_kinds.py"],
    { package_id: "acme/other", version: "1.2.3" },
    { cwd },
  );
  await expect(started).rejects.toMatchObject({ code: "handshake_failed" });
});

test("grants only the permissions that the test names", () => {
  const { grant, secrets } = testContext("inv_1", { secrets: { token: "x" }, grant: { network: "egress" } });
  expect(grant).toMatchObject({ network: "egress", filesystem: "none", secret_slots: ["token"] });
  expect(secrets).toEqual({ token: "x" });
});

const manifest: ManifestLike = {
  package_id: "acme/kit",
  version: "1.0.0",
  exports: [
    { id: "find", kind: "tool", tool: { input_schema: "schemas/find.json" } },
    { id: "unresponsive", kind: "tool", tool: {} },
    { id: "watch", kind: "hook", hook: { subscribes_to: ["run.completed"] } },
    { id: "window", kind: "compactor" },
  ],
};
const stored = { $schema: "https://json-schema.org/draft/2020-12/schema", ...input };

test("reports no differences when code and manifest agree", () => {
  expect(checkManifest(plugin, manifest)).toEqual([]);
  expect(checkManifest(plugin, manifest, () => stored)).toEqual([]);
});

test("names every difference", () => {
  const different: ManifestLike = {
    package_id: "acme/kits",
    version: "1.0.1",
    exports: [
      { id: "find", kind: "tool", tool: {} },
      { id: "unresponsive", kind: "harness" },
      { id: "watch", kind: "hook", hook: { subscribes_to: ["run.failed", "run.completed"] } },
      { id: "extra", kind: "tool", tool: {} },
    ],
  };
  expect(checkManifest(plugin, different)).toEqual([
    "package_id is acme/kit in code and acme/kits in vai-plugin.toml.",
    "version is 1.0.0 in code and 1.0.1 in vai-plugin.toml.",
    "find: input_schema is in code, but vai-plugin.toml does not name its file, so the gateway does not check it.",
    "unresponsive is a tool in code and a harness in vai-plugin.toml.",
    "watch: subscribes_to is [run.completed, run.failed] but the code handles [run.completed].",
    "compactor window is in code but not in vai-plugin.toml.",
    "tool extra is in vai-plugin.toml but not in code.",
  ]);
  const differs = checkManifest(plugin, manifest, () => ({ ...stored, required: [] }));
  expect(differs).toEqual(["find: input_schema differs between code and schemas/find.json."]);
});

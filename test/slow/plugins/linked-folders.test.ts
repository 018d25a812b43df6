/** `plugin install FOLDER --editable` for plugins that are not made of tool files: each save reloads them. */
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  call,
  callForText,
  cli,
  gateway,
  restart,
  useToolFolders,
} from "../../support/plugins/tool-folders.ts";

useToolFolders();

function copyFolder(folder: string): string {
  const path = join(mkdtempSync(join(tmpdir(), "backplane-linked-")), "plugin");
  cpSync(folder, path, { recursive: true });
  return path;
}

function edit(path: string, from: string, to: string): void {
  const text = readFileSync(path, "utf8");
  expect(text).toContain(from);
  writeFileSync(path, text.replaceAll(from, to));
}

const listVersions = async (package_id: string) =>
  (
    await gateway.http<{ items: { package_id: string; version: string }[] }>("GET", "/v1/plugin-packages")
  ).body.items
    .filter((item) => item.package_id === package_id)
    .map(({ version }) => version);

test("reloads a linked package after each save, keeps bindings and settings, and unlinks it", async () => {
  const path = copyFolder("examples/hello-tool");
  const program = join(path, "bin/plugin.mjs");
  await cli("plugin", "install", path, "--bind");
  edit(program, '?? "Hello"', '?? "Servus"');
  const refused = await gateway.cli("plugin", "install", path, "--bind");
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(/acme\/hello 0\.1\.0 is already installed with different content/);
  expect(refused.stderr).toMatch(/Increase the version .*--editable/);

  const linked = await cli("plugin", "install", path, "--editable");
  expect(linked.stdout).toMatch(/Linked .* as acme\/hello@0\.1\.0\+edit\.d[0-9a-f]{12}/);
  expect(await callForText("hello", { name: "Ada" })).toContain("Servus, Ada");
  const { body } = await gateway.http<{ items: { binding_id: string; export_id: string }[] }>(
    "GET",
    "/v1/plugin-bindings",
  );
  const bindings = body.items.filter(({ export_id }) => export_id === "hello");
  expect(bindings).toHaveLength(1);
  await gateway.http("PATCH", `/v1/plugin-bindings/${bindings[0]!.binding_id}`, {
    policy: { timeout_ms: 9_000 },
  });

  edit(program, '?? "Servus"', '?? "Moin"');
  await expect.poll(() => callForText("hello", { name: "Ada" })).toContain("Moin, Ada");
  await gateway.stop();
  edit(program, '?? "Moin"', '?? "Salut"');
  await restart();
  await expect.poll(() => callForText("hello", { name: "Ada" })).toContain("Salut, Ada");
  const binding = await gateway.http<{ policy: { timeout_ms?: number } }>(
    "GET",
    `/v1/plugin-bindings/${bindings[0]!.binding_id}`,
  );
  expect(binding.body.policy.timeout_ms).toBe(9_000);
  // The version in use, the one before it, and the one that was installed.
  expect((await listVersions("acme/hello")).length).toBeLessThanOrEqual(3);

  // A saved version that cannot be installed changes nothing.
  edit(join(path, "vai-plugin.toml"), 'kind = "tool"', 'kind = "spoon"');
  await expect.poll(async () => (await cli("workspace", "list")).stderr).toContain("Failed to load");
  expect(await callForText("hello", { name: "Ada" })).toContain("Salut, Ada");

  await cli("workspace", "untrust", path, "--yes");
  expect((await call("hello", { name: "Ada" })).error?.code).toBe("export.not_found");
  expect(await listVersions("acme/hello")).toEqual(["0.1.0"]);
}, 180_000);

test("reloads linked Agent Plugins and instruments after each save", async () => {
  const kit = copyFolder("test/fixtures/agent-plugin");
  await cli("plugin", "install", kit, "--editable");
  const name = "mcp_notes_greet";
  expect(await callForText(name)).toBe("hello");
  edit(join(kit, "mcp.json"), '"hello"', '"good morning"');
  await expect.poll(() => callForText(name)).toBe("good morning");

  const instrument = copyFolder("examples/hello-instrument");
  const linked = await cli("plugin", "install", instrument, "--editable");
  expect(linked.stdout).toMatch(/Linked .*\+edit\.d/);
  const list_before = (await cli("workspace", "list", "--json")).stdout;
  writeFileSync(join(instrument, "note.txt"), "changed");
  await expect.poll(async () => (await cli("workspace", "list", "--json")).stdout).not.toBe(list_before);
}, 180_000);

test("refuses settings of a binding together with --editable", async () => {
  const { code, stderr } = await gateway.cli(
    "plugin",
    "install",
    "examples/hello-tool",
    "--editable",
    "--class",
    "worker",
  );
  expect([code, stderr]).toEqual([2, expect.stringContaining("backplane binding set")]);
});

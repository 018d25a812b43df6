import { expect, test } from "vitest";
import { type InstallChoices, installFlags } from "../../../src/pages/plugins/install-options.tsx";
import {
  installCommand,
  readSource,
  type SourceDraft,
  type SourceKind,
} from "../../../src/pages/plugins/read-source.ts";
import { undocumentedFlags } from "../../support/documented-flags.ts";

const DRAFT: SourceDraft = { kind: "npm", text: "server", name: "", args: "", script: "", slots: [] };
const commandOf = (changes: Partial<SourceDraft>, flags: string[] = []) =>
  installCommand({ ...DRAFT, ...changes }, null, flags).slice(3);
const flagsOf = (kind: SourceKind, choices: InstallChoices, bind = true) =>
  installFlags(kind, choices, { bind, kernel_plugin: false });

test.for(["npm", "pypi", "image", "mcp_url", "mcp_json"] as const)(
  "shows the secret slots that the request for a server from %s declares",
  (kind) => {
    const text = kind === "mcp_json" ? '{"mcpServers": {}}' : "server";
    const draft = { ...DRAFT, kind, text, name: "notes", slots: ["api_key", "token"] };
    expect(readSource(draft)).toMatchObject({ secret_slots: ["api_key", "token"] });
    const command = installCommand(draft, null, ["--bind"]);
    expect(command.join(" ")).toContain("--secret api_key=NAME --secret token=NAME");
    expect(undocumentedFlags(command)).toEqual([]);
  },
);

test("shows no slots for a source that is not a server", () => {
  expect(commandOf({ kind: "folder", text: "/srv/plugin", slots: ["token"] })).toEqual(["/srv/plugin"]);
});

test("puts the flags before the arguments of the server", () => {
  expect(commandOf({ args: "--verbose\n/data", slots: ["token"] }, ["--bind"])).toEqual([
    "npm:server",
    "--secret",
    "token=NAME",
    "--bind",
    "--",
    "--verbose",
    "/data",
  ]);
});

test("shows the source as the request contains it", () => {
  expect(commandOf({ kind: "oci", text: "ghcr.io/acme/desk:1" })).toEqual(["oci://ghcr.io/acme/desk:1"]);
  expect(commandOf({ kind: "mcp_url", text: " https://a.test/mcp ", name: " notes " })).toEqual([
    "--mcp",
    "https://a.test/mcp",
    "notes",
  ]);
  expect(commandOf({ kind: "pypi", text: "time", script: " clock " })).toEqual([
    "pypi:time",
    "--script",
    "clock",
  ]);
  // Arguments that were typed for another kind of source are not sent.
  expect(commandOf({ kind: "folder", text: "/srv/plugin", args: "--verbose" })).toEqual(["/srv/plugin"]);
});

test("shows --no-bind, and no option of a binding, if nothing is to be bound", () => {
  expect(flagsOf("npm", { org_wide: true, allow_scripts: ["esbuild"] })).toEqual([
    "--bind",
    "--org-wide",
    "--allow-scripts",
    "esbuild",
  ]);
  // The command line refuses --org-wide without a binding, because it has no effect.
  expect(flagsOf("npm", { org_wide: true }, false)).toEqual(["--no-bind"]);
});

test("shows no flag that the command line refuses for a linked folder or a kernel plugin", () => {
  expect(flagsOf("folder", { editable: true, org_wide: true, strict: true })).toEqual(["--editable"]);
  expect(installFlags("npm", { org_wide: true }, { bind: true, kernel_plugin: true })).toEqual([]);
});

test("asks for the whole file if an mcp.json is not an object", () => {
  const read = (text: string) => readSource({ ...DRAFT, kind: "mcp_json", text });
  expect(read("[]")).toBe('Paste the whole file, with { "mcpServers": { … } }.');
  expect(read("{")).toMatch(/^This is not valid JSON: /);
});

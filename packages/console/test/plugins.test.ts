import type { Binding, Package } from "@backplane/contract";
import { expect, test } from "vitest";
import { ruleOf } from "../src/pages/approvals/allow-rule-dialog.tsx";
import { groupPackages, matchesText } from "../src/pages/plugins/group-packages.ts";
import { choiceFlags, choiceSettings } from "../src/pages/plugins/install-options.tsx";
import { draftOf, installCommand, readSource } from "../src/pages/plugins/read-source.ts";
import { findChanges } from "../src/pages/session-admin/session-admin-page.tsx";
import { expiryTime } from "../src/pages/settings/create-key-dialog.tsx";

function createPackage(package_id: string, version: string, installed_at: string): Package {
  const manifest = { name: package_id, description: "", exports: [{ id: "look" }] };
  return {
    id: `${package_id}@${version}`,
    package_id,
    version,
    installed_at,
    manifest,
  } as unknown as Package;
}

function createBinding(package_id: string, package_version: string, share_of?: string): Binding {
  return { package_id, package_version, share_of } as unknown as Binding;
}

test("shows the version in use, not the newest one or a share of a rollout", () => {
  const packages = [
    createPackage("acme/desk", "2.0.0", "2026-02-01"),
    createPackage("acme/desk", "1.0.0", "2026-01-01"),
    createPackage("acme/lamp", "1.0.0", "2026-01-01"),
    createPackage("acme/lamp", "1.1.0", "2026-03-01"),
  ];
  const bindings = [createBinding("acme/desk", "2.0.0", "bind_1"), createBinding("acme/desk", "1.0.0")];
  const groups = groupPackages(packages, bindings);
  expect(
    groups.map(({ shown, versions, bindings: bound }) => [shown.id, versions.length, bound.length]),
  ).toEqual([
    ["acme/desk@1.0.0", 2, 2],
    ["acme/lamp@1.1.0", 2, 0],
  ]);
  expect(
    groups.filter((group) => matchesText(group, "LOOK lamp")).map(({ package_id }) => package_id),
  ).toEqual(["acme/lamp"]);
});

test.each([
  ["npm:@acme/server@1.2.3", { kind: "npm", spec: "@acme/server@1.2.3", args: [] }],
  ["pypi:mcp-server-time", { kind: "pypi", spec: "mcp-server-time", args: [] }],
  ["image:mcp/time", { kind: "image", reference: "mcp/time", args: [] }],
  ["oci://ghcr.io/acme/devkit:1", { kind: "oci", reference: "oci://ghcr.io/acme/devkit:1" }],
  ["/home/me/plugin", { kind: "folder", path: "/home/me/plugin" }],
  ['{"mcpServers":{}}', { kind: "mcp_json", document: { mcpServers: {} } }],
])("reads %s as the command line does", (text, source) => {
  expect(readSource(draftOf(text))).toEqual(source);
});

test("returns what is missing instead of an incomplete source", () => {
  expect(readSource(draftOf("https://mcp.example.com/mcp"))).toContain("Name the server");
  expect(readSource({ ...draftOf("plugin"), kind: "folder" })).toContain("absolute path");
  expect(readSource({ ...draftOf("{"), kind: "mcp_json" })).toContain("not valid JSON");
  expect(readSource(draftOf("  "))).toBe("Enter what to install.");
});

test("builds the command that installs the same source", () => {
  const server = { ...draftOf("npm:server"), args: "--root\n/data" };
  expect(installCommand(server, null).slice(3)).toEqual(["npm:server", "--", "--root", "/data"]);
  const remote = { ...draftOf("https://a.test/mcp"), name: "notes" };
  expect(installCommand(remote, null).slice(3)).toEqual(["--mcp", "https://a.test/mcp", "notes"]);
  expect(installCommand({ ...server, kind: "archive" }, "kit.tgz").at(-1)).toBe("kit.tgz");
});

test("installs an example from the folder that the gateway names", () => {
  const examples = [{ name: "hello-tool", path: "/opt/examples/hello-tool", description: "" }];
  const draft = draftOf("example:hello-tool");
  expect(readSource(draft, examples)).toEqual({ kind: "folder", path: "/opt/examples/hello-tool" });
  expect(readSource(draftOf("example:none"), examples)).toContain("none is not an example");
  expect(installCommand(draft, null).slice(3)).toEqual(["example:hello-tool"]);
});

test("sends and shows only the options that apply to the kind of source", () => {
  const choices = {
    allow_scripts: ["esbuild"],
    allow_builds: ["numpy"],
    accept_source: true,
    allow_downgrade: true,
    editable: true,
  };
  expect(choiceSettings("npm", choices)).toEqual({ allow_scripts: ["esbuild"] });
  expect(choiceSettings("pypi", choices)).toEqual({ allow_builds: ["numpy"] });
  expect(choiceSettings("oci", choices)).toEqual({ accept_source: true, allow_downgrade: true });
  expect(choiceSettings("folder", choices)).toEqual({ allow_downgrade: true });
  expect(choiceFlags("pypi", choices)).toEqual(["--allow-build", "numpy"]);
  expect(choiceFlags("folder", choices)).toEqual(["--allow-downgrade", "--editable"]);
});

test("sends the chosen fields of an allow rule, and leaves out those with their default", () => {
  const draft = {
    covers: "tool",
    subject: "run_command",
    conditions: [{ name: "command", pattern: "git *" }],
    only_these: true,
    max_risk: "medium",
    who: "everyone",
    org_wide: false,
    note: " for releases ",
  } as const;
  expect(ruleOf(draft)).toEqual({
    tool: "run_command",
    arguments: { command: { matches: "git *" } },
    other_arguments: false,
    max_risk: "medium",
    identity: null,
    note: "for releases",
  });
  const all = {
    ...draft,
    covers: "server",
    subject: "acme/desk",
    conditions: [],
    only_these: false,
  } as const;
  expect(ruleOf({ ...all, max_risk: null, who: "me", org_wide: true, note: "" })).toEqual({
    server: "acme/desk",
    org_wide: true,
  });
});

test("sends a deleted key of the metadata as null", () => {
  expect(findChanges({ title: "A", strategy: "react", kept: 1 }, { title: "B", kept: 1, more: [] })).toEqual({
    title: "B",
    strategy: null,
    more: [],
  });
});

test("expires a key after a duration or at a time", () => {
  const now = Date.parse("2026-01-01T00:00:00Z");
  expect(expiryTime("", "", now)).toBeNull();
  expect(expiryTime("30", "", now)).toBe("2026-01-31T00:00:00.000Z");
  expect(expiryTime("time", "2027-05-06T07:08Z", now)).toBe("2027-05-06T07:08:00.000Z");
  expect(expiryTime("time", "", now)).toBeNull();
});

import { expect, test } from "vitest";
import { draftOf, installCommand, readSource } from "../../../src/pages/plugins/read-source.ts";

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

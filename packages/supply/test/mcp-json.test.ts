import { expect, test } from "vitest";
import { readMcpJson } from "../src/index.ts";

const read = (mcpServers: unknown) => readMcpJson(JSON.stringify({ mcpServers })).servers;
const place = (name: string) => `$${"{"}${name}}`;
const NOTHING = { args: [], env: {}, secret_env: {}, secret_slots: [] };

test.each([
  [{ command: "npx", args: ["-y", "@acme/mcp@1.2.3", "--dir", "/x"] }, "@acme/mcp@1.2.3", ["--dir", "/x"]],
  [{ command: "npx", args: ["--package=@acme/mcp", "demo", "a"] }, "@acme/mcp", ["a"]],
  [{ command: "npx", args: ["-p", "acme", "demo"] }, "acme", []],
])("npx %j is a package of npm", (about, spec, args) => {
  expect(read({ one: about })).toEqual([{ name: "one", ...NOTHING, from: { kind: "npm", spec }, args }]);
});

test("a program of the PATH keeps its arguments; an address keeps its plain headers", () => {
  expect(read({ py: { command: "python3", args: ["-m", "server"] } })).toEqual([
    { name: "py", ...NOTHING, from: { kind: "command", command: "python3" }, args: ["-m", "server"] },
  ]);
  const headers = { "X-Team": "blue" };
  expect(read({ far: { url: "https://far.example/mcp", headers } })).toEqual([
    { name: "far", ...NOTHING, from: { kind: "http", url: "https://far.example/mcp", headers } },
  ]);
});

test("what is secret by its name or its place becomes a slot, and its value is left where it is", () => {
  const [stdio, http] = read({
    one: {
      command: "npx",
      args: ["acme"],
      env: { GITHUB_TOKEN: "ghp_live", URL: place("input:base-url"), LEVEL: "info" },
    },
    two: {
      url: "https://far.example/mcp",
      headers: { Authorization: "Bearer live", "X-Api-Key": "live", "X-Org": `${place("env:ORG")}-x` },
    },
  });
  expect(stdio).toMatchObject({
    env: { LEVEL: "info" },
    secret_env: { github_token: "GITHUB_TOKEN", url: "URL" },
    secret_slots: ["github_token", "url"],
  });
  expect(http).toMatchObject({
    from: { headers: { "X-Api-Key": place("x_api_key"), "X-Org": `${place("org")}-x` } },
    secret_slots: ["authorization", "x_api_key", "org"],
  });
  expect(JSON.stringify([stdio, http])).not.toContain("live");
});

test.each([
  ["{", "is no JSON"],
  ["{}", 'has no "mcpServers"'],
  ['{"mcpServers":{}}', "names no server"],
])("%s is refused", (text, words) => {
  expect(() => readMcpJson(text, "servers.json")).toThrow(/servers\.json/);
  expect(() => readMcpJson(text)).toThrow(words);
});

test.each([
  ['{"mcpServers":{"a":{}}}', "neither a command nor a url"],
  ['{"mcpServers":{"a":{"command":"/opt/a"}}}', "the sandbox does not show"],
  ['{"mcpServers":{"a":{"type":"sse","url":"https://a/sse"}}}', "old SSE transport"],
  ['{"mcpServers":{"a":{"command":"npx","args":["--call","rm"]}}}', "--call"],
  ['{"mcpServers":{"a":{"command":"npx","args":["git+https://x/y"]}}}', "without the name of a package"],
  ['{"mcpServers":{"a":{"command":"x","env":{"N":1}}}}', "env.N of a is no text"],
])("%s leaves the server out and no other", (text, words) => {
  const { mcpServers } = JSON.parse(text) as { mcpServers: object };
  const good = { command: "python3" };
  const { servers, left_out } = readMcpJson(JSON.stringify({ mcpServers: { ...mcpServers, good } }));
  expect(servers.map(({ name }) => name)).toEqual(["good"]);
  expect(left_out).toMatchObject([{ kind: "server", name: "a", reason: expect.stringContaining(words) }]);
});

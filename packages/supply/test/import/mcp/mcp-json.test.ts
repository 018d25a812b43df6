import { expect, test } from "vitest";
import { npmServerEntry, readMcpJson } from "../../../src/import/mcp/mcp-json.ts";
import { selectProgram } from "../../../src/import/mcp/npm-server.ts";
import { toServerContent } from "../../../src/import/mcp/server-part.ts";
import type { PartImporters } from "../../../src/import/parts/source-content.ts";

const read = (mcpServers: unknown) => readMcpJson({ mcpServers }, "mcp.json").servers;
const placeholder = (name: string) => `$${"{"}${name}}`;
const NOTHING = { args: [], env: {}, secret_env: {}, secret_slots: [] };

test.each([
  [["-y", "@acme/mcp@1.2.3", "--dir", "/x"], { spec: "@acme/mcp@1.2.3" }, ["--dir", "/x"]],
  [["--package=@acme/mcp", "demo", "a"], { spec: "@acme/mcp", program: "demo" }, ["a"]],
  [["-p", "acme", "demo"], { spec: "acme", program: "demo" }, []],
  [["-p", "acme"], { spec: "acme" }, []],
])("reads npx with %j as an npm package", (npx, from, args) => {
  expect(read({ one: { command: "npx", args: npx } })).toEqual([
    { name: "one", server_name: "one", ...NOTHING, from: { kind: "npm", ...from }, args },
  ]);
});

test.each([
  ["uvx", ["mcp-server-time", "--zone", "x"], { spec: "mcp-server-time" }, ["--zone", "x"]],
  ["uvx", ["-q", "mcp-server-time@2025.1"], { spec: "mcp-server-time@2025.1" }, []],
  [
    "uvx",
    ["--from", "acme[all]==1.2", "acme-mcp", "a"],
    { spec: "acme[all]==1.2", script: "acme-mcp" },
    ["a"],
  ],
  ["uv", ["tool", "run", "--from=acme", "acme-mcp"], { spec: "acme", script: "acme-mcp" }, []],
  ["pipx", ["run", "--spec", "acme==1", "acme-mcp", "-v"], { spec: "acme==1", script: "acme-mcp" }, ["-v"]],
  [
    "python3",
    ["-m", "mcp_server_time", "-v"],
    { spec: "mcp-server-time", module: "mcp_server_time" },
    ["-v"],
  ],
])("reads %s %j as a Python package", (command, args, from, rest) => {
  expect(read({ one: { command, args } })).toEqual([
    { name: "one", server_name: "one", ...NOTHING, from: { kind: "pypi", ...from }, args: rest },
  ]);
});

test("reads docker run as a container image, with its variables, secrets and mounts", () => {
  const [entry] = read({
    one: {
      command: "docker",
      args: [
        "run",
        "-i",
        "--rm",
        "-e",
        "GITHUB_TOKEN",
        "--env=LEVEL=info",
        "-e",
        "ORG",
        "-v",
        "/srv/notes:/data",
        "--mount",
        "type=bind,src=/srv/ro,dst=/ro,readonly",
        "ghcr.io/acme/server:1",
        "stdio",
        "--x",
      ],
      env: { ORG: "acme" },
    },
  });
  expect(entry).toEqual({
    name: "one",
    server_name: "one",
    from: { kind: "image", reference: "ghcr.io/acme/server:1" },
    args: ["stdio", "--x"],
    env: { LEVEL: "info", ORG: "acme" },
    secret_env: { github_token: "GITHUB_TOKEN" },
    secret_slots: ["github_token"],
    mounts: [
      { source: "/srv/notes", target: "/data", writable: true },
      { source: "/srv/ro", target: "/ro", writable: false },
    ],
  });
});

test("reports flags of docker run that have no effect, and quotes names from an untrusted file", () => {
  const servers = read({
    one: {
      command: "docker",
      args: [
        "run",
        "--rm=true",
        "--name",
        "x",
        "--restart=always",
        "-v",
        "/srv/a;reboot:/data",
        "-p8080:80",
        "--read-only",
        "--network",
        "none",
        "--memory=1g",
        "acme/x",
        "-p",
        "own",
      ],
    },
  });
  const importers = {} as PartImporters;
  expect(toServerContent({ servers, left_out: [] }, importers).notes).toEqual([
    "one requests the folder /srv/a;reboot, which is not granted. To allow it: backplane binding set one --mount '/srv/a;reboot:/data:rw'",
    "one is started with --name, which has no effect here: the gateway decides when the server runs.",
    "one is started with --restart, which has no effect here: the gateway decides when the server runs.",
    "one is started with -p, which has no effect here: no port of the server can be reached from outside.",
    "one is started with --read-only, which has no effect here: the sandbox is at least as strict.",
    "one is started with --network, which has no effect here: the policy of the binding decides what the server may reach (--domains).",
    "one is started with --memory, which has no effect here: the limits of the sandbox apply ([sandbox.package_limits] in backplane.toml).",
  ]);
  expect(servers[0]!.args).toEqual(["-p", "own"]);
});

test.each([
  ["docker", ["run", "-it", "acme/x"], "docker run with -t, which is not supported: a terminal"],
  [
    "podman",
    ["run", "--network=host", "acme/x"],
    "podman run with --network, which is not supported: the policy",
  ],
  ["docker", ["run", "--privileged", "acme/x"], "a server never gets privileges on the host"],
  [
    "docker",
    ["run", "--env-file", ".env", "acme/x"],
    "--env-file, which is not supported: the file is not part",
  ],
  ["docker", ["run", "--entrypoint=sh", "acme/x"], "the server starts as the image specifies"],
  ["docker", ["run", "-di", "acme/x"], "docker run with -d, which is not supported: the gateway speaks"],
  ["docker", ["run", "--cap-add", "ALL", "acme/x"], "a server never gets privileges on the host"],
  ["docker", ["run", "--unknown", "acme/x"], "docker run with --unknown, which is not supported."],
  ["docker", ["run", "-v", "cache:/data", "acme/x"], 'mounts "cache", which is not a folder of this machine'],
  ["docker", ["run", "-v", "/srv:data", "acme/x"], 'mounts /srv at "data", which is not an absolute path'],
  ["docker", ["run", "-i"], "docker run without an image"],
  ["docker", ["run", "Not/An:Image:"], "is not the name of a container image"],
  ["uvx", ["--python", "3.9", "acme"], "--python, which is not supported: the server runs with the python3"],
  [
    "uvx",
    ["--with", "pandas", "acme"],
    "--with, which is not supported: the package is installed with its own",
  ],
  ["uvx", ["--from", "git+https://x/y", "acme"], "not NAME or NAME==VERSION of the Python index"],
  [
    "uvx",
    ["--index-url=https://x", "acme"],
    "--index-url, which is not supported: the gateway uses one index",
  ],
  ["uvx", [], "uvx without a package name"],
  [
    "pipx",
    ["run", "--pip-args=-i x", "acme"],
    "pipx run with --pip-args, which is not supported: the gateway chooses",
  ],
])("refuses %s %j with a reason", (command, args, reason) => {
  const { servers, left_out } = readMcpJson({ mcpServers: { one: { command, args } } }, "mcp.json");
  expect(servers).toEqual([]);
  expect(left_out[0]!.reason).toContain(reason);
});

test("starts the program that npx specifies, and refuses another program of the package", () => {
  const two_programs = { bin: { mcp: "./mcp.js", admin: "./admin.js" } };
  expect(selectProgram("@acme/mcp", two_programs, "mcp")).toBe("./mcp.js");
  expect(selectProgram("@acme/mcp", { bin: { demo: "./demo.js" } }, "demo")).toBe("./demo.js");
  expect(selectProgram("@acme/mcp", { bin: "./own.js" }, "mcp")).toBe("./own.js");
  expect(() => selectProgram("@acme/mcp", two_programs, "admin")).toThrow(
    'the command starts its program "admin", but only mcp can be started',
  );
});

test("reports the settings of a server that have no effect", () => {
  const servers = read({
    one: { command: "npx", args: ["acme"], cwd: "/srv", timeout: 60, autoApprove: ["a"], description: "x" },
    two: {
      url: "https://a.example/mcp",
      type: "http",
      oauth: { client_id: "x" },
      disabled: false,
      tools: [],
    },
  });
  expect(toServerContent({ servers, left_out: [] }, {} as PartImporters).notes).toEqual([
    'one is started with the setting "cwd", which has no effect here: the server starts in its own folder.',
    'one is started with the setting "timeout", which has no effect here: the limits of the gateway apply ([timeouts] in backplane.toml).',
    'one is started with the setting "autoApprove", which has no effect here: the policy of the gateway decides which calls need approval (backplane policy).',
    'two is started with the setting "oauth", which has no effect here: the gateway does not support it.',
  ]);
});

test.each([
  ["@playwright/mcp@0.0.41", "playwright"],
  ["@playwright/mcp", "playwright"],
  ["mcp-server-kubernetes", "kubernetes"],
  ["firecrawl-mcp", "firecrawl"],
  ["@upstash/context7-mcp@latest", "context7"],
  ["@modelcontextprotocol/server-everything", "server-everything"],
  ["@acme/mcp-server", "acme"],
  ["mcp", "mcp"],
])("gives the server of %s the name %s", (spec, name) => {
  expect(npmServerEntry(spec, [])).toMatchObject({ name: spec, server_name: name });
});

test("turns placeholders in arguments into slots", () => {
  const args = ["-y", "pg", `postgres://app:${placeholder("input:DB_PASSWORD")}@db/app`];
  expect(read({ db: { command: "npx", args } })).toMatchObject([
    { args: [`postgres://app:${placeholder("db_password")}@db/app`], secret_slots: ["db_password"] },
  ]);
});

test("keeps the arguments of a program and the plain headers of a URL", () => {
  expect(read({ py: { command: "python3", args: ["-m", "server"] } })).toEqual([
    { name: "py", ...NOTHING, from: { kind: "command", command: "python3" }, args: ["-m", "server"] },
  ]);
  const headers = { "X-Team": "blue" };
  expect(read({ far: { url: "https://far.example/mcp", headers } })).toEqual([
    { name: "far", ...NOTHING, from: { kind: "http", url: "https://far.example/mcp", headers } },
  ]);
});

test("turns values that are secret by name or placeholder into slots and drops the values", () => {
  const [stdio, http] = read({
    one: {
      command: "npx",
      args: ["acme"],
      env: { GITHUB_TOKEN: "ghp_live", URL: placeholder("input:base-url"), LEVEL: "info" },
    },
    two: {
      url: "https://far.example/mcp",
      headers: { Authorization: "Bearer live", "X-Api-Key": "live", "X-Org": `${placeholder("env:ORG")}-x` },
    },
  });
  expect(stdio).toMatchObject({
    env: { LEVEL: "info" },
    secret_env: { github_token: "GITHUB_TOKEN", url: "URL" },
    secret_slots: ["github_token", "url"],
  });
  expect(http).toMatchObject({
    from: { headers: { "X-Api-Key": placeholder("x_api_key"), "X-Org": `${placeholder("org")}-x` } },
    secret_slots: ["authorization", "x_api_key", "org"],
  });
  expect(JSON.stringify([stdio, http])).not.toContain("live");
});

test.each([
  [[], 'has no "mcpServers"'],
  [{}, 'has no "mcpServers"'],
  [{ mcpServers: {} }, "has no servers"],
])("refuses the document %j", (document, expectedText) => {
  expect(() => readMcpJson(document, "servers.json")).toThrow(/servers\.json/);
  expect(() => readMcpJson(document, "mcp.json")).toThrow(expectedText);
});

test.each([
  ['{"mcpServers":{"a":{}}}', "neither a command nor a url"],
  ['{"mcpServers":{"a":{"command":"/opt/a"}}}', "not visible in the sandbox"],
  ['{"mcpServers":{"a":{"type":"sse","url":"https://a/sse"}}}', "SSE transport"],
  ['{"mcpServers":{"a":{"command":"npx","args":["--call","rm"]}}}', "--call"],
  ['{"mcpServers":{"a":{"command":"npx","args":["git+https://x/y"]}}}', "without a package name"],
  ['{"mcpServers":{"a":{"command":"x","env":{"N":1}}}}', "env.N of a is not a string"],
  ['{"mcpServers":{"a":{"command":"x","disabled":true}}}', "a is disabled in the file"],
  ['{"mcpServers":{"a":{"url":"https://a/mcp","enabled":false}}}', "a is disabled in the file"],
  ['{"mcpServers":{"a":{"command":"x","envFile":".env"}}}', "a has an envFile"],
])("leaves out only the invalid server of %s", (text, expectedText) => {
  const { mcpServers } = JSON.parse(text) as { mcpServers: object };
  const good = { command: "python3" };
  const { servers, left_out } = readMcpJson({ mcpServers: { ...mcpServers, good } }, "mcp.json");
  expect(servers.map(({ name }) => name)).toEqual(["good"]);
  expect(left_out).toMatchObject([
    { kind: "server", name: "a", reason: expect.stringContaining(expectedText) },
  ]);
});

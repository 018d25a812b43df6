/** `backplane client` against a real gateway and the files of each client. */
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { ApiKey, JsonObject } from "@backplane/contract";
import { parse } from "smol-toml";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";
import { EXIT } from "../../src/index.ts";
import { installKit, startTestGateway, type TestGateway } from "../support/gateway.ts";

let gateway: TestGateway;
let home = "";
beforeAll(async () => {
  gateway = await startTestGateway();
  await installKit(gateway);
});
afterAll(() => gateway.close());
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "backplane-client-"));
  return () => rmSync(home, { recursive: true, force: true });
});

const runClient = (...argv: string[]) =>
  gateway.backplane(["client", ...argv], { env: { HOME: home }, cwd: home });
const listClients = async () =>
  await gateway.json<{ client: string; connected: boolean; works: boolean | null; problem: string | null }[]>(
    ["client", "list"],
    { env: { HOME: home }, cwd: home },
  );
const listActiveKeys = async (name: string): Promise<ApiKey[]> => {
  const { items } = await gateway.json<{ items: ApiKey[] }>(["key", "list", "--limit", "100"]);
  return items.filter((key) => key.name === name && key.revoked_at === null);
};
const readToken = (file: string) => /bpk_[A-Za-z0-9_-]+/.exec(readFileSync(file, "utf8"))![0];
const modeOf = (file: string) => statSync(file).mode & 0o777;

/** Sends one MCP request with the key of an entry. */
async function sendMcpRequest(token: string, method: string, params: JsonObject = {}) {
  const response = await fetch(`${gateway.url}/mcp`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
  });
  const text = await response.text();
  const message = /^data: (.*)$/m.exec(text)?.[1] ?? text;
  return { status: response.status, result: JSON.parse(message).result as JsonObject };
}

/** The file of each client in the home and in a project, and a function that reads the entry. */
const FILES: [
  client: string,
  user_file: string,
  project_file: string,
  readEntry: (text: string) => JsonObject,
][] = [
  ["claude", ".claude.json", ".mcp.json", (text) => JSON.parse(text).mcpServers.backplane],
  [
    "codex",
    ".codex/config.toml",
    ".codex/config.toml",
    (text) => (parse(text) as never as { mcp_servers: JsonObject }).mcp_servers.backplane as JsonObject,
  ],
  ["opencode", ".config/opencode/opencode.json", "opencode.json", (text) => JSON.parse(text).mcp.backplane],
  [
    "gemini",
    ".gemini/settings.json",
    ".gemini/settings.json",
    (text) => JSON.parse(text).mcpServers.backplane,
  ],
  [
    "vscode",
    process.platform === "darwin"
      ? "Library/Application Support/Code/User/mcp.json"
      : ".config/Code/User/mcp.json",
    ".vscode/mcp.json",
    (text) => JSON.parse(text).servers.backplane,
  ],
  ["cursor", ".cursor/mcp.json", ".cursor/mcp.json", (text) => JSON.parse(text).mcpServers.backplane],
];

verifies(
  "client.connect",
  "connects each client with its own key in a private file, and disconnects it",
  async () => {
    for (const [name, path, project_path, readEntry] of FILES) {
      const file = join(home, path);
      const connected = await runClient("connect", name);
      expect(connected, name).toMatchObject({ exit: EXIT.ok });
      const entry = readEntry(readFileSync(file, "utf8"));
      expect(entry.url ?? entry.httpUrl).toBe(`${gateway.url}/mcp`);
      expect(modeOf(file)).toBe(0o600);
      expect(connected.out + connected.err).not.toContain(readToken(file));
      const keys = await listActiveKeys(`client:${name}`);
      expect(keys).toMatchObject([{ scopes: ["invocations:write"], role: "user" }]);
      expect(keys[0]!.prefix).toBe(readToken(file).slice(0, 8));
      expect((await listClients()).find((item) => item.client === name)).toMatchObject({
        present: true,
        connected: true,
        works: true,
        url: `${gateway.url}/mcp`,
      });
      const token = readToken(file);
      const { result } = await sendMcpRequest(token, "tools/call", {
        name: "echo",
        arguments: { text: "hi" },
      });
      expect(JSON.stringify(result), name).toContain("hi");
      expect(await runClient("disconnect", name), name).toMatchObject({ exit: EXIT.ok });
      expect(existsSync(file), name).toBe(false);
      expect(await listActiveKeys(`client:${name}`)).toEqual([]);
      expect(await sendMcpRequest(token, "tools/list"), name).toMatchObject({ status: 401 });
      const folder = join(home, "project");
      mkdirSync(folder, { recursive: true });
      expect(await runClient("connect", name, "--folder", folder)).toMatchObject({ exit: EXIT.ok });
      expect(readToken(join(folder, project_path))).toMatch(/^bpk_/);
      expect(await runClient("disconnect", name, "--folder", folder)).toMatchObject({ exit: EXIT.ok });
    }
  },
);

verifies(
  "client.connect",
  "changes nothing when a client is already connected, or with --dry-run",
  async () => {
    const file = join(home, ".claude.json");
    const dry = await runClient("connect", "claude", "--dry-run");
    expect(dry.out).toContain('+    "backplane": {');
    expect(existsSync(file)).toBe(false);
    expect(await listActiveKeys("client:claude")).toEqual([]);
    await runClient("connect", "claude");
    const text = readFileSync(file, "utf8");
    expect((await runClient("connect", "claude")).out).toContain("already");
    expect(readFileSync(file, "utf8")).toBe(text);
    const removal = await runClient("disconnect", "claude", "--dry-run");
    expect(removal.out).toContain("bpk_…");
    expect(removal.out).not.toContain(readToken(file));
    expect(readFileSync(file, "utf8")).toBe(text);
    await runClient("disconnect", "claude");
    expect((await runClient("disconnect", "claude")).out).toContain("is not connected");
  },
);

verifies(
  "client.connect",
  "replaces a revoked key and keeps fields that the user added to the entry",
  async () => {
    const file = join(home, ".gemini/settings.json");
    await runClient("connect", "gemini");
    const old_token = readToken(file);
    const settings = JSON.parse(readFileSync(file, "utf8"));
    settings.mcpServers.backplane.timeout = 5_000;
    writeFileSync(file, JSON.stringify(settings, null, 4));
    const [key] = await listActiveKeys("client:gemini");
    await gateway.json(["key", "revoke", key!.id, "--yes"]);
    expect((await listClients()).find((item) => item.client === "gemini")).toMatchObject({
      connected: true,
      works: false,
      problem: "the key is not valid",
    });
    await runClient("connect", "gemini");
    expect(readToken(file)).not.toBe(old_token);
    expect(JSON.parse(readFileSync(file, "utf8")).mcpServers.backplane.timeout).toBe(5_000);
    expect(await listActiveKeys("client:gemini")).toHaveLength(1);
    await runClient("disconnect", "gemini");
  },
);

verifies(
  "client.connect",
  "follows a symbolic link, keeps mode and owner, and stores a private backup",
  async () => {
    const target = join(home, "dotfiles", "claude.json");
    mkdirSync(dirname(target));
    const original =
      '{\n  "mcpServers": {\n    "other": { "headers": { "Authorization": "Bearer mine" } }\n  }\n}\n';
    writeFileSync(target, original);
    chmodSync(target, 0o644);
    const root = process.getuid?.() === 0;
    if (root) chownSync(target, 65_534, 65_534);
    symlinkSync(target, join(home, ".claude.json"));
    const { err } = await runClient("connect", "claude");
    expect(err).toContain("chmod 600");
    expect(err).toContain("claude.json.backplane-backup");
    expect(modeOf(target)).toBe(0o644);
    if (root) expect(statSync(target)).toMatchObject({ uid: 65_534, gid: 65_534 });
    expect(readFileSync(`${target}.backplane-backup`, "utf8")).toBe(original);
    expect(modeOf(`${target}.backplane-backup`)).toBe(0o600);
    await runClient("disconnect", "claude");
    expect(readFileSync(target, "utf8")).toBe(original);
    expect(lstatSync(join(home, ".claude.json")).isSymbolicLink()).toBe(true);
    expect(existsSync(`${target}.backplane-backup`)).toBe(false);
  },
);

verifies(
  "client.connect",
  "restores every byte of a file without servers, and removes only the gateway's entry from a file that was edited since",
  async () => {
    for (const [name, path, original, edited] of [
      [
        "claude",
        ".claude.json",
        '{"theme":"dark","projects":{}}',
        '{"theme":"dark","projects":{"a":1}, "mcpServers": {}}',
      ],
      ["gemini", ".gemini/settings.json", "{\n  // mine\n}\n", null],
      ["codex", ".codex/config.toml", 'model = "m"', 'model = "m"\n# mine\n'],
      ["cursor", ".cursor/mcp.json", "", null],
    ] as const) {
      const file = join(home, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, original);
      await runClient("connect", name);
      expect(readToken(file)).toMatch(/^bpk_/);
      expect((await runClient("disconnect", name)).exit, name).toBe(EXIT.ok);
      expect(readFileSync(file, "utf8"), name).toBe(original);
      if (edited === null) continue;
      await runClient("connect", name);
      const text = readFileSync(file, "utf8");
      writeFileSync(
        file,
        text.replace('"projects":{}', '"projects":{"a":1}').replace(/\n\n\[/, "\n# mine\n\n["),
      );
      expect((await runClient("disconnect", name)).exit, name).toBe(EXIT.ok);
      expect(readFileSync(file, "utf8"), name).toBe(edited);
    }
  },
);

verifies("client.connect", "keeps the role and the tools of a client that is connected again", async () => {
  await runClient("connect", "claude", "--role", "guest", "--tools", "echo");
  const file = join(home, ".claude.json");
  const old_token = readToken(file);
  expect(await runClient("connect", "claude", "--tools", "slow")).toMatchObject({ exit: EXIT.ok });
  expect(await listActiveKeys("client:claude")).toMatchObject([{ role: "guest", tools: ["slow"] }]);
  expect(await sendMcpRequest(old_token, "tools/list")).toMatchObject({ status: 401 });
  const [key] = await listActiveKeys("client:claude");
  await gateway.json(["key", "revoke", key!.id, "--yes"]);
  await runClient("connect", "claude");
  expect(await listActiveKeys("client:claude")).toMatchObject([{ role: "guest", tools: ["slow"] }]);
  const [last] = await listActiveKeys("client:claude");
  await gateway.json(["key", "revoke", last!.id, "--yes"]);
  // Nothing is left to revoke, so this is not a partial success.
  expect(await runClient("disconnect", "claude")).toMatchObject({ exit: EXIT.ok });
});

test("changes only the key of an entry that is connected again, and keeps its comments", async () => {
  for (const [name, path] of [
    ["vscode", FILES[4]![1]],
    ["codex", ".codex/config.toml"],
  ] as const) {
    const file = join(home, path);
    await runClient("connect", name);
    const comment = name === "codex" ? "# mine\n" : "// mine\n";
    writeFileSync(file, readFileSync(file, "utf8").replace(/( *"?url"?)/, `${comment}$1`));
    const original = readFileSync(file, "utf8");
    const old_token = readToken(file);
    await runClient("connect", name, "--role", "guest");
    expect(readToken(file)).not.toBe(old_token);
    expect(readFileSync(file, "utf8")).toBe(original.replace(old_token, readToken(file)));
    await runClient("disconnect", name);
  }
});

test("does not change a read-only file and revokes the key that was created for it", async () => {
  const file = join(home, ".claude.json");
  writeFileSync(file, "{}\n", { mode: 0o444 });
  const { exit, err } = await runClient("connect", "claude");
  expect(exit).toBe(EXIT.failed);
  expect(err).toContain("it is read-only");
  expect(readFileSync(file, "utf8")).toBe("{}\n");
  expect(await listActiveKeys("client:claude")).toEqual([]);
  expect(readdirSync(home)).toEqual([".claude.json"]);
});

verifies(
  "client.connect",
  "changes neither an invalid file nor an entry of another origin, and creates no key",
  async () => {
    const file = join(home, ".claude.json");
    for (const text of ['{\n  "a": 1,\n  oops\n}', '{"mcpServers": {"backplane": {"command": "mine"}}}']) {
      writeFileSync(file, text);
      for (const action of ["connect", "disconnect"]) {
        const { exit, err } = await runClient(action, "claude");
        expect(exit).toBe(EXIT.failed);
        expect(err).toMatch(/line 3|was not written by/);
      }
      expect(readFileSync(file, "utf8")).toBe(text);
    }
    expect(await listActiveKeys("client:claude")).toEqual([]);
    expect((await runClient("connect", "emacs")).exit).toBe(EXIT.usage);
    symlinkSync(join(home, "absent"), join(home, "dangling"));
    const dangling = await gateway.backplane(["client", "connect", "opencode"], {
      env: { HOME: home, OPENCODE_CONFIG: join(home, "dangling") },
    });
    expect(dangling.err).toContain("symbolic link");
  },
);

test("removes the entry and reports the key when the entry belongs to another gateway", async () => {
  const file = join(home, ".cursor/mcp.json");
  await runClient("connect", "cursor");
  writeFileSync(file, readFileSync(file, "utf8").replace(gateway.url, "http://127.0.0.1:9"));
  expect((await listClients()).find((item) => item.client === "cursor")).toMatchObject({ works: false });
  const { exit, err } = await runClient("disconnect", "cursor");
  expect(exit).toBe(EXIT.partial);
  expect(err).toContain("http://127.0.0.1:9/mcp");
  expect(existsSync(file)).toBe(false);
});

verifies(
  ["client.connect", "client.profiles"],
  "assigns the tools of --tools to the client's key",
  async () => {
    await runClient("connect", "claude", "--tools", "echo,mcp_x_*");
    expect(await listActiveKeys("client:claude")).toMatchObject([{ tools: ["echo", "mcp_x_*"] }]);
    const { result } = await sendMcpRequest(readToken(join(home, ".claude.json")), "tools/list");
    const names = (result.tools as { name: string }[]).map(({ name }) => name);
    expect(names).toEqual(["echo", "tool_call", "tool_search"]);
    await runClient("disconnect", "claude");
  },
);

test("refuses an invalid entry name and a folder that does not exist", async () => {
  for (const name of ['bad name"', "", "a.b", "x".repeat(65), "__proto__"]) {
    const { exit, err } = await runClient("connect", "claude", "--name", name);
    expect([exit, err]).toEqual([EXIT.usage, expect.stringContaining("--name")]);
  }
  const { exit, err } = await runClient("connect", "claude", "--folder", "nowhere/at/all");
  expect([exit, err]).toEqual([EXIT.usage, expect.stringContaining("does not exist")]);
  expect(existsSync(join(home, "nowhere"))).toBe(false);
  expect(await listActiveKeys("client:claude")).toEqual([]);
});

test("warns about a pattern of --tools that no tool matches", async () => {
  const { exit, err } = await runClient("connect", "claude", "--tools", "echo,nosuch_*");
  expect([exit, err]).toEqual([EXIT.ok, expect.stringContaining("No tool matches nosuch_* at present.")]);
  await runClient("disconnect", "claude");
});

test("reports a key that could not be revoked", async () => {
  await runClient("connect", "cursor");
  const [key] = await listActiveKeys("client:cursor");
  const file = join(home, ".cursor/mcp.json");
  const closed = "http://127.0.0.1:9";
  writeFileSync(file, readFileSync(file, "utf8").replace(gateway.url, closed));
  const { exit, err } = await gateway.backplane(["client", "disconnect", "cursor", "--url", closed], {
    env: { HOME: home },
    cwd: home,
  });
  expect(exit).toBe(EXIT.partial);
  expect(err).toContain(`(${key!.prefix}…)`);
});

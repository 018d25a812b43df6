/**
 * Installs published MCP servers from the npm registry in a new gateway, calls one tool of each and prints the table of
 * docs/published-mcp-servers.md. Needs a build and access to the registry: `npm run try:mcp-servers [-- WORD…]` tries
 * the servers whose name contains one of the words, or all of them. This is not part of the tests, because new versions
 * of these servers can be published at any time.
 */
import { execFile, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";

interface Server {
  npm: string;
  /** Flags and arguments of the installation; `FOLDER` is replaced by the folder of this run. */
  flags?: string[];
  /** The slot of a secret without which the server does not start; its value is a placeholder. */
  secret?: string;
  /** The end of the name of the tool to call. */
  tool: string;
  input?: object;
}

const CHROMIUM = ["--headless", "--executable-path", "/usr/bin/chromium", "--no-sandbox"];

const SERVERS: Server[] = [
  { npm: "@modelcontextprotocol/server-everything", tool: "_echo", input: { message: "hello" } },
  {
    npm: "@modelcontextprotocol/server-filesystem",
    flags: ["--mount", "FOLDER/repository:/data", "--", "/data"],
    tool: "_read_text_file",
    input: { path: "/data/note.txt" },
  },
  {
    npm: "@modelcontextprotocol/server-memory",
    flags: ["--env", "MEMORY_FILE_PATH=/tmp/memory.jsonl"],
    tool: "_create_entities",
    input: { entities: [{ name: "a", entityType: "letter", observations: ["first"] }] },
  },
  {
    npm: "@modelcontextprotocol/server-sequential-thinking",
    tool: "_sequentialthinking",
    input: { thought: "a", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
  },
  {
    npm: "@playwright/mcp",
    flags: ["--", ...CHROMIUM],
    tool: "_browser_navigate",
    input: { url: "data:text/html,<p>hello</p>" },
  },
  {
    npm: "chrome-devtools-mcp",
    flags: [
      "--",
      "--headless",
      "--isolated",
      "--executablePath=/usr/bin/chromium",
      "--chromeArg=--no-sandbox",
    ],
    tool: "_list_pages",
  },
  {
    npm: "mcp-sqlite",
    flags: ["--allow-scripts", "sqlite3", "--", "/tmp/test.db"],
    tool: "_query",
    input: { sql: "select 6 * 7 as answer" },
  },
  {
    npm: "@cyanheads/git-mcp-server",
    flags: ["--mount", "FOLDER/repository:/data"],
    tool: "_log",
    input: { path: "/data" },
  },
  {
    npm: "@upstash/context7-mcp",
    tool: "_resolve-library-id",
    input: { query: "react", libraryName: "react" },
  },
  { npm: "firecrawl-mcp", tool: "_scrape", input: { url: "https://example.com" } },
  { npm: "tavily-mcp", tool: "_search", input: { query: "weather" } },
  { npm: "exa-mcp-server", tool: "_web_search_exa", input: { query: "weather" } },
  { npm: "@notionhq/notion-mcp-server", tool: "_API-get-self" },
  {
    npm: "@brave/brave-search-mcp-server",
    secret: "brave_api_key",
    tool: "_brave_web_search",
    input: { query: "weather" },
  },
  { npm: "mcp-server-kubernetes", tool: "_kubectl_get", input: { resourceType: "pods" } },
  { npm: "@sentry/mcp-server", secret: "sentry_access_token", tool: "_find_organizations" },
  {
    npm: "figma-developer-mcp",
    secret: "figma_api_key",
    flags: ["--", "--stdio"],
    tool: "_get_figma_data",
    input: { fileKey: "abc" },
  },
  { npm: "airtable-mcp-server", secret: "airtable_api_key", tool: "_list_bases" },
  { npm: "@stripe/mcp", secret: "stripe_secret_key", tool: "_list_customers" },
  { npm: "@hubspot/mcp-server", tool: "_hubspot-get-user-details" },
  { npm: "mongodb-mcp-server", tool: "_list-databases", input: { connectionId: "default" } },
  { npm: "@supabase/mcp-server-supabase", secret: "supabase_access_token", tool: "_list_projects" },
  { npm: "@wonderwhy-er/desktop-commander", tool: "_list_processes" },
];

const CLI = resolve("packages/cli/bin/backplane.cjs");

interface Output {
  code: number;
  stdout: string;
  stderr: string;
}

function run(file: string, args: readonly string[], env = process.env): Promise<Output> {
  return new Promise((done) => {
    execFile(file, args, { env, maxBuffer: 64 << 20 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : 1;
      done({ code, stdout, stderr });
    });
  });
}

async function main(words: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-mcp-servers-"));
  chmodSync(folder, 0o755);
  const repository = join(folder, "repository");
  mkdirSync(repository);
  writeFileSync(join(repository, "note.txt"), "hello\n");
  await run("git", ["init", "--quiet", repository]);
  await run("git", ["-C", repository, "add", "."]);
  const author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
  await run("git", ["-C", repository, ...author, "commit", "--quiet", "-m", "first commit"]);
  const env = { ...process.env, BACKPLANE_HOME: join(folder, "home") };
  const gateway = spawn(process.execPath, [CLI, "up", "--json", "--port", "0", "--no-open"], {
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const exited = new Promise<void>((done) => gateway.once("exit", () => done()));
  try {
    const [ready] = await Promise.race([
      readFirstLine(createInterface({ input: gateway.stdout })),
      exited.then(() => [null]),
    ]);
    if (ready === null) throw new Error("The gateway did not start. Run `npm run build` first.");
    await storePlaceholder(JSON.parse(ready) as Ready);
    console.log("| package | version | tools | flags | call | result |\n|---|---|---|---|---|---|");
    for (const server of SERVERS.filter(({ npm }) => isWanted(npm, words)))
      console.log(await tryServer(server, folder, (...argv) => run(process.execPath, [CLI, ...argv], env)));
  } finally {
    gateway.kill("SIGTERM");
    await exited;
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Ready {
  url: string;
  token_file: string;
}

/** The value looks like a key of Stripe, because Stripe's server accepts no other form. */
async function storePlaceholder({ url, token_file }: Ready): Promise<void> {
  const response = await fetch(`${url}/v1/secrets/placeholder`, {
    method: "PUT",
    headers: {
      authorization: `Bearer ${readFileSync(token_file, "utf8").trim()}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ value: "rk_test_placeholder" }),
  });
  if (!response.ok) throw new Error(`The placeholder secret was not stored: HTTP ${response.status}.`);
}

function readFirstLine(lines: NodeJS.EventEmitter): Promise<[string | null]> {
  return new Promise((done) => lines.once("line", (line: string) => done([line])));
}

function isWanted(npm: string, words: readonly string[]): boolean {
  return words.length === 0 || words.some((word) => npm.includes(word));
}

interface ServerInstallation {
  package: { version: string };
  bindings: { binding_id: string }[];
}

interface ToolCall {
  status: string;
  error: { message: string } | null;
  tool_result: { is_error: boolean; content: { text?: string }[] } | null;
  egress: { refusals: { host: string; reason: string }[] } | null;
}

/** Returns the server's row of the table. Removes its binding at the end, so that only one server runs at a time. */
async function tryServer(
  { npm, flags = [], secret, tool, input = {} }: Server,
  folder: string,
  cli: (...argv: string[]) => Promise<Output>,
): Promise<string> {
  const install_flags = [...(secret === undefined ? [] : ["--secret", `${secret}=placeholder`]), ...flags];
  const argv = install_flags.map((flag) => flag.replace("FOLDER", folder));
  const started = performance.now();
  const installed = await cli("plugin", "install", `npm:${npm}`, "--json", ...argv);
  const seconds = Math.round((performance.now() - started) / 1000);
  console.error(`${npm}: exit code ${installed.code} after ${seconds} s\n${installed.stderr}`);
  const row = (version: string, tools: string, call: string, result: string) =>
    `| \`${npm}\` | ${version} | ${tools} | ${codeSpan(install_flags.join(" "))} | ${codeSpan(call)} | ${cell(result)} |`;
  if (installed.code !== 0) return row("-", "-", "", `not installed: ${messageOf(installed.stderr)}`);
  const { package: pack, bindings } = JSON.parse(installed.stdout) as ServerInstallation;
  const { binding_id } = bindings[0]!;
  const listed = await cli("binding", "tools", binding_id, "--refresh", "--json");
  const { exports = [], error = null } = JSON.parse(listed.stdout || "{}") as {
    exports?: { id: string }[];
    error?: { message: string } | null;
  };
  const match = exports.find(({ id }) => id.endsWith(tool));
  if (match === undefined) {
    const reason =
      error?.message ?? (listed.code === 0 ? `it has no tool ${tool}` : messageOf(listed.stderr));
    await removeBinding(cli, binding_id);
    return row(pack.version, String(exports.length), "", `no tools: ${reason}`);
  }
  const called = await cli("invoke", match.id, "--input", JSON.stringify(input), "--json");
  console.error(`${called.stdout.slice(0, 2_000)}\n${called.stderr}`);
  await removeBinding(cli, binding_id);
  return row(pack.version, String(exports.length), match.id, resultOf(called));
}

async function removeBinding(cli: (...argv: string[]) => Promise<Output>, binding_id: string): Promise<void> {
  await cli("binding", "remove", binding_id, "--yes");
}

function resultOf({ stdout, stderr }: Output): string {
  if (stdout === "") return messageOf(stderr);
  const { status, error, tool_result, egress } = JSON.parse(stdout) as ToolCall;
  const refused = [...new Set(egress?.refusals.map(({ host, reason }) => `${host} (${reason})`) ?? [])];
  const reply = tool_result?.content.find(({ text }) => text !== undefined)?.text ?? error?.message ?? "";
  const outcome = status === "succeeded" && tool_result?.is_error !== true ? "answered" : "failed";
  return [`${outcome}: ${reply}`, ...(refused.length === 0 ? [] : [`refused: ${refused.join(", ")}`])].join(
    "; ",
  );
}

/** The line after the one with the error code states the reason for the failure. */
function messageOf(stderr: string): string {
  const lines = stderr.split("\n");
  const at = lines.findIndex((line) => line.startsWith("error["));
  return lines[at + 1] ?? stderr;
}

function cell(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").replaceAll("|", "\\|").trim();
  return line.length > 240 ? `${line.slice(0, 240)}…` : line;
}

const codeSpan = (text: string) => (text === "" ? "" : `\`${text}\``);

await main(process.argv.slice(2));

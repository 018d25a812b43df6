/** The MCP clients that `backplane client` can configure: where each stores its servers, and the format of an entry. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { isObject, type Json, type JsonObject } from "@backplane/contract";

export interface ClientEnvironment {
  env: Record<string, string | undefined>;
  platform: NodeJS.Platform;
}

export interface KnownClient {
  name: string;
  title: string;
  /** jsonc: JSON with comments and trailing commas. */
  format: "json" | "jsonc" | "toml";
  /** The command whose presence in PATH shows that the client is installed. */
  command: string;
  userFile(environment: ClientEnvironment): string;
  projectFile(folder: string): string;
  /** The path of the object that holds the servers. */
  serversPath(document: JsonObject): string[];
  buildEntry(connection: Connection): JsonObject;
  url_field: string;
  headers_field: string;
}

export interface Connection {
  /** The MCP endpoint of the gateway. */
  url: string;
  token: string;
}

const KEY = /^Bearer (bpk_[A-Za-z0-9_-]+)$/;

const authorization = (token: string): JsonObject => ({ Authorization: `Bearer ${token}` });
const underMcpServers = () => ["mcpServers"];

export const KNOWN_CLIENTS: readonly KnownClient[] = [
  {
    name: "claude",
    title: "Claude Code",
    format: "json",
    command: "claude",
    userFile: (environment) =>
      join(environment.env.CLAUDE_CONFIG_DIR || homeFolderOf(environment), ".claude.json"),
    projectFile: (folder) => join(folder, ".mcp.json"),
    serversPath: underMcpServers,
    buildEntry: ({ url, token }) => ({ type: "http", url, headers: authorization(token) }),
    url_field: "url",
    headers_field: "headers",
  },
  {
    name: "codex",
    title: "Codex",
    format: "toml",
    command: "codex",
    userFile: (environment) =>
      join(environment.env.CODEX_HOME || join(homeFolderOf(environment), ".codex"), "config.toml"),
    projectFile: (folder) => join(folder, ".codex", "config.toml"),
    serversPath: () => ["mcp_servers"],
    buildEntry: ({ url, token }) => ({ url, http_headers: authorization(token) }),
    url_field: "url",
    headers_field: "http_headers",
  },
  {
    name: "opencode",
    title: "OpenCode",
    format: "jsonc",
    command: "opencode",
    userFile: (environment) =>
      environment.env.OPENCODE_CONFIG ||
      firstExisting(join(configFolderOf(environment), "opencode"), OPENCODE_FILES),
    projectFile: (folder) => firstExisting(folder, OPENCODE_FILES),
    // OpenCode 2 reads both layouts, but a file that already uses `mcp.servers` must keep that layout.
    serversPath: ({ mcp }) => (isObject(mcp) && isServerTable(mcp.servers) ? ["mcp", "servers"] : ["mcp"]),
    buildEntry: ({ url, token }) => ({ type: "remote", url, headers: authorization(token) }),
    url_field: "url",
    headers_field: "headers",
  },
  {
    name: "gemini",
    title: "Gemini CLI",
    format: "jsonc",
    command: "gemini",
    userFile: (environment) => join(homeFolderOf(environment), ".gemini", "settings.json"),
    projectFile: (folder) => join(folder, ".gemini", "settings.json"),
    serversPath: underMcpServers,
    // `url` would select the older SSE transport.
    buildEntry: ({ url, token }) => ({ httpUrl: url, headers: authorization(token) }),
    url_field: "httpUrl",
    headers_field: "headers",
  },
  {
    name: "vscode",
    title: "VS Code",
    format: "jsonc",
    command: "code",
    userFile: (environment) => join(codeFolderOf(environment), "Code", "User", "mcp.json"),
    projectFile: (folder) => join(folder, ".vscode", "mcp.json"),
    serversPath: () => ["servers"],
    buildEntry: ({ url, token }) => ({ type: "http", url, headers: authorization(token) }),
    url_field: "url",
    headers_field: "headers",
  },
  {
    name: "cursor",
    title: "Cursor",
    format: "jsonc",
    command: "cursor",
    userFile: (environment) => join(homeFolderOf(environment), ".cursor", "mcp.json"),
    projectFile: (folder) => join(folder, ".cursor", "mcp.json"),
    serversPath: underMcpServers,
    buildEntry: ({ url, token }) => ({ type: "http", url, headers: authorization(token) }),
    url_field: "url",
    headers_field: "headers",
  },
];

const OPENCODE_FILES = ["opencode.jsonc", "opencode.json"] as const;

/** Null if the entry has no URL or no key of a gateway, so `client connect` cannot have written it. */
export function readConnection(client: KnownClient, entry: Json | undefined): Connection | null {
  if (entry === undefined || !isObject(entry)) return null;
  const { [client.url_field]: url, [client.headers_field]: headers } = entry;
  if (typeof url !== "string" || headers === undefined || !isObject(headers)) return null;
  const key = typeof headers.Authorization === "string" ? KEY.exec(headers.Authorization) : null;
  return key === null ? null : { url, token: key[1]! };
}

/** Whether the client seems to be installed: its configuration folder or file exists, or its command is in PATH. */
export function isPresent(client: KnownClient, environment: ClientEnvironment): boolean {
  const file = client.userFile(environment);
  if (existsSync(file) || (dirname(file) !== homeFolderOf(environment) && existsSync(dirname(file))))
    return true;
  const folders = (environment.env.PATH ?? "").split(environment.platform === "win32" ? ";" : ":");
  const suffixes = environment.platform === "win32" ? [".cmd", ".exe"] : [""];
  return folders.some(
    (folder) =>
      folder !== "" && suffixes.some((suffix) => existsSync(join(folder, `${client.command}${suffix}`))),
  );
}

function homeFolderOf({ env }: ClientEnvironment): string {
  return env.HOME || homedir();
}

function configFolderOf(environment: ClientEnvironment): string {
  return environment.env.XDG_CONFIG_HOME || join(homeFolderOf(environment), ".config");
}

function codeFolderOf(environment: ClientEnvironment): string {
  if (environment.platform === "darwin")
    return join(homeFolderOf(environment), "Library", "Application Support");
  if (environment.platform === "win32")
    return environment.env.APPDATA || join(homeFolderOf(environment), "AppData", "Roaming");
  return configFolderOf(environment);
}

/** The first file that exists, or the last name. */
function firstExisting(folder: string, names: readonly string[]): string {
  const file_name = names.find((name) => existsSync(join(folder, name)));
  return resolve(folder, file_name ?? names.at(-1)!);
}

/** A server of OpenCode 1 could itself be called `servers`; a server has a type. */
function isServerTable(value: Json | undefined): boolean {
  return value !== undefined && isObject(value) && typeof value.type !== "string";
}

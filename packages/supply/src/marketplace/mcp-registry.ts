/**
 * Reads responses of a registry of MCP servers (GET /v0/servers). Everything in them is untrusted text: it is bounded
 * and sanitized, and a server that cannot be read is left out.
 */
import { isObject, type ListedServer, sanitizeText } from "@backplane/contract";

const MAX_SERVERS = 30;
const MAX_PACKAGES = 8;
const MAX_VARIABLES = 32;
const MAX_TEXT = 300;
const NPM_NAME = /^(?:@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9][a-z0-9._~-]*$/;
const PYPI_NAME = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/;
const VERSION = /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$/;
const IMAGE = /^[a-z0-9][a-z0-9._/:@-]{0,255}$/i;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

export function searchUrl(base: string, text: string): URL {
  const url = new URL(`${base.replace(/\/$/, "")}/v0/servers`);
  url.searchParams.set("search", text);
  url.searchParams.set("version", "latest");
  url.searchParams.set("limit", String(MAX_SERVERS));
  return url;
}

/** Throws if the document is not the response of a registry. */
export function readListedServers(json: unknown): ListedServer[] {
  if (!isObject(json) || !Array.isArray(json.servers))
    throw new Error("The response has no list of servers.");
  return json.servers.slice(0, MAX_SERVERS).flatMap((item) => readServer(item) ?? []);
}

function readServer(item: unknown): ListedServer | null {
  if (!isObject(item)) return null;
  // Registries have wrapped the server since 2025-09; older ones send it unwrapped.
  const server = isObject(item.server) ? item.server : item;
  const { name, description, version, repository } = server;
  if (typeof name !== "string" || name === "") return null;
  const packages = listOf(server.packages).slice(0, MAX_PACKAGES);
  const remotes = listOf(server.remotes).slice(0, MAX_PACKAGES);
  return {
    name: plain(name),
    description: plain(description),
    version: plain(version),
    repository: isObject(repository) ? webUrl(repository.url) : null,
    sources: [
      ...packages.flatMap((item) => sourceOf(item) ?? []),
      ...remotes.flatMap((item) => readRemote(item, name) ?? []),
    ],
    variables: variablesOf(packages),
  };
}

function sourceOf(item: Record<string, unknown>): string | null {
  const kind = item.registryType ?? item.registry_type;
  const { identifier, version } = item;
  if (typeof identifier !== "string") return null;
  const pinned =
    typeof version === "string" && VERSION.test(version) && version !== "latest" ? version : null;
  if (kind === "npm" && NPM_NAME.test(identifier))
    return `npm:${identifier}${pinned === null ? "" : `@${pinned}`}`;
  if (kind === "pypi" && PYPI_NAME.test(identifier))
    return `pypi:${identifier}${pinned === null ? "" : `==${pinned}`}`;
  if (kind === "oci" && IMAGE.test(identifier)) return `image:${identifier}`;
  return null;
}

function readRemote(item: Record<string, unknown>, name: string): string | null {
  const url = webUrl(item.url);
  // A URL with a placeholder needs a value that only the user has.
  if (url === null || /[{}]/.test(url) || item.type !== "streamable-http") return null;
  const short = (name.split("/").at(-1) ?? "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "");
  return `--mcp ${url} ${short === "" ? "server" : short.slice(0, 40)}`;
}

function variablesOf(packages: readonly Record<string, unknown>[]): ListedServer["variables"] {
  const secret_flags = new Map<string, boolean>();
  for (const item of packages)
    for (const variable of listOf(item.environmentVariables ?? item.environment_variables)) {
      const { name } = variable;
      if (typeof name !== "string" || !VARIABLE.test(name) || variable.isRequired !== true) continue;
      secret_flags.set(name, variable.isSecret === true);
    }
  return [...secret_flags].slice(0, MAX_VARIABLES).map(([name, secret]) => ({ name, secret }));
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter((item) => isObject(item)) : [];
}

function plain(value: unknown): string {
  return typeof value === "string" ? sanitizeText(value).slice(0, MAX_TEXT) : "";
}

/** Allows few characters, because people copy the command that contains the URL into a shell. */
const PLAIN_URL = /^https:\/\/[A-Za-z0-9._~:/?=%+,@-]+$/;

function webUrl(value: unknown): string | null {
  if (typeof value !== "string" || value.length > 512 || !PLAIN_URL.test(value)) return null;
  return URL.canParse(value) ? new URL(value).href : null;
}

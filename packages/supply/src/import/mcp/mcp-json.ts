/**
 * Reads `mcp.json` as editors and agents write it: a map of servers, each with a command or a URL. A variable or header
 * that is named like a secret becomes a slot, and its value is not imported. A placeholder in a value becomes a slot
 * too. The operator binds stored secrets to the slots.
 */
import { BackplaneError, isObject, type LeftOut, toLeftOut } from "@backplane/contract";
import { parseImageReference } from "../../container-images/image-reference.ts";
import { parsePythonRequirement } from "../../pypi/requirement.ts";
import { type IgnoredFlag, type RequestedMount, readCommand, type ServerOrigin } from "./server-command.ts";

export interface McpServerEntry {
  name: string;
  /** The server's name in the names of its tools, if it differs from the last part of the package id. */
  server_name?: string;
  from: ServerOrigin;
  args: string[];
  /** Variables that are not secret. */
  env: Record<string, string>;
  /** The variable that receives the secret, by slot. */
  secret_env: Record<string, string>;
  secret_slots: string[];
  mounts?: RequestedMount[];
  ignored?: IgnoredFlag[];
}

const MAX_SERVERS = 64;
const SECRET_NAME =
  /(?:token|secret|password|passwd|api[-_]?key|access[-_]?key|private[-_]?key|credential|auth)/i;

export interface McpServers {
  servers: McpServerEntry[];
  /** Servers that cannot be installed, which do not affect the others. */
  left_out: LeftOut[];
}

/** Throws package.invalid when the file as a whole is invalid. */
export function readMcpJson(value: unknown, file: string): McpServers {
  const servers = isObject(value) ? (value.mcpServers ?? value.servers) : undefined;
  if (!isObject(servers)) throw invalid(`${file} has no "mcpServers"`);
  const entries = Object.entries(servers);
  if (entries.length === 0) throw invalid(`"mcpServers" in ${file} has no servers`);
  if (entries.length > MAX_SERVERS) throw invalid(`${file} lists more than ${MAX_SERVERS} servers`);
  return readServers(servers, readMcpServer);
}

/** The remote server of `--mcp URL`. */
export function remoteServerEntry(
  name: string,
  url: string,
  headers: Record<string, string>,
): McpServerEntry {
  return readRemote(name, url, headers);
}

/** The server of an npm package. */
export function npmServerEntry(spec: string, args: readonly string[]): McpServerEntry {
  return {
    name: spec,
    server_name: shortServerName(spec),
    from: { kind: "npm", spec },
    args: [...args],
    env: {},
    secret_env: {},
    secret_slots: [],
  };
}

/** The server of a Python package. */
export function pythonServerEntry(
  spec: string,
  script: string | undefined,
  args: readonly string[],
): McpServerEntry {
  return {
    name: spec,
    server_name: shortServerName(parsePythonRequirement(spec).name),
    from: { kind: "pypi", spec, ...(script === undefined ? {} : { script }) },
    args: [...args],
    env: {},
    secret_env: {},
    secret_slots: [],
  };
}

/** The server of a container image. */
export function imageServerEntry(reference: string, args: readonly string[]): McpServerEntry {
  const { repository } = parseImageReference(reference);
  return {
    name: reference,
    server_name: shortServerName(repository.slice(repository.lastIndexOf("/") + 1)),
    from: { kind: "image", reference },
    args: [...args],
    env: {},
    secret_env: {},
    secret_slots: [],
  };
}

/**
 * Shortens `@playwright/mcp` to `playwright` and `mcp-server-kubernetes` to `kubernetes`, because names of tools
 * already start with `mcp_`.
 */
function shortServerName(spec: string): string {
  const at = spec.lastIndexOf("@");
  const name = at > 0 ? spec.slice(0, at) : spec;
  const [scope, base_name] = name.startsWith("@")
    ? (name.slice(1).split("/") as [string, string])
    : [null, name];
  const short = base_name
    .replace(/^(?:mcp-server|mcp)[-_.]/, "")
    .replace(/[-_.](?:mcp-server|server-mcp|mcp)$/, "");
  const is_distinctive = !/^(?:mcp|server|mcp-server|server-mcp)$/.test(short);
  return is_distinctive ? short : (scope ?? base_name);
}

/**
 * Adds the operator's slots. A server on stdio receives each secret in the variable with the slot's name in upper case,
 * unless the entry of the server names another variable.
 */
export function declareSlots(server: McpServerEntry, slots: readonly string[]): McpServerEntry {
  const variables = Object.fromEntries(slots.map((slot) => [slot, slot.toUpperCase()]));
  return {
    ...server,
    secret_env: { ...variables, ...server.secret_env },
    secret_slots: [...new Set([...server.secret_slots, ...slots])],
  };
}

/** Reads each server independently of the others. */
export function readServers(
  entries: Record<string, unknown>,
  read: (name: string, settings: unknown) => McpServerEntry,
): McpServers {
  const servers: McpServerEntry[] = [];
  const left_out: LeftOut[] = [];
  for (const [name, settings] of Object.entries(entries)) {
    try {
      servers.push(read(name, settings));
    } catch (error) {
      left_out.push(toLeftOut("server", name, error));
    }
  }
  return { servers, left_out };
}

/** Throws package.invalid with the name of the server, or an error of `readCommand`. */
export function readMcpServer(name: string, settings: unknown): McpServerEntry {
  if (!isObject(settings)) throw invalid(`the entry of ${name} is not an object`);
  const { command, args, env, url, headers, type } = settings;
  const ignored = readOtherSettings(name, settings);
  if (type === "sse")
    throw invalid(`${name} uses the SSE transport; only streamable HTTP and stdio are supported`);
  if (typeof url === "string")
    return { ...readRemote(name, url, readStringMap(name, "headers", headers)), ...ignoredFlags(ignored) };
  if (typeof command !== "string" || command === "") throw invalid(`${name} has neither a command nor a url`);
  const arg_list = args ?? [];
  if (!Array.isArray(arg_list) || !arg_list.every((item) => typeof item === "string")) {
    throw invalid(`the args of ${name} are not a list of strings`);
  }
  const read = readCommand(name, command, arg_list as string[]);
  const variables = splitSecrets({ ...read.env, ...readStringMap(name, "env", env) });
  const args_slots = read.args.map(extractPlaceholders);
  return {
    name,
    // The package id of any other server is made from this name.
    ...(["npm", "pypi", "image"].includes(read.from.kind) ? { server_name: name } : {}),
    from: read.from,
    args: args_slots.map(({ text }) => text),
    ...variables,
    ...(read.mounts === undefined ? {} : { mounts: read.mounts }),
    ...ignoredFlags([...(read.ignored ?? []), ...ignored]),
    secret_slots: [...new Set([...variables.secret_slots, ...args_slots.flatMap(({ slots }) => slots)])],
  };
}

const LIMITS_REASON = "the limits of the gateway apply ([timeouts] in backplane.toml)";
const APPROVALS_REASON = "the policy of the gateway decides which calls need approval (backplane policy)";
const CATALOG_REASON = "the policy of the gateway decides which tools are offered (backplane policy)";

/** Settings of a server that do not change what it does. */
const DESCRIPTIVE = ["type", "name", "title", "description", "icon", "gallery", "version", "tags"];
const READ_SETTINGS = ["command", "args", "env", "url", "headers", ...DESCRIPTIVE];
/** Settings of editors and agents that have no effect here, with the reason. */
const OTHER_SETTINGS: Record<string, string> = {
  cwd: "the server starts in its own folder",
  timeout: LIMITS_REASON,
  initTimeout: LIMITS_REASON,
  startupTimeout: LIMITS_REASON,
  autoApprove: APPROVALS_REASON,
  alwaysAllow: APPROVALS_REASON,
  trust: APPROVALS_REASON,
  tools: CATALOG_REASON,
  includeTools: CATALOG_REASON,
  excludeTools: CATALOG_REASON,
  disabledTools: CATALOG_REASON,
};

/** The settings that have no effect here. Throws for a server that must not be installed without its setting. */
function readOtherSettings(name: string, settings: Record<string, unknown>): IgnoredFlag[] {
  if (settings.disabled === true || settings.enabled === false)
    throw invalid(`${name} is disabled in the file`, "Enable it in the file, then install it again.");
  if (settings.envFile !== undefined)
    throw invalid(
      `${name} has an envFile, which is a separate file and is not imported`,
      "Write its variables as env; values that are secret become slots.",
    );
  const unused_keys = Object.keys(settings).filter(
    (key) =>
      !READ_SETTINGS.includes(key) && key !== "disabled" && key !== "enabled" && !isEmpty(settings[key]),
  );
  return unused_keys.map((key) => ({
    flag: `the setting ${JSON.stringify(key.slice(0, 64))}`,
    reason: OTHER_SETTINGS[key] ?? "the gateway does not support it",
  }));
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === false || value === "") return true;
  return typeof value === "object" && Object.keys(value as object).length === 0;
}

function ignoredFlags(ignored: IgnoredFlag[]): Pick<McpServerEntry, "ignored"> {
  return ignored.length === 0 ? {} : { ignored };
}

function readRemote(name: string, url: string, configured: Record<string, string>): McpServerEntry {
  const slots: string[] = [];
  const headers: Record<string, string> = {};
  for (const [header, value] of Object.entries(configured)) {
    const { text, slots: header_slots } = extractPlaceholders(value);
    if (header_slots.length > 0) {
      headers[header] = text;
      slots.push(...header_slots);
    } else if (/^authorization$/i.test(header)) slots.push("authorization");
    else if (SECRET_NAME.test(header)) {
      const slot = slotOf(header);
      headers[header] = `\${${slot}}`;
      slots.push(slot);
    } else headers[header] = value;
  }
  return {
    name,
    from: { kind: "http", url, headers },
    args: [],
    env: {},
    secret_env: {},
    secret_slots: [...new Set(slots)],
  };
}

/**
 * `${TOKEN}`, `${env:TOKEN}` and `${input:token}` refer to secrets, and so does a variable that is named like a secret.
 */
function splitSecrets(
  env: Record<string, string>,
): Pick<McpServerEntry, "env" | "secret_env" | "secret_slots"> {
  const plain: Record<string, string> = {};
  const secret_env: Record<string, string> = {};
  for (const [variable, value] of Object.entries(env)) {
    if (extractPlaceholders(value).slots.length > 0 || SECRET_NAME.test(variable))
      secret_env[slotOf(variable)] = variable;
    else plain[variable] = value;
  }
  return { env: plain, secret_env, secret_slots: Object.keys(secret_env) };
}

function extractPlaceholders(value: string): { text: string; slots: string[] } {
  const slots: string[] = [];
  const text = value.replace(/\$\{(?:env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)\}/g, (_whole, name: string) => {
    slots.push(slotOf(name));
    return `\${${slotOf(name)}}`;
  });
  return { text, slots };
}

function slotOf(name: string): string {
  const slot = name
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, "_")
    .replace(/^[^a-z]+/, "");
  return slot === "" ? "secret" : slot.slice(0, 64);
}

function readStringMap(name: string, field: string, value: unknown): Record<string, string> {
  if (value === undefined) return {};
  if (!isObject(value)) throw invalid(`${field} of ${name} is not an object`);
  const map: Record<string, string> = {};
  for (const [key, entry] of Object.entries(value)) {
    if (typeof entry !== "string") throw invalid(`${field}.${key} of ${name} is not a string`);
    map[key] = entry;
  }
  return map;
}

function invalid(problem: string, fix?: string): BackplaneError {
  return new BackplaneError("package.invalid", `${problem}.`, fix === undefined ? {} : { fix });
}

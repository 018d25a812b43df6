/**
 * `client`: adds the gateway to the configuration of MCP clients, each with its own key, removes it, and lists the
 * clients.
 */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import {
  type ApiKey,
  BackplaneError,
  type Json,
  type JsonObject,
  ROLES,
  type Role,
  toBackplaneError,
} from "@backplane/contract";
import { type Command, Option } from "commander";
import { ifAllowed } from "../bindings/report-tools.ts";
import {
  type ConfigFile,
  isReadableByOthers,
  readBackup,
  readConfigFile,
  replaceConfigFile,
  restoreConfigFile,
} from "../clients/config-file.ts";
import {
  type ClientConfig,
  findOriginal,
  findServerEntry,
  parseClientConfig,
  removeServerEntry,
  setServerEntry,
} from "../clients/edit-entry.ts";
import { formatDiff } from "../clients/file-diff.ts";
import {
  type ClientEnvironment,
  type Connection,
  isPresent,
  KNOWN_CLIENTS,
  type KnownClient,
  readConnection,
} from "../clients/known-clients.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import { parseList } from "../command-line/parse-flags.ts";
import { toolPattern } from "../command-line/tool-pattern.ts";
import type { ToAction } from "../context/action.ts";
import type { CommandContext } from "../context/context.ts";
import { table } from "../terminal/output.ts";
import { plainLine } from "../terminal/plain-text.ts";

interface FileOptions {
  folder?: string;
  name: string;
}

interface EditOptions extends FileOptions {
  dryRun?: boolean;
}

interface ConnectOptions extends EditOptions {
  role?: Role;
  tools?: string[];
}

/** The file of a client, read and parsed. */
interface ClientFile {
  client: KnownClient;
  file: ConfigFile;
  config: ClientConfig;
  entry: Json | undefined;
  /** Null if there is no entry, or one that `client connect` did not write. */
  connection: Connection | null;
}

interface ListedClient {
  client: string;
  file: string;
  present: boolean;
  connected: boolean;
  url: string | null;
  /** Null if the client is not connected. */
  works: boolean | null;
  problem: string | null;
}

const NAMES = KNOWN_CLIENTS.map(({ name }) => name).join(", ");
/** The names that every client accepts for a server. Clients use them in the names of its tools. */
const ENTRY_NAME = /^(?!__)[A-Za-z0-9_-]{1,64}$/;
/** `key list` shows the same number of characters of a token. */
const SHOWN_TOKEN_LENGTH = 8;
const CHECK_MS = 3_000;
const PAGE_SIZE = 100;
/** Stands for the key in a dry run, and while the edit is tried before the key exists. */
const SAMPLE_KEY = "bpk_new";

export function addClientCommands(program: Command, toAction: ToAction): void {
  const client = program.command("client").description("MCP clients that use the gateway's tools.");
  const addFileFlags = (command: Command) =>
    command
      .option("--folder <dir>", "edit the client's file in this project folder instead of the user's file")
      .option("--name <name>", "name of the entry in the client's file", "backplane");
  const addDryRunFlag = (command: Command) =>
    command.option("--dry-run", "print the change without making it");
  addDryRunFlag(
    addFileFlags(client.command("connect <client>").description(`Connect a client: ${NAMES}.`))
      .addOption(new Option("--role <role>", "role of the client's key").choices(ROLES))
      .option(
        "--tools <patterns>",
        "tools that the client lists, or @PROFILE; it finds the others by search",
        parseList,
      ),
  )
    .addHelpText("after", "\nExample:\n  backplane client connect claude --tools 'mcp_github_*'\n")
    .action(toAction(connect));
  addFileFlags(
    client.command("list").description("List the clients, their files and whether they work."),
  ).action(toAction(list));
  addDryRunFlag(
    addFileFlags(
      client.command("disconnect <client>").description("Remove the gateway's entry and revoke its key."),
    ),
  ).action(toAction(disconnect));
}

async function connect(
  context: CommandContext,
  options: ConnectOptions,
  client_name: string,
): Promise<number | undefined> {
  const { out } = context;
  const known_client = requireKnownClient(client_name);
  assertValidOptions(context, options);
  const client_file = await readClientFile(context, known_client, options);
  const { client, file, config, entry, connection } = client_file;
  const url = `${context.url()}/mcp`;
  if (entry !== undefined && connection === null) throw entryConflictError(client_file, options.name);
  const unchanged = connection?.url === url && options.tools === undefined && options.role === undefined;
  if (unchanged && (await findProblem(connection)) === null) {
    report(context, client_file, url, false, () => `${client.title} is already connected to ${url}.`);
    return undefined;
  }
  const build = (token: string) => mergeEntry(client, entry, { url, token });
  // The edit is tried before the key exists, so a file that cannot be edited leaves no key behind.
  const sample = await setServerEntry(config, options.name, build(SAMPLE_KEY));
  if (options.dryRun === true) {
    showChange(context, client_file, sample);
    return undefined;
  }
  const previous = connection?.url === url ? await findKey(context, client, connection) : null;
  const { key, token } = await createKey(context, client, options, previous);
  let backup: string | null;
  try {
    backup = replaceConfigFile(file, await setServerEntry(config, options.name, build(token)));
  } catch (error) {
    await context
      .client()
      .keys.revoke(key.id, { project: "*" })
      .catch(() => undefined);
    throw error;
  }
  const revoked = connection === null ? null : await revokeKey(context, client, connection);
  report(context, client_file, url, true, () => `Connected ${client.title} to ${url} in ${file.path}`, {
    key: key.id,
    backup,
  });
  if (out.json) return undefined;
  if (backup !== null) out.note(`Backup of the file: ${backup}`);
  if (isReadableByOthers(file))
    out.note(`Other users can read the key in ${file.path}. Run: chmod 600 ${file.target}`);
  if (options.folder !== undefined) out.note(`${file.path} contains a key. Do not commit it.`);
  if (revoked !== null && revoked !== "revoked") out.note(revoked);
  await noteUnmatchedTools(context, options.tools ?? []);
  out.note(`Restart ${client.title} to load the tools.`);
  return undefined;
}

function assertValidOptions({ io }: CommandContext, { name, folder }: FileOptions): void {
  if (!ENTRY_NAME.test(name))
    throw new BackplaneError(
      "cli.usage",
      `--name ${JSON.stringify(name)} is not a name that clients accept.`,
      {
        fix: "Use up to 64 letters, digits, - and _, as in --name backplane.",
      },
    );
  if (folder === undefined) return;
  const path = resolve(io.cwd, folder);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new BackplaneError("cli.usage", `The folder ${path} does not exist.`, {
      fix: "Specify the project's folder with --folder.",
    });
}

/** A key may list tools that do not exist yet, but a name may also be misspelled. The gateway checks profiles. */
async function noteUnmatchedTools(context: CommandContext, patterns: readonly string[]): Promise<void> {
  const tool_patterns = patterns.filter((pattern) => !pattern.startsWith("@"));
  if (tool_patterns.length === 0) return;
  const tools = await ifAllowed(context.client().catalog.list({ all: true }));
  if (tools === null) return;
  for (const pattern of tool_patterns) {
    const regexp = toolPattern(pattern);
    if (!tools.some(({ name }) => regexp.test(name)))
      context.out.note(plainLine(`No tool matches ${pattern} at present. See: backplane tool list --all`));
  }
}

async function disconnect(
  context: CommandContext,
  options: EditOptions,
  client_name: string,
): Promise<number | undefined> {
  const { out } = context;
  const client_file = await readClientFile(context, requireKnownClient(client_name), options);
  const { client, file, config, entry, connection } = client_file;
  if (entry === undefined) {
    report(context, client_file, null, false, () => `${client.title} is not connected in ${file.path}`);
    return undefined;
  }
  if (connection === null) throw entryConflictError(client_file, options.name);
  const original = await findOriginal(config, options.name, possibleOriginals(file));
  const text = original === undefined ? await removeServerEntry(config, options.name) : original;
  if (options.dryRun === true) {
    showChange(context, client_file, text);
    return undefined;
  }
  let backup: string | null = null;
  if (original === undefined) backup = replaceConfigFile(file, text!);
  else restoreConfigFile(file, original);
  const revoked = await revokeKey(context, client, connection);
  const key_revoked = revoked === "revoked";
  report(context, client_file, connection.url, true, () => `Disconnected ${client.title} in ${file.path}`, {
    key_revoked,
    backup,
  });
  if (!key_revoked) out.note(revoked);
  return key_revoked ? undefined : EXIT.partial;
}

async function list(context: CommandContext, options: FileOptions): Promise<undefined> {
  const environment = clientEnvironment(context);
  const items: ListedClient[] = await Promise.all(
    KNOWN_CLIENTS.map(async (client) => {
      const row = { client: client.name, present: isPresent(client, environment) };
      try {
        const { file, entry, connection } = await readClientFile(context, client, options);
        const problem =
          connection === null
            ? entry === undefined
              ? null
              : "the entry was not written by `backplane client connect`"
            : await findProblem(connection);
        const connected = connection !== null;
        return {
          ...row,
          file: file.path,
          connected,
          url: connection?.url ?? null,
          works: connected ? problem === null : null,
          problem,
        };
      } catch (error) {
        const file = findFile(context, client, options);
        const problem = toBackplaneError(error).message;
        return { ...row, file, connected: false, url: null, works: null, problem };
      }
    }),
  );
  context.out.data(items, () =>
    table(
      context.out,
      ["CLIENT", "PRESENT", "CONNECTED", "WORKS", "GATEWAY", "FILE", "PROBLEM"],
      items.map((item) => [
        item.client,
        item.present ? "yes" : "no",
        item.connected ? "yes" : "no",
        item.works === null ? null : item.works ? "yes" : "no",
        item.url,
        item.file,
        item.problem,
      ]),
    ),
  );
  return undefined;
}

async function readClientFile(
  context: CommandContext,
  client: KnownClient,
  options: FileOptions,
): Promise<ClientFile> {
  const file = readConfigFile(findFile(context, client, options));
  const config = await parseClientConfig(client, file.path, file.text);
  const entry = findServerEntry(config, options.name);
  return { client, file, config, entry, connection: readConnection(client, entry) };
}

function findFile(context: CommandContext, client: KnownClient, { folder }: FileOptions): string {
  if (folder === undefined) return client.userFile(clientEnvironment(context));
  return client.projectFile(resolve(context.io.cwd, folder));
}

function clientEnvironment({ io }: CommandContext): ClientEnvironment {
  return { env: io.env, platform: process.platform };
}

function requireKnownClient(client_name: string): KnownClient {
  const client = KNOWN_CLIENTS.find(({ name }) => name === client_name);
  if (client !== undefined) return client;
  throw new BackplaneError("cli.usage", `${client_name} is not a known client.`, {
    fix: `Known clients: ${NAMES}. docs/mcp.md describes how to configure others.`,
  });
}

/** Keeps fields that the user added to the entry, such as a timeout. */
function mergeEntry(client: KnownClient, entry: Json | undefined, connection: Connection): JsonObject {
  const new_entry = client.buildEntry(connection);
  if (entry === undefined) return new_entry;
  const current = entry as JsonObject;
  const headers = client.headers_field;
  return {
    ...current,
    ...new_entry,
    [headers]: { ...(current[headers] as JsonObject), ...(new_entry[headers] as JsonObject) },
  };
}

function entryConflictError({ file }: ClientFile, name: string): BackplaneError {
  return new BackplaneError(
    "client.entry_conflict",
    `The server ${name} in ${file.path} was not written by \`backplane client connect\`.`,
  );
}

/**
 * The possible contents of the file before `connect`; null means no file. The target of a link is never removed,
 * so that the link stays valid.
 */
function possibleOriginals(file: ConfigFile): (string | null)[] {
  const backup = readBackup(file);
  return backup === null ? (file.path === file.target ? [null] : []) : [backup];
}

/**
 * The scope is the only one that the MCP endpoint needs. A key that replaces another one gets the same role, tools and
 * project unless a flag sets them, so that connecting again does not widen the permissions of a client by itself.
 */
async function createKey(
  context: CommandContext,
  { name }: KnownClient,
  options: ConnectOptions,
  previous: ApiKey | null,
): Promise<{ key: ApiKey; token: string }> {
  const { org } = context.flags;
  const project = context.flags.project ?? previous?.project_id ?? undefined;
  const tools = options.tools ?? previous?.tools;
  const { key, token } = await context.client().keys.create({
    name: keyName(name),
    scopes: ["invocations:write"],
    role: options.role ?? previous?.role ?? "user",
    ...(org === undefined ? {} : { org_id: org }),
    ...(project === undefined ? {} : { project_id: project }),
    ...(tools === undefined ? {} : { tools }),
  });
  if (token === null) throw new BackplaneError("internal", "The gateway returned a key without its token.");
  return { key, token };
}

function keyName(client: string): string {
  return `client:${client}`;
}

/** Returns "revoked", or a sentence that explains why the key of the entry was not revoked. */
async function revokeKey(
  context: CommandContext,
  client: KnownClient,
  connection: Connection,
): Promise<string> {
  const { url, token } = connection;
  const key_text = `${keyName(client.name)} (${token.slice(0, SHOWN_TOKEN_LENGTH)}…)`;
  try {
    if (url !== `${context.url()}/mcp`)
      return `The key ${key_text} belongs to ${url}. Revoke it there with \`backplane key revoke\`.`;
    const key = await findKey(context, client, connection);
    if (key === null) return "The gateway has no key for this entry.";
    if (key.revoked_at === null) await context.client().keys.revoke(key.id, { project: "*" });
    return "revoked";
  } catch (error) {
    return `The key ${key_text} was not revoked: ${toBackplaneError(error).message} Run \`backplane key list\` and \`backplane key revoke ID\`.`;
  }
}

/** A key is stored as a hash; its name and the first characters of its token identify it. It may already be revoked. */
async function findKey(
  context: CommandContext,
  client: KnownClient,
  { token }: Connection,
): Promise<ApiKey | null> {
  const name = keyName(client.name);
  let after: string | undefined;
  do {
    const page = await context
      .client()
      .keys.list({ limit: PAGE_SIZE, project: "*", ...(after === undefined ? {} : { after }) });
    const own_key = page.items.find((key) => key.name === name && token.startsWith(key.prefix));
    if (own_key !== undefined) return own_key;
    after = page.next ?? undefined;
  } while (after !== undefined);
  return null;
}

/** Null if the gateway of the entry accepts an MCP request with its key. */
async function findProblem({ url, token }: Connection): Promise<string | null> {
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
      signal: AbortSignal.timeout(CHECK_MS),
      // The key must not be sent anywhere else.
      redirect: "error",
    });
    await response.body?.cancel();
    if (response.ok) return null;
    return response.status === 401
      ? "the key is not valid"
      : `the gateway responds with status ${response.status}`;
  } catch {
    return "the gateway cannot be reached";
  }
}

function showChange(context: CommandContext, { client, file }: ClientFile, text: string | null): void {
  const diff = formatDiff(file.path, file.text, text);
  context.out.data({ client: client.name, file: file.path, changed: false, diff }, () => diff);
}

function report(
  context: CommandContext,
  { client, file }: ClientFile,
  url: string | null,
  changed: boolean,
  text: () => string,
  more: JsonObject = {},
): void {
  context.out.data({ client: client.name, file: file.path, url, changed, ...more }, text);
}

/**
 * MCP servers: of the npm registry, at an address, or all that an `mcp.json` names. Each becomes a package, bound as a
 * whole, since what it offers is known once it runs. Arguments, variables and folders are the binding's.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BackplaneError, type Binding, codeOf, type JsonObject, type Package } from "@backplane/contract";
import type { McpServerEntry, ServerDraft } from "@backplane/supply";
import { bindWhole } from "./bind-exports.ts";
import { type BindingOptions, bindingParts } from "./binding-flags.ts";
import type { Context } from "./context.ts";
import { plainLine } from "./plain-text.ts";
import { sayTools } from "./say-tools.ts";
import { uploadFolder } from "./upload-folder.ts";

export interface McpOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
}

/** Whose servers they are: the first part of their packages' ids. */
export interface Publisher {
  publisher: string;
  version: string;
}

export interface Done {
  package: Package;
  bindings: Binding[];
}

const LOCAL_VERSION = "0.0.0";

/** `npm:NAME[@VERSION] -- ARGS`. */
export function npmEntry(spec: string, args: string[]): McpServerEntry {
  return { name: spec, from: { kind: "npm", spec }, args, env: {}, secret_env: {}, secret_slots: [] };
}

/** `--mcp URL NAME`. */
export function remoteEntry(name: string, url: string): McpServerEntry {
  const from = { kind: "http" as const, url, headers: {} };
  return { name, from, args: [], env: {}, secret_env: {}, secret_slots: [] };
}

export async function readMcpFile(path: string): Promise<McpServerEntry[]> {
  const { readMcpJson } = await import("@backplane/supply");
  return readMcpJson(readFileSync(path, "utf8"));
}

/** One after the other; what was installed before a failure stays. */
export async function installMcpServers(
  context: Context,
  options: McpOptions,
  servers: readonly McpServerEntry[],
  of: Publisher = { publisher: "mcp", version: LOCAL_VERSION },
): Promise<undefined> {
  const done = await installServers(context, options, servers, of);
  const [only] = done;
  context.out.data(done.length === 1 ? only! : { servers: done }, () => boundLines(done));
  return undefined;
}

/** The same, for whoever has more to tell. */
export async function installServers(
  context: Context,
  options: McpOptions,
  servers: readonly McpServerEntry[],
  of: Publisher,
): Promise<Done[]> {
  const done: Done[] = [];
  for (const server of servers) {
    const installed = await install(context, server, slotsOf(server, options), of);
    context.out.note(
      plainLine(`Installed ${installed.package_id}@${installed.version} (${installed.digest})`),
    );
    const bindings = options.bind === false ? [] : [await bind(context, installed, server, options)];
    done.push({ package: installed, bindings });
    for (const binding of bindings) await say(context, server, binding);
  }
  return done;
}

export function boundLines(done: readonly Done[]): string {
  const lines = done.flatMap(({ bindings }) =>
    bindings.map((one) => `Bound ${one.package_id} as ${one.binding_id}`),
  );
  return lines.join("\n");
}

/** A secret that is named for it is a slot of it. */
function slotsOf({ secret_slots }: McpServerEntry, { secret }: McpOptions): string[] {
  return [...new Set([...secret_slots, ...Object.keys(secret ?? {})])];
}

async function install(
  context: Context,
  server: McpServerEntry,
  secret_slots: string[],
  { publisher, version }: Publisher,
): Promise<Package> {
  const { from, name } = server;
  if (from.kind === "npm") return await installNpm(context, from.spec, secret_slots);
  const { packageIdOf, serverManifest } = await import("@backplane/supply");
  const runtime: ServerDraft["runtime"] =
    from.kind === "http"
      ? { protocol: "mcp.http", url: from.url }
      : { protocol: "mcp.stdio", entrypoint: [from.command] };
  const package_id = packageIdOf(publisher, name);
  const text = serverManifest({ package_id, version, name, runtime, secret_slots });
  return await uploadWith(context, text, from.kind === "files" ? from.folder : null);
}

/** Its slots are part of what was installed, so others make other bytes of a version that never changes. */
async function installNpm(context: Context, spec: string, secret_slots: string[]): Promise<Package> {
  try {
    return await context.client().packages.installNpm(spec, secret_slots);
  } catch (error) {
    if (codeOf(error) !== "package.conflict") throw error;
    throw new BackplaneError("package.conflict", `${spec} is installed already with other secret slots.`, {
      fix: "Remove its binding and the package (backplane binding list, backplane plugin list), then install it again.",
    });
  }
}

/** A manifest that was made here, with the files of a folder that stays as it is. */
export async function uploadWith(context: Context, manifest: string, files: string | null): Promise<Package> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-mcp-"));
  try {
    if (files !== null) cpSync(files, folder, { recursive: true, verbatimSymlinks: true });
    writeFileSync(join(folder, "vai-plugin.toml"), manifest);
    return await uploadFolder(context, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export async function bind(
  context: Context,
  installed: Package,
  server: McpServerEntry,
  options: McpOptions,
): Promise<Binding> {
  const { from, args, env } = server;
  const parts = await bindingParts(context, options);
  const secret_env = variablesOf(server, options);
  const headers = from.kind === "http" ? from.headers : {};
  const config: JsonObject = {
    ...(args.length === 0 ? {} : { args }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...parts.config,
  };
  const policy = Object.keys(secret_env).length === 0 ? {} : { policy: { ...parts.policy, secret_env } };
  const given = Object.keys(config).length === 0 ? {} : { config };
  return await bindWhole(context, installed, { ...parts, ...given, ...policy }, options.orgWide === true);
}

/** A server on stdio has no other way to be given a secret; the variable is called like the slot, in capitals. */
function variablesOf({ from, secret_env }: McpServerEntry, { secret }: McpOptions): Record<string, string> {
  if (from.kind === "http") return {};
  const named = Object.keys(secret ?? {}).map((slot) => [slot, slot.toUpperCase()]);
  return { ...(Object.fromEntries(named) as Record<string, string>), ...secret_env };
}

/** What it turned out to offer, or what is in the way. */
async function say(context: Context, server: McpServerEntry, binding: Binding): Promise<void> {
  const { out } = context;
  const { binding_id, unbound_slots } = binding;
  for (const slot of unbound_slots) {
    const variable = server.secret_env[slot];
    const told =
      variable === undefined ? "" : ` (for ${variable}; store it first: backplane secret set NAME)`;
    out.note(`Not active yet: backplane binding set ${binding_id} --secret ${slot}=NAME${told}`);
  }
  await sayTools(context, binding);
}

export function assertNoArgs(args: readonly string[], source: string): void {
  if (args.length === 0) return;
  throw new BackplaneError("cli.usage", `${source} takes no arguments: they are for MCP servers of npm.`, {
    fix: `backplane plugin install ${source}`,
  });
}

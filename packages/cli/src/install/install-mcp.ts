/**
 * Installs MCP servers: from the npm registry, by URL, or all of an `mcp.json`. Each becomes a package with one binding
 * for all its tools, which are known only once it runs. Arguments, variables and mounts belong to the binding.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import {
  BackplaneError,
  type Binding,
  codeOf,
  isPartFault,
  type LeftOut,
  leftOut,
  type Package,
} from "@backplane/contract";
import type { McpServerEntry, McpServers, ServerDraft } from "@backplane/supply";
import { bindWhole } from "../bindings/bind-exports.ts";
import { type BindingOptions, bindingParts } from "../bindings/binding-flags.ts";
import { reportTools } from "../bindings/report-tools.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Context } from "../context/context.ts";
import { listAll } from "../context/page.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { rejectLeftOut, reportLeftOut } from "./left-out.ts";
import { uploadFolder } from "./upload-folder.ts";

export interface McpOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
  strict?: boolean;
}

export interface Installed {
  package: Package;
  bindings: Binding[];
}

/** Publisher and version of a server from an mcp.json, which names neither. */
const PUBLISHER = "mcp";
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

export async function readMcpFile(path: string): Promise<McpServers> {
  const { readMcpJson } = await import("@backplane/supply");
  return readMcpJson(readFileSync(path, "utf8"), basename(path));
}

/** Returns the exit code: ok, or partial. */
export async function installMcpServers(
  context: Context,
  options: McpOptions,
  { servers, left_out: unread }: McpServers,
): Promise<number> {
  if (options.strict === true || servers.length === 0) rejectLeftOut(unread);
  const { done, left_out: failed } = await installServers(context, options, servers);
  const left_out = [...unread, ...failed];
  const [only] = done;
  const single = done.length === 1 && left_out.length === 0;
  context.out.data(single ? only! : { servers: done, left_out }, () => boundLines(done));
  return reportLeftOut(context, left_out);
}

async function installServers(
  context: Context,
  options: McpOptions,
  servers: readonly McpServerEntry[],
): Promise<{ done: Installed[]; left_out: LeftOut[] }> {
  const left_out: LeftOut[] = [];
  const strict = options.strict === true;
  const existing = strict ? await installedIds(context) : new Set<string>();
  const installed: { server: McpServerEntry; package: Package }[] = [];
  for (const server of servers) {
    try {
      const one = await install(context, server, slotsOf(server, options));
      installed.push({ server, package: one });
      context.out.note(plainLine(`Installed ${one.package_id}@${one.version} (${one.digest})`));
    } catch (error) {
      if (strict)
        for (const {
          package: { id },
        } of installed)
          if (!existing.has(id)) await removePackage(context, id);
      if (strict || servers.length === 1 || !isPartFault(error)) throw error;
      left_out.push(leftOut("server", server.name, error));
    }
  }
  if (installed.length === 0) rejectLeftOut(left_out);
  const done: Installed[] = [];
  for (const { server, package: one } of installed) {
    const bindings = options.bind === false ? [] : [await bind(context, one, server, options)];
    done.push({ package: one, bindings });
    for (const binding of bindings) await reportBinding(context, binding);
  }
  return { done, left_out };
}

async function installedIds(context: Context): Promise<Set<string>> {
  const { packages } = context.client();
  return new Set((await listAll((page) => packages.list(page))).map(({ id }) => id));
}

async function removePackage(context: Context, id: string): Promise<void> {
  await context.client().packages.remove(id);
}

export function boundLines(done: readonly Installed[]): string {
  const lines = done.flatMap(({ bindings }) =>
    bindings.map((one) => `Bound ${one.package_id} as ${one.binding_id}`),
  );
  return lines.join("\n");
}

/** Each secret of the flags becomes a slot of the server. */
function slotsOf({ secret_slots }: McpServerEntry, { secret }: McpOptions): string[] {
  return [...new Set([...secret_slots, ...Object.keys(secret ?? {})])];
}

async function install(context: Context, server: McpServerEntry, secret_slots: string[]): Promise<Package> {
  const { from, name } = server;
  if (from.kind === "npm") return await installNpm(context, from.spec, secret_slots);
  const { packageIdOf, serverManifest } = await import("@backplane/supply");
  const runtime: ServerDraft["runtime"] =
    from.kind === "http"
      ? { protocol: "mcp.http", url: from.url }
      : { protocol: "mcp.stdio", entrypoint: [from.command] };
  const package_id = packageIdOf(PUBLISHER, name);
  const text = serverManifest({ package_id, version: LOCAL_VERSION, name, runtime, secret_slots });
  return await uploadManifest(context, text);
}

/** Secret slots are part of the package content, so other slots conflict with the installed version. */
async function installNpm(context: Context, spec: string, secret_slots: string[]): Promise<Package> {
  // The gateway keeps installing after this command was interrupted.
  const stopListening = context.io.onSignal(() => {
    context.out.note(
      plainLine(
        `Interrupted. The gateway continues to install ${spec} but does not bind it. To bind it, install it again.`,
      ),
    );
    context.io.exit(EXIT.interrupted);
  });
  try {
    return await context.client().packages.installNpm(spec, secret_slots);
  } catch (error) {
    if (codeOf(error) !== "package.conflict") throw error;
    throw new BackplaneError("package.conflict", `${spec} is already installed with other secret slots.`, {
      fix: "Remove its binding and the package (backplane binding list, backplane plugin list), then install it again.",
    });
  } finally {
    stopListening();
  }
}

/** Uploads a package that consists of its manifest only. */
async function uploadManifest(context: Context, manifest: string): Promise<Package> {
  const folder = mkdtempSync(join(tmpdir(), "backplane-mcp-"));
  try {
    writeFileSync(join(folder, "vai-plugin.toml"), manifest);
    return await uploadFolder(context, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function bind(
  context: Context,
  installed: Package,
  server: McpServerEntry,
  options: McpOptions,
): Promise<Binding> {
  const { serverBinding } = await import("@backplane/supply");
  const parts = await bindingParts(context, options);
  const own = serverBinding({ ...server, secret_env: variablesOf(server, options) });
  const config = own.config === undefined ? {} : { config: { ...own.config, ...parts.config } };
  const policy = own.policy === undefined ? {} : { policy: { ...parts.policy, ...own.policy } };
  return await bindWhole(context, installed, { ...parts, ...config, ...policy }, options.orgWide === true);
}

/** A stdio server receives secrets as environment variables, named after the slot in capitals. */
function variablesOf({ from, secret_env }: McpServerEntry, { secret }: McpOptions): Record<string, string> {
  if (from.kind === "http") return {};
  const named = Object.keys(secret ?? {}).map((slot) => [slot, slot.toUpperCase()]);
  return { ...(Object.fromEntries(named) as Record<string, string>), ...secret_env };
}

/** Lists the tools of the binding, or the secrets that it still needs. */
export async function reportBinding(context: Context, binding: Binding): Promise<void> {
  const { binding_id, unbound_slots, policy } = binding;
  for (const slot of unbound_slots) {
    const variable = policy.secret_env?.[slot];
    const hint =
      variable === undefined
        ? ""
        : ` (becomes ${variable}; store the secret first: backplane secret set NAME)`;
    context.out.note(
      `Not active yet. Bind its secret: backplane binding set ${binding_id} --secret ${slot}=NAME${hint}`,
    );
  }
  await reportTools(context, binding);
}

export function assertNoArgs(args: readonly string[], source: string): void {
  if (args.length === 0) return;
  throw new BackplaneError("cli.usage", `${source} does not take arguments; only MCP servers from npm do.`, {
    fix: `backplane plugin install ${source}`,
  });
}

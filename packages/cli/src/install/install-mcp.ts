/**
 * MCP servers: of the npm registry, at an address, or all that an `mcp.json` names. Each becomes a package, bound as a
 * whole, since what it offers is known once it runs. Arguments, variables and folders are the binding's.
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
import { sayTools } from "../bindings/report-tools.ts";
import { EXIT } from "../command-line/exit-codes.ts";
import type { Context } from "../context/context.ts";
import { listAll } from "../context/page.ts";
import { plainLine } from "../terminal/plain-text.ts";
import { refuseLeftOut, sayLeftOut } from "./left-out.ts";
import { uploadFolder } from "./upload-folder.ts";

export interface McpOptions extends BindingOptions {
  bind?: boolean;
  orgWide?: boolean;
  strict?: boolean;
}

export interface Done {
  package: Package;
  bindings: Binding[];
}

/** What an mcp.json does not say. */
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

/** Exit code: whether all of them are there. */
export async function installMcpServers(
  context: Context,
  options: McpOptions,
  { servers, left_out: unread }: McpServers,
): Promise<number> {
  if (options.strict === true || servers.length === 0) refuseLeftOut(unread);
  const { done, left_out: failed } = await installServers(context, options, servers);
  const left_out = [...unread, ...failed];
  const [only] = done;
  const single = done.length === 1 && left_out.length === 0;
  context.out.data(single ? only! : { servers: done, left_out }, () => boundLines(done));
  return sayLeftOut(context, left_out);
}

async function installServers(
  context: Context,
  options: McpOptions,
  servers: readonly McpServerEntry[],
): Promise<{ done: Done[]; left_out: LeftOut[] }> {
  const left_out: LeftOut[] = [];
  const strict = options.strict === true;
  const there = strict ? await installedIds(context) : new Set<string>();
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
          if (!there.has(id)) await takeBack(context, id);
      if (strict || servers.length === 1 || !isPartFault(error)) throw error;
      left_out.push(leftOut("server", server.name, error));
    }
  }
  if (installed.length === 0) refuseLeftOut(left_out);
  const done: Done[] = [];
  for (const { server, package: one } of installed) {
    const bindings = options.bind === false ? [] : [await bind(context, one, server, options)];
    done.push({ package: one, bindings });
    for (const binding of bindings) await sayBound(context, binding);
  }
  return { done, left_out };
}

async function installedIds(context: Context): Promise<Set<string>> {
  const { packages } = context.client();
  return new Set((await listAll((page) => packages.list(page))).map(({ id }) => id));
}

/** What came in before the one that cannot be used goes again. */
async function takeBack(context: Context, id: string): Promise<void> {
  await context.client().packages.remove(id);
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

/** Its slots are part of what was installed, so others make other bytes of a version that never changes. */
async function installNpm(context: Context, spec: string, secret_slots: string[]): Promise<Package> {
  // It takes seconds, in the gateway, which does not stop with this command.
  const silence = context.io.onSignal(() => {
    context.out.note(
      plainLine(
        `Interrupted. The gateway goes on installing ${spec} and binds nothing; to bind it, install it again.`,
      ),
    );
    context.io.exit(EXIT.interrupted);
  });
  try {
    return await context.client().packages.installNpm(spec, secret_slots);
  } catch (error) {
    if (codeOf(error) !== "package.conflict") throw error;
    throw new BackplaneError("package.conflict", `${spec} is installed already with other secret slots.`, {
      fix: "Remove its binding and the package (backplane binding list, backplane plugin list), then install it again.",
    });
  } finally {
    silence();
  }
}

/** A package that is nothing but its manifest. */
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

/** A server on stdio has no other way to be given a secret; the variable is called like the slot, in capitals. */
function variablesOf({ from, secret_env }: McpServerEntry, { secret }: McpOptions): Record<string, string> {
  if (from.kind === "http") return {};
  const named = Object.keys(secret ?? {}).map((slot) => [slot, slot.toUpperCase()]);
  return { ...(Object.fromEntries(named) as Record<string, string>), ...secret_env };
}

/** What it turned out to offer, or what is in the way. */
export async function sayBound(context: Context, binding: Binding): Promise<void> {
  const { binding_id, unbound_slots, policy } = binding;
  for (const slot of unbound_slots) {
    const variable = policy.secret_env?.[slot];
    const told =
      variable === undefined ? "" : ` (for ${variable}; store it first: backplane secret set NAME)`;
    context.out.note(`Not active yet: backplane binding set ${binding_id} --secret ${slot}=NAME${told}`);
  }
  await sayTools(context, binding);
}

export function assertNoArgs(args: readonly string[], source: string): void {
  if (args.length === 0) return;
  throw new BackplaneError("cli.usage", `${source} takes no arguments: they are for MCP servers of npm.`, {
    fix: `backplane plugin install ${source}`,
  });
}

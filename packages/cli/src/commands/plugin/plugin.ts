/** `plugin`: installs and manages packages and kernel plugins. Only package ids contain a slash. */
import { BackplaneError, codeOf, definedFields, type Package, type PluginView } from "@backplane/contract";
import type { Command } from "commander";
import { bindingFlags } from "../../bindings/binding-flags.ts";
import { findInstalledPackage } from "../../bindings/find-package.ts";
import { reportLoadErrors, reportTools } from "../../bindings/report-tools.ts";
import { parseList, percentage, wholeNumber } from "../../command-line/parse-flags.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { type PageFlags, pageFlags, showRows } from "../../context/page.ts";
import {
  assertNoBindingFlags,
  givenBindingFlag,
  type InstallOptions,
  installationSettings,
} from "../../install/installation-settings.ts";
import {
  bindsAutomatically,
  type PluginSource,
  readMcpFile,
  readPluginSource,
} from "../../install/plugin-source.ts";
import { reportInstallation } from "../../install/report-installation.ts";
import {
  interruptedInstallation,
  type SentSource,
  sendInstallation,
} from "../../install/send-installation.ts";
import { readSignatureFile } from "../../install/signature-file.ts";
import type { Cell } from "../../terminal/output.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";
import {
  describeKernelPlugin,
  findKernelPlugin,
  installKernelPlugin,
  isKernelName,
  reloadKernelPlugin,
  setEnabled,
  setTrusted,
} from "./kernel-plugin.ts";
import { listOutdated } from "./outdated-plugins.ts";
import { boundTools, contentsCell, describePackage, verifiedCell } from "./package-text.ts";
import { addAuthorCommands } from "./author-commands.ts";
import { replayPlugin } from "./replay-plugin.ts";
import { searchPlugins } from "./search-plugins.ts";
import { rollbackPlugin, upgradePlugin } from "./upgrade-plugin.ts";

const EXAMPLES = `
Examples:
  backplane plugin init acme/word-count --lang py --kind tool
  backplane plugin install ./my-plugin --bind --class worker
  backplane plugin install acme-devkit-0.1.0.tgz
  backplane plugin install oci://ghcr.io/acme/devkit:0.1.0 --bind
  backplane plugin install npm:acme-memory@1.2.0
  backplane plugin install npm:@modelcontextprotocol/server-filesystem --mount ~/notes:/data -- /data
  backplane plugin install pypi:mcp-server-time -- --local-timezone Europe/Berlin
  backplane plugin install image:mcp/time
  backplane plugin install --mcp https://mcp.example.com/mcp example
  backplane plugin install ./mcp.json
  backplane plugin install ./my-kernel-plugin --editable
  backplane plugin install ./my-plugin --editable
  backplane plugin pack ./my-plugin -o acme-devkit-0.1.0.tgz
`;

export function addPluginCommands(program: Command, toAction: ToAction): void {
  const plugin = program
    .command("plugin")
    .description("Install and manage plugins.")
    .addHelpText("after", EXAMPLES);
  // SOURCE is required, but with --mcp it is a name, so a missing one gets its own error message.
  allowFlags(bindingFlags(plugin.command("install [source] [args...]")))
    .usage("[options] <source> [args...]")
    .description(
      "Install a folder (vai-plugin.toml, tool files, an instrument plugin, Agent Plugins), an archive (.tgz, .zip, .jar, an OCI layout), a package in an OCI registry (oci://HOST/NAME:TAG), an entry of the marketplace (marketplace:ID), an MCP server (npm:NAME, pypi:NAME, image:NAME, an mcp.json, --mcp URL NAME), a kernel plugin (a folder, npm:NAME), or an example (example:NAME).",
    )
    .option("--mcp <url>", "install the MCP server at this URL; SOURCE is its name")
    .option("--bind", "bind all exports of a package, with the flags above")
    .option("--no-bind", "do not bind tool files, MCP servers and instruments")
    .option("--org-wide", "bind for the whole organisation instead of one project")
    .option(
      "--accept-source",
      "accept a package from a registry whose manifest names another repository as its source",
    )
    .option("--signature <file>", "the signature of an archive (default for a folder: the one in it)")
    .option("--allow-downgrade", "install a signed package that is older than one that was installed before")
    .option("--strict", "install nothing if one of several servers or skills is invalid")
    .option("--script <name>", "the program of a Python package to start, if it has several")
    .option("--editable", "link a folder instead of installing it; changes are loaded on save")
    .addHelpText("after", EXAMPLES)
    .action(toAction(install));
  pageFlags(plugin.command("list").description("List packages and kernel plugins.")).action(toAction(list));
  plugin
    .command("search [text...]")
    .description("Search the marketplace, and the public registry of MCP servers if one is configured.")
    .action(toAction(searchPlugins));
  plugin
    .command("info <name>")
    .description("Show a package (ID, or publisher/name[@version]) or a kernel plugin.")
    .action(toAction(info));
  plugin
    .command("remove <name>")
    .description("Remove a package that no binding uses, or a kernel plugin.")
    .action(toAction(remove));
  plugin
    .command("enable <name>")
    .description("Enable a kernel plugin.")
    .action(toAction((context, _options, name: string) => setEnabled(context, name, true)));
  plugin
    .command("disable <name>")
    .description("Disable a kernel plugin.")
    .action(toAction((context, _options, name: string) => setEnabled(context, name, false)));
  plugin
    .command("reload <name>")
    .description("Reload a kernel plugin.")
    .action(toAction((context, _options, name: string) => reloadKernelPlugin(context, name)));
  plugin
    .command("trust <name>")
    .description("Run a kernel plugin inside the gateway process.")
    .option("--revoke", "run it in a separate process again")
    .action(
      toAction((context, options: { revoke?: boolean }, name: string) =>
        setTrusted(context, name, options.revoke !== true),
      ),
    );
  allowFlags(plugin.command("upgrade <package>"))
    .description(
      "Move all bindings of a package to the installed PACKAGE[@VERSION]; settings are kept. Shows first what changes.",
    )
    .option(
      "--from <source>",
      "install this version first: a folder, an archive, npm:NAME@VERSION or pypi:NAME==VERSION",
    )
    .option(
      "--percent <n>",
      "send only this share of the calls to the new version; repeat the upgrade to raise it",
      percentage("--percent"),
    )
    .option("--grant-permissions", "grant permissions that only the new version requests (admins)")
    .option(
      "--withhold-permissions",
      "upgrade without these permissions; without either flag the upgrade waits for an admin",
    )
    .option(
      "--trial <seconds>",
      "how long the gateway watches the version and rolls it back if it fails (default: 60)",
      wholeNumber("--trial", 0, 86_400),
    )
    .option("--org-wide", "bindings of the whole organisation instead of one project")
    .option("--dry-run", "only show what changes")
    .option("--replay", "first replay recorded calls; stop if the version needs another permission")
    .option("--stop-on-change", "with --replay: also stop if a result differs")
    .action(toAction(upgradePlugin));
  plugin
    .command("rollback <package>")
    .description(
      "End a rollout of a package, or return its bindings to the version and settings before their last upgrade.",
    )
    .option("--org-wide", "bindings of the whole organisation instead of one project")
    .option("--dry-run", "only show what changes")
    .action(toAction(rollbackPlugin));
  plugin
    .command("outdated")
    .description(
      "List packages with the version in use and the newest one, including those at npm, PyPI and OCI registries.",
    )
    .action(toAction(listOutdated));
  plugin
    .command("replay <package>")
    .description(
      "Run recorded read-only calls against another version of a package, in the sandbox without network and secrets, and compare the results. No traffic moves.",
    )
    .requiredOption("--candidate <version|source>", "an installed version, or a source as in plugin install")
    .option("--limit <n>", "how many calls, newest first (default: 50)", wholeNumber("--limit", 1, 500))
    .option("--tool <name>", "only calls of this tool; repeatable", parseList)
    .option("--org-wide", "bindings of the whole organisation instead of one project")
    .action(toAction(replayPlugin));
  addAuthorCommands(plugin, toAction);
}

/** Flags that allow code of a package to run in the sandbox while it is installed. */
function allowFlags(command: Command): Command {
  return command
    .option(
      "--allow-scripts <name>",
      "run the install scripts of this npm package, which a server depends on, in the sandbox without network; repeatable",
      parseList,
    )
    .option(
      "--allow-build <name>",
      "build this Python package, which a server depends on and which has no wheel, in the sandbox without network; repeatable",
      parseList,
    );
}

async function install(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean; mcp?: string; script?: string },
  text: string | undefined,
  args: string[],
): Promise<number | undefined> {
  if (text === undefined) throw noSource(options.mcp);
  if (options.script !== undefined && !text.startsWith("pypi:"))
    throw wrongFlag("--script", "Python packages", text);
  if (options.mcp !== undefined) {
    const named = { kind: "mcp_url", name: text, url: options.mcp } as const;
    return await installServers(context, options, text, args, { named, label: text });
  }
  const source = readPluginSource(context.io.cwd, text);
  if (options.signature !== undefined && source.kind !== "package")
    throw wrongFlag("--signature", "folders and archives", text);
  if (source.kind === "pypi") {
    const { script } = options;
    const named = {
      kind: "pypi",
      spec: source.spec,
      args,
      ...(script === undefined ? {} : { script }),
    } as const;
    return await installServers(context, options, text, [], { named, label: source.spec });
  }
  if (source.kind === "image") {
    const named = { kind: "image", reference: source.reference, args } as const;
    return await installServers(context, options, text, [], { named, label: source.reference });
  }
  if (source.kind === "npm") return await installNpm(context, options, text, source.spec, args);
  if (source.kind === "marketplace") return await installEntry(context, options, text, source.id, args);
  if (source.kind === "oci") return await installFromRegistry(context, options, text, args);
  if (source.kind === "mcp") {
    const { document, file } = readMcpFile(source.path);
    const named = { kind: "mcp_json", document, file } as const;
    return await installServers(context, options, text, args, { named, label: file });
  }
  const folder = source.kind === "agent-plugin" || (source.kind === "package" && source.folder);
  if (folder && options.editable === true) {
    assertNoArgs(args, text);
    return await linkFolder(context, options, source.path, text);
  }
  if (source.kind === "agent-plugin")
    return await installServers(context, options, text, args, { path: source.path, folder: true });
  assertNoArgs(args, text);
  assertNothingAllowed(options, text);
  if (options.bind === false || source.kind !== "package" || !bindsAutomatically(source))
    assertNoBindingFlags(options, text);
  if (source.kind === "package") return await installPackage(context, options, text, source);
  if (options.bind === true) throw wrongFlag("--bind", "packages", text);
  return await installKernelPlugin(context, source.source, options);
}

/** Only the dependencies of servers from a registry have scripts or builds to allow. */
function assertNothingAllowed({ allowScripts, allowBuild }: InstallOptions, text: string): void {
  if (allowScripts !== undefined) throw wrongFlag("--allow-scripts", "MCP servers from npm", text);
  if (allowBuild !== undefined) throw wrongFlag("--allow-build", "MCP servers from the Python index", text);
}

/** The package.json of an npm package determines whether it is a kernel plugin; a server with arguments never is one. */
async function installNpm(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  spec: string,
  args: string[],
): Promise<number> {
  if (options.editable === true) throw wrongFlag("--editable", "local folders", text);
  if (args.length === 0 && options.allowScripts === undefined) {
    const { kind, plugins } = await context
      .client()
      .installations.inspect({ kind: "npm", spec })
      .catch((error: unknown) => {
        throw codeOf(error) === "request.cancelled" ? interruptedInstallation(error, spec) : error;
      });
    if (kind === "kernel_plugins") {
      assertNoBindingFlags(options, text);
      if (options.bind === true) throw wrongFlag("--bind", "packages", text);
      return await installKernelPlugin(context, spec, options, plugins);
    }
  }
  return await installServers(context, options, text, [], {
    named: { kind: "npm", spec, args },
    label: spec,
  });
}

/** A package from a registry is not a server, and its bindings get their settings later. */
function assertNoServerFlags(
  options: InstallOptions & { editable?: boolean },
  text: string,
  args: readonly string[],
): void {
  assertNoArgs(args, text);
  if (options.editable === true) throw wrongFlag("--editable", "local folders", text);
  assertNothingAllowed(options, text);
  assertNoBindingFlags(options, text);
}

async function installEntry(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  id: string,
  args: readonly string[],
): Promise<number | undefined> {
  assertNoServerFlags(options, text, args);
  const { bind, org_wide } = await installationSettings(context, options);
  const settings = definedFields({ bind, org_wide });
  return await reportInstallation(context, await context.client().marketplace.install(id, settings));
}

async function installFromRegistry(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  reference: string,
  args: readonly string[],
): Promise<number | undefined> {
  assertNoServerFlags(options, reference, args);
  const settings = await installationSettings(context, options);
  const source = { named: { kind: "oci", reference } as const, label: reference };
  return await reportInstallation(context, await sendInstallation(context, source, settings));
}

async function installPackage(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  found: Extract<PluginSource, { kind: "package" }>,
): Promise<number | undefined> {
  if (options.editable === true) throw wrongFlag("--editable", "local folders", text);
  const signature = readSignatureFile(context.io.cwd, found.path, options.signature);
  const settings = {
    ...(await installationSettings(context, options)),
    ...(signature === undefined ? {} : { signature }),
  };
  return await reportInstallation(context, await sendInstallation(context, found, settings));
}

/** MCP servers, and Agent Plugins with their skills. */
async function installServers(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  args: readonly string[],
  source: SentSource,
): Promise<number> {
  assertServerFlags(options, text);
  assertNoArgs(args, text);
  const settings = await installationSettings(context, options);
  const sent = withSlots(source, Object.keys(options.secret ?? {}));
  const own = "named" in source && "args" in source.named ? (source.named.args ?? []) : [];
  return await reportInstallation(context, await sendInstallation(context, sent, settings), own);
}

/** Each secret named in the flags becomes a slot of the server, even if the server is not bound yet. */
function withSlots(source: SentSource, secret_slots: string[]): SentSource {
  if (!("named" in source) || source.named.kind === "folder" || source.named.kind === "oci") return source;
  return { ...source, named: { ...source.named, secret_slots } };
}

function noSource(url: string | undefined): BackplaneError {
  if (url === undefined)
    return new BackplaneError("cli.usage", "Nothing to install was given.", {
      fix: "backplane plugin install --help",
    });
  return new BackplaneError("cli.usage", "The server needs a name; its tools will be named mcp_NAME_….", {
    fix: `backplane plugin install --mcp ${url} NAME`,
  });
}

/**
 * A server without a folder cannot be linked. With --no-bind, --secret is the only binding flag that has an effect: it
 * declares slots.
 */
function assertServerFlags(options: InstallOptions & { editable?: boolean }, text: string): void {
  if (options.editable === true) throw wrongFlag("--editable", "local folders of plugins", text);
  const { secret: _slots, ...rest } = options;
  if (options.bind === false) assertNoBindingFlags(rest, text);
}

function assertNoArgs(args: readonly string[], source: string): void {
  if (args.length === 0) return;
  throw new BackplaneError(
    "cli.usage",
    `${source} does not take arguments; only MCP servers from a registry do.`,
    {
      fix: `backplane plugin install ${source}`,
    },
  );
}

/** The folder must be on the gateway's machine; the gateway watches it. */
async function linkFolder(
  context: CommandContext,
  options: InstallOptions,
  path: string,
  text: string,
): Promise<undefined> {
  if (options.bind === false) throw wrongFlag("--no-bind", "installations without --editable", text);
  const flag = givenBindingFlag(options);
  if (flag !== null)
    throw new BackplaneError("cli.usage", `${flag} has no effect together with --editable.`, {
      fix: `backplane plugin install ${text} --editable, then backplane binding set BINDING ${flag} …`,
    });
  const folder = await context.client().workspaces.trust({ path, kind: "plugin", watch: true });
  const { out } = context;
  out.data(folder, () => `Linked ${folder.path} as ${folder.package_id}@${folder.package_version}`);
  reportLoadErrors(context, folder);
  await reportTools(context, { ...folder, unbound_slots: [] }, { reportBroken: false });
  out.note(
    `Settings: backplane binding set (backplane binding list). To unlink it: backplane workspace untrust ${text}`,
  );
  return undefined;
}

async function list(context: CommandContext, options: PageFlags): Promise<undefined> {
  const page = await context.client().packages.list(options);
  // Kernel plugins are few and not paged, so they precede the first page.
  const plugins = options.after === undefined ? await kernelPlugins(context) : [];
  const rows = [...plugins.map(kernelCells), ...page.items.map(packageCells)];
  const heads = ["NAME", "VERSION", "KIND", "STATUS", "WHAT", "ORIGIN", "VERIFIED", "ID"];
  showRows(context, { items: page.items, next: page.next, plugins }, heads, rows, page.next);
  return undefined;
}

/** Packages are listed even if the key may not list kernel plugins or the web plugin is disabled. */
async function kernelPlugins(context: CommandContext): Promise<PluginView[]> {
  try {
    return await context.client().plugins.list();
  } catch (error) {
    const reason = UNAVAILABLE[codeOf(error) ?? ""];
    if (reason === undefined) throw error;
    context.out.note(`Kernel plugins are not listed: ${reason}.`);
    return [];
  }
}

const UNAVAILABLE: Record<string, string> = {
  "auth.scope": "this credential lacks plugins:read",
  "route.not_found": "the gateway's web plugin is disabled",
};

const kernelCells = (row: PluginView): Cell[] => [
  row.name,
  row.version,
  "kernel plugin",
  row.status,
  `${row.category}, ${row.mode}`,
  row.origin,
  verifiedCell(row),
  null,
];

const packageCells = (item: Package): Cell[] => [
  item.package_id,
  item.version,
  "package",
  "installed",
  contentsCell(item),
  item.origin,
  verifiedCell(item),
  item.id,
];

async function info(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const { out } = context;
  if (isKernelName(name)) {
    const row = await findKernelPlugin(context, name);
    out.data(row, () => describeKernelPlugin(row));
    return undefined;
  }
  const installed = await findInstalledPackage(context, name);
  const bound = await boundTools(context, installed);
  const bindings = bound.map(({ binding, definitions }) => ({ ...binding, definitions }));
  out.data({ ...installed, ...(bound.length === 0 ? {} : { bindings }) }, () =>
    describePackage(out, installed, bound),
  );
  return undefined;
}

async function remove(context: CommandContext, _options: object, name: string): Promise<undefined> {
  const { io, flags, out } = context;
  assertConfirmable(io, flags);
  if (isKernelName(name)) {
    await confirm(io, flags, `Remove the kernel plugin ${name}?`);
    await context.client().plugins.remove(name);
    out.data({ removed: name }, () => `Removed ${name}`);
    return undefined;
  }
  const installed = await findInstalledPackage(context, name);
  const label = `${installed.package_id}@${installed.version}`;
  await confirm(io, flags, `Remove ${label}?`);
  await context.client().packages.remove(installed.id);
  const { id, package_id, version } = installed;
  out.data({ removed: id, package_id, version }, () => `Removed ${label}`);
  return undefined;
}

function wrongFlag(flag: string, problem: string, source: string): BackplaneError {
  return new BackplaneError("cli.usage", `${flag} is only for ${problem}; ${source} is not one of them.`, {
    fix: `backplane plugin install ${source}`,
  });
}

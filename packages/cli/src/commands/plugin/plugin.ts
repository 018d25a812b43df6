/** `plugin`: installs and manages packages and kernel plugins. `isKernelName` distinguishes their names. */
import { codeOf, type Package, type PluginView } from "@backplane/contract";
import type { Command } from "commander";
import { addBindingFlags } from "../../bindings/binding-flags.ts";
import { parseList, percentage, wholeNumber } from "../../command-line/parse-flags.ts";
import type { ToAction } from "../../context/action.ts";
import type { CommandContext } from "../../context/context.ts";
import { addPageFlags, type PageFlags, showRows } from "../../context/page.ts";
import { describeCard } from "../../install/card-text.ts";
import { findInstalledPackage } from "../../packages/find-package.ts";
import type { Cell } from "../../terminal/output.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";
import { addAuthorCommands } from "./author-commands.ts";
import { installPlugin } from "./install-plugin.ts";
import {
  describeKernelPlugin,
  findKernelPlugin,
  isKernelName,
  reloadKernelPlugin,
  setEnabled,
  setTrusted,
} from "./kernel-plugin.ts";
import { listOutdated } from "./outdated-plugins.ts";
import { contentsCell, describePackage, readBoundTools, verifiedCell } from "./package-text.ts";
import { replayPlugin } from "./replay-plugin.ts";
import { searchPlugins } from "./search-plugins.ts";
import { rollbackPlugin, upgradePlugin } from "./upgrade-plugin.ts";

const EXAMPLES = `
Examples:
  backplane plugin init acme/word-count --lang py --kind tool
  backplane plugin install ./my-plugin --bind --class worker
  backplane plugin install ./my-plugin --bind --dry-run
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
  addAllowFlags(addBindingFlags(plugin.command("install [source] [args...]")))
    .usage("[options] <source> [args...]")
    .description(
      "Install a folder (vai-plugin.toml, tool files, an instrument plugin, Agent Plugins), an archive (.tgz, .zip, .jar, an OCI layout), a package in an OCI registry (oci://HOST/NAME:TAG), an entry of the marketplace (marketplace:ID), an MCP server (npm:NAME, pypi:NAME, image:NAME, an mcp.json, --mcp URL NAME), a kernel plugin (a folder, npm:NAME), or an example (example:NAME).",
    )
    .option("--mcp <url>", "install the MCP server at this URL; SOURCE is the name of the server")
    .option("--bind", "bind all exports of a package, with the flags above")
    .option("--no-bind", "do not bind tool files, MCP servers and instruments")
    .option("--org-wide", "bind for the whole organization instead of one project")
    .option(
      "--accept-source",
      "accept a package from a registry even if the manifest declares another repository as its source",
    )
    .option("--signature <file>", "the signature file of an archive (default for a folder: the one in it)")
    .option("--allow-downgrade", "install a signed package that is older than one that was installed before")
    .option("--strict", "install nothing if one of several servers or skills is invalid")
    .option("--script <name>", "the program of a Python package to start, if it has several")
    .option("--editable", "link a folder instead of installing it; changes are loaded on save")
    .option(
      "--dry-run",
      "only show what would be installed, what it may do, what changes and what would be bound",
    )
    .addHelpText("after", EXAMPLES)
    .action(toAction(installPlugin));
  addPageFlags(plugin.command("list").description("List packages and kernel plugins.")).action(
    toAction(list),
  );
  plugin
    .command("search [text...]")
    .description("Search the marketplace, and the public registry of MCP servers if one is configured.")
    .action(toAction(searchPlugins));
  plugin
    .command("info <name>")
    .description(
      "Show a package (ID, or publisher/name[@version]), a kernel plugin or a card (marketplace:ID).",
    )
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
    .option("--revoke", "run the plugin in a separate process again")
    .action(
      toAction((context, options: { revoke?: boolean }, name: string) =>
        setTrusted(context, name, options.revoke !== true),
      ),
    );
  addAllowFlags(plugin.command("upgrade <package>"))
    .description(
      "Upgrade all bindings of a package to the installed PACKAGE[@VERSION]; settings are kept. First shows what changes.",
    )
    .option(
      "--from <source>",
      "install this version first: a folder, an archive, npm:NAME@VERSION, pypi:NAME==VERSION, oci://HOST/NAME:TAG, image:NAME:TAG or marketplace:ID",
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
      "length of the trial, in which the gateway rolls back a version that crashes or fails too often (default: 60)",
      wholeNumber("--trial", 0, 86_400),
    )
    .option("--org-wide", "bindings of the whole organization instead of one project")
    .option("--dry-run", "only show what changes")
    .option("--replay", "first replay recorded calls; stop if the version needs another permission")
    .option("--stop-on-change", "with --replay: also stop if a result differs")
    .action(toAction(upgradePlugin));
  plugin
    .command("rollback <package>")
    .description(
      "End a rollout of a package, or return its bindings to the version and settings before their last upgrade.",
    )
    .option("--org-wide", "bindings of the whole organization instead of one project")
    .option("--dry-run", "only show what changes")
    .action(toAction(rollbackPlugin));
  plugin
    .command("outdated")
    .description(
      "List packages with the version in use and the newest one, including those at npm, PyPI, OCI registries and the marketplace.",
    )
    .action(toAction(listOutdated));
  plugin
    .command("replay <package>")
    .description(
      "Run recorded read-only calls against another version of a package, in the sandbox without network access or secrets, and compare the results. The bindings do not change.",
    )
    .requiredOption("--candidate <version|source>", "an installed version, or a source as in plugin install")
    .option("--limit <n>", "how many calls, newest first (default: 50)", wholeNumber("--limit", 1, 500))
    .option("--tool <name>", "only calls to this tool; repeatable", parseList)
    .option("--org-wide", "bindings of the whole organization instead of one project")
    .action(toAction(replayPlugin));
  addAuthorCommands(plugin, toAction);
}

/** Flags that allow code of a package to run in the sandbox while it is installed. */
function addAllowFlags(command: Command): Command {
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

async function list(context: CommandContext, options: PageFlags): Promise<undefined> {
  const page = await context.client().packages.list(options);
  // Kernel plugins are few and not paged, so they precede the first page.
  const plugins = options.after === undefined ? await listKernelPlugins(context) : [];
  const rows = [...plugins.map(kernelCells), ...page.items.map(packageCells)];
  const heads = ["NAME", "VERSION", "KIND", "STATUS", "WHAT", "ORIGIN", "VERIFIED", "ID"];
  showRows(context, { items: page.items, next: page.next, plugins }, heads, rows, page.next);
  return undefined;
}

/** Packages are listed even if the key may not list kernel plugins or the web plugin is disabled. */
async function listKernelPlugins(context: CommandContext): Promise<PluginView[]> {
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
  const entry = /^marketplace:(.+)$/.exec(name)?.[1];
  if (entry !== undefined) {
    const card = await context.client().marketplace.get(entry);
    out.data(card, () => describeCard(card));
    return undefined;
  }
  if (isKernelName(name)) {
    const row = await findKernelPlugin(context, name);
    out.data(row, () => describeKernelPlugin(row));
    return undefined;
  }
  const installed = await findInstalledPackage(context, name);
  const bound = await readBoundTools(context, installed);
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

/** Kernel plugins extend the gateway itself. They run in a separate process until they are trusted (scope admin). */
import {
  BackplaneError,
  codeOf,
  compareProvenance,
  describeProvenance,
  type PluginView,
  type SourceInspection,
} from "@backplane/contract";
import { ifAllowed } from "../../bindings/report-tools.ts";
import { EXIT } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { interruptedInstallationError } from "../../install/send-installation.ts";
import { fields } from "../../terminal/output.ts";
import { plainLine, plainText } from "../../terminal/plain-text.ts";
import { assertConfirmable, confirm } from "../../terminal/prompts.ts";

/** Package ids contain a slash, and record ids of packages start with `pkg_`. Names of kernel plugins do neither. */
export function isKernelName(name: string): boolean {
  return !name.includes("/") && !name.startsWith("pkg_");
}

export async function findKernelPlugin(context: CommandContext, name: string): Promise<PluginView> {
  const plugin = (await context.client().plugins.list()).find((row) => row.name === name);
  if (plugin !== undefined) return plugin;
  throw new BackplaneError("plugin.not_found", `Kernel plugin ${name} is not installed.`, {
    fix: "List plugins: backplane plugin list. Packages are named publisher/name.",
  });
}

/** Lists the plugins of the source and asks for confirmation before it installs them. */
export async function installKernelPlugin(
  context: CommandContext,
  source: string,
  options: { editable?: boolean; dryRun?: boolean },
  /** The plugins of the source, if they are already known. */
  known?: SourceInspection["plugins"],
): Promise<number> {
  const { io, flags, out } = context;
  const { plugins } = context.client();
  if (options.dryRun === true) {
    await previewKernelPlugins(context, known ?? (await plugins.inspect(source)));
    return EXIT.ok;
  }
  assertConfirmable(io, flags);
  const entries = known ?? (await plugins.inspect(source));
  for (const entry of entries) {
    out.note(plainLine(`${entry.name} ${entry.version} (${entry.category}) from ${entry.source}`));
    for (const line of await provenanceLines(context, entry)) out.note(plainLine(`  ${line}`));
  }
  const description = entries.length === 1 ? "this kernel plugin" : `these ${entries.length} kernel plugins`;
  await confirm(io, flags, `Install ${description}?`);
  const rows = await plugins.install(source, { editable: options.editable === true }).catch((error) => {
    throw codeOf(error) === "request.cancelled" ? interruptedInstallationError(error, source) : error;
  });
  out.data({ plugins: rows }, () =>
    rows.map((row) => `Installed ${row.name} ${row.version} (${row.category}, ${row.status})`).join("\n"),
  );
  for (const row of rows) {
    if (row.error !== null) out.note(plainLine(`${row.name} failed to load: ${row.error.split("\n", 1)[0]}`));
  }
  return rows.some((row) => row.status === "failed") ? EXIT.failed : EXIT.ok;
}

async function previewKernelPlugins(
  context: CommandContext,
  plugins: SourceInspection["plugins"],
): Promise<void> {
  const lines: string[] = [];
  for (const entry of plugins) {
    const { name, version, category, source } = entry;
    lines.push(
      `Would install the kernel plugin ${name} ${version} (${category}) from ${source}`,
      "  It becomes part of the agent host and sees the conversations in which it is used.",
      "  It runs in a process of its own until you trust it.",
      ...(await provenanceLines(context, entry)).map((line) => `  ${line}`),
    );
  }
  context.out.data({ dry_run: true, plugins }, () =>
    lines.map((line) => /^ */.exec(line)![0] + plainLine(line)).join("\n"),
  );
  context.out.note("Nothing was installed.");
}

/** The provenance of a package from npm, and its changes if the plugin is already installed. */
async function provenanceLines(
  context: CommandContext,
  { name, provenance }: Pick<PluginView, "name" | "provenance">,
): Promise<string[]> {
  if (provenance === undefined) return [];
  const rows = (await ifAllowed(context.client().plugins.list())) ?? [];
  const installed = rows.find((row) => row.name === name);
  const changes = installed === undefined ? [] : compareProvenance(installed, { provenance });
  return [`Provenance: ${describeProvenance(provenance)}`, ...changes.map(({ text }) => text)];
}

/** The plugin that serves most routes for plugins, providers and settings. */
const WEB_PLUGIN = "web";

export async function setEnabled(
  context: CommandContext,
  name: string,
  enabled: boolean,
): Promise<undefined> {
  if (name === WEB_PLUGIN && !enabled) {
    assertConfirmable(context.io, context.flags);
    await confirm(
      context.io,
      context.flags,
      "Without the web plugin, commands for plugins, providers and settings stop working. Disable it?",
    );
  }
  const row = await context.client().plugins.setEnabled(name, enabled);
  context.out.data(row, () => `${enabled ? "Enabled" : "Disabled"} ${name} (now ${row.status})`);
  return undefined;
}

/** Trusted code has all permissions of the gateway, so trusting it requires confirmation. */
export async function setTrusted(
  context: CommandContext,
  name: string,
  trusted: boolean,
): Promise<undefined> {
  const { io, flags, out } = context;
  if (trusted) {
    assertConfirmable(io, flags);
    await confirm(io, flags, `Run ${name} inside the gateway, with all permissions of the gateway?`);
  }
  const row = await context.client().plugins.setTrusted(name, trusted);
  out.data(row, () =>
    trusted ? `${name} is trusted and runs inside the gateway` : `${name} runs in a separate process again`,
  );
  return undefined;
}

export async function reloadKernelPlugin(context: CommandContext, name: string): Promise<number> {
  const row = await context.client().plugins.reload(name);
  context.out.data(row, () => `Reloaded ${name} ${row.version} (${row.status})`);
  if (row.error !== null) context.out.note(plainLine(row.error.split("\n", 1)[0]!));
  return row.status === "failed" ? EXIT.failed : EXIT.ok;
}

export function describeKernelPlugin(row: PluginView): string {
  const { config_schema, current_config } = row;
  const properties = (config_schema?.properties ?? {}) as Record<string, unknown>;
  const summary = fields({
    plugin: `${row.name} ${row.version}`,
    kind: "kernel plugin",
    category: row.category,
    status: row.status,
    enabled: row.enabled ? "yes" : "no",
    mode: `${row.mode}${row.trusted ? " (trusted)" : ""}`,
    origin: row.origin,
    source: row.source,
    provenance: row.provenance === undefined ? undefined : describeProvenance(row.provenance),
    settings: Object.keys(properties),
    config: Object.keys(current_config).length === 0 ? undefined : current_config,
    error: row.error?.split("\n", 1)[0],
  });
  return row.trace === null ? summary : `${summary}\n\n${plainText(row.trace)}`;
}

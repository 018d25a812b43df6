/** `plugin install`: recognizes the source, checks that the flags apply to it, and installs or links it. */
import { BackplaneError, codeOf } from "@backplane/contract";
import { reportLoadErrors, reportTools } from "../../bindings/report-tools.ts";
import type { CommandContext } from "../../context/context.ts";
import {
  assertNoBindingFlags,
  findBindingFlag,
  type InstallOptions,
  readInstallationSettings,
} from "../../install/installation-settings.ts";
import { installEntry } from "../../install/install-entry.ts";
import {
  bindsAutomatically,
  type PluginSource,
  readMcpFile,
  readPluginSource,
} from "../../install/plugin-source.ts";
import { reportInstallation } from "../../install/report-installation.ts";
import {
  interruptedInstallationError,
  type LocalOrGatewaySource,
  sendInstallation,
} from "../../install/send-installation.ts";
import { readSignatureFile } from "../../install/signature-file.ts";
import { installKernelPlugin } from "./kernel-plugin.ts";

export async function installPlugin(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean; mcp?: string; script?: string },
  text: string | undefined,
  args: string[],
): Promise<number | undefined> {
  if (text === undefined) throw missingSourceError(options.mcp);
  if (options.dryRun === true) assertDryRunFlags(options, text);
  if (options.script !== undefined && !text.startsWith("pypi:"))
    throw wrongFlagError("--script", "Python packages", text);
  if (options.mcp !== undefined) {
    const gateway_source = { kind: "mcp_url", name: text, url: options.mcp } as const;
    return await installServers(context, options, text, args, { gateway_source, label: text });
  }
  const source = readPluginSource(context.io.cwd, text);
  if (options.signature !== undefined && source.kind !== "package")
    throw wrongFlagError("--signature", "folders and archives", text);
  if (source.kind === "pypi") {
    const { script } = options;
    const gateway_source = {
      kind: "pypi",
      spec: source.spec,
      args,
      ...(script === undefined ? {} : { script }),
    } as const;
    return await installServers(context, options, text, [], { gateway_source, label: source.spec });
  }
  if (source.kind === "image") {
    const gateway_source = { kind: "image", reference: source.reference, args } as const;
    return await installServers(context, options, text, [], { gateway_source, label: source.reference });
  }
  if (source.kind === "npm") return await installNpm(context, options, text, source.spec, args);
  if (source.kind === "marketplace") return await installCard(context, options, text, source.id, args);
  if (source.kind === "oci") return await installFromRegistry(context, options, text, args);
  if (source.kind === "mcp") {
    const { document, file } = readMcpFile(source.path);
    const gateway_source = { kind: "mcp_json", document, file } as const;
    return await installServers(context, options, text, args, { gateway_source, label: file });
  }
  const is_folder = source.kind === "agent-plugin" || (source.kind === "package" && source.is_folder);
  if (is_folder && options.editable === true) {
    assertNoArgs(args, text);
    return await linkFolder(context, options, source.path, text);
  }
  if (source.kind === "agent-plugin")
    return await installServers(context, options, text, args, { path: source.path, is_folder: true });
  assertNoArgs(args, text);
  assertNoAllowFlags(options, text);
  if (options.bind === false || source.kind !== "package" || !bindsAutomatically(source))
    assertNoBindingFlags(options, text);
  if (source.kind === "package") return await installPackage(context, options, text, source);
  if (options.bind === true) throw wrongFlagError("--bind", "packages", text);
  return await installKernelPlugin(context, source.source, options);
}

/** A dry run neither links a folder nor runs code of the source, so the flags for that are usage errors. */
function assertDryRunFlags(options: InstallOptions & { editable?: boolean }, text: string): void {
  const flag =
    options.editable === true
      ? "--editable"
      : options.allowScripts !== undefined
        ? "--allow-scripts"
        : options.allowBuild === undefined
          ? null
          : "--allow-build";
  if (flag === null) return;
  const reason = flag === "--editable" ? "links a folder" : "runs code of the package";
  throw new BackplaneError("cli.usage", `${flag} ${reason}, which a dry run does not do.`, {
    fix: `backplane plugin install ${text} --dry-run`,
  });
}

/** Only the dependencies of servers from a registry have scripts or builds to allow. */
function assertNoAllowFlags({ allowScripts, allowBuild }: InstallOptions, text: string): void {
  if (allowScripts !== undefined) throw wrongFlagError("--allow-scripts", "MCP servers from npm", text);
  if (allowBuild !== undefined)
    throw wrongFlagError("--allow-build", "MCP servers from the Python index", text);
}

/**
 * The package.json of an npm package determines whether it is a kernel plugin. It is not read if there are arguments or
 * --allow-scripts, because only servers take those.
 */
async function installNpm(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  spec: string,
  args: string[],
): Promise<number> {
  if (options.editable === true) throw wrongFlagError("--editable", "local folders", text);
  if (args.length === 0 && options.allowScripts === undefined) {
    const { kind, plugins } = await context
      .client()
      .installations.inspect({ kind: "npm", spec })
      .catch((error: unknown) => {
        throw codeOf(error) === "request.cancelled" ? interruptedInstallationError(error, spec) : error;
      });
    if (kind === "kernel_plugins") {
      assertNoBindingFlags(options, text);
      if (options.bind === true) throw wrongFlagError("--bind", "packages", text);
      return await installKernelPlugin(context, spec, options, plugins);
    }
  }
  return await installServers(context, options, text, [], {
    gateway_source: { kind: "npm", spec, args },
    label: spec,
  });
}

/** A package from an OCI registry or the marketplace is not a server, and its bindings get their settings later. */
function assertNoServerFlags(
  options: InstallOptions & { editable?: boolean },
  text: string,
  args: readonly string[],
): void {
  assertNoArgs(args, text);
  if (options.editable === true) throw wrongFlagError("--editable", "local folders", text);
  assertNoAllowFlags(options, text);
  assertNoBindingFlags(options, text);
}

async function installCard(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  id: string,
  args: readonly string[],
): Promise<number | undefined> {
  assertNoServerFlags(options, text, args);
  const { bind, org_wide, dry_run } = await readInstallationSettings(context, options);
  return await reportInstallation(
    context,
    await installEntry(context, id, { bind, org_wide, dry_run }, { asks: dry_run !== true }),
  );
}

async function installFromRegistry(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  reference: string,
  args: readonly string[],
): Promise<number | undefined> {
  assertNoServerFlags(options, reference, args);
  const settings = await readInstallationSettings(context, options);
  const source = { gateway_source: { kind: "oci", reference } as const, label: reference };
  return await reportInstallation(context, await sendInstallation(context, source, settings));
}

async function installPackage(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  source: Extract<PluginSource, { kind: "package" }>,
): Promise<number | undefined> {
  if (options.editable === true) throw wrongFlagError("--editable", "local folders", text);
  const signature = readSignatureFile(context.io.cwd, source.path, options.signature);
  const settings = {
    ...(await readInstallationSettings(context, options)),
    ...(signature === undefined ? {} : { signature }),
  };
  return await reportInstallation(context, await sendInstallation(context, source, settings));
}

/** Installs MCP servers, or Agent Plugins with their skills. */
async function installServers(
  context: CommandContext,
  options: InstallOptions & { editable?: boolean },
  text: string,
  args: readonly string[],
  source: LocalOrGatewaySource,
): Promise<number> {
  assertServerFlags(options, text);
  assertNoArgs(args, text);
  const settings = await readInstallationSettings(context, options);
  const source_with_slots = addSecretSlots(source, Object.keys(options.secret ?? {}));
  const server_args =
    "gateway_source" in source && "args" in source.gateway_source ? (source.gateway_source.args ?? []) : [];
  return await reportInstallation(
    context,
    await sendInstallation(context, source_with_slots, settings),
    server_args,
  );
}

/** Each secret in the flags becomes a slot of the server, even if the server is not bound yet. */
function addSecretSlots(source: LocalOrGatewaySource, secret_slots: string[]): LocalOrGatewaySource {
  if (
    !("gateway_source" in source) ||
    source.gateway_source.kind === "folder" ||
    source.gateway_source.kind === "oci"
  )
    return source;
  return { ...source, gateway_source: { ...source.gateway_source, secret_slots } };
}

function missingSourceError(url: string | undefined): BackplaneError {
  if (url === undefined)
    return new BackplaneError("cli.usage", "No source to install was specified.", {
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
  if (options.editable === true) throw wrongFlagError("--editable", "local folders of plugins", text);
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
  if (options.bind === false)
    throw new BackplaneError("cli.usage", "--no-bind has no effect together with --editable.", {
      fix: `backplane plugin install ${text} --editable`,
    });
  const flag = findBindingFlag(options);
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
    `To change settings: backplane binding set (backplane binding list shows the bindings). To unlink the folder: backplane workspace untrust ${text}`,
  );
  return undefined;
}

function wrongFlagError(flag: string, applies_to: string, source: string): BackplaneError {
  return new BackplaneError("cli.usage", `${flag} is only for ${applies_to}; ${source} is not one of them.`, {
    fix: `backplane plugin install ${source}`,
  });
}

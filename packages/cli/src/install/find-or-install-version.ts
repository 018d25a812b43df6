/** Finds the target version of an upgrade or a replay, and installs it, without bindings, if the target is a source. */
import { BackplaneError, definedFields, type Installation, type Package } from "@backplane/contract";
import { listScopeBindings } from "../bindings/list-scope-bindings.ts";
import type { CommandContext } from "../context/context.ts";
import { findInstalledPackage } from "../packages/find-package.ts";
import { installEntry } from "./install-entry.ts";
import type { InstallOptions } from "./installation-settings.ts";
import { type PluginSource, readPluginSource } from "./plugin-source.ts";
import { type LocalOrGatewaySource, sendInstallation } from "./send-installation.ts";

const VERSION = /^\d+\.\d+\.\d+(?:[-+].*)?$/;

interface VersionOptions extends Pick<InstallOptions, "allowScripts" | "allowBuild"> {
  /** The version is for the bindings of the whole organization. */
  orgWide?: boolean;
}

/** `target` is an installed version, or a source as in `plugin install`. */
export async function findOrInstallVersion(
  context: CommandContext,
  package_id: string,
  target: string,
  options: VersionOptions = {},
): Promise<Package> {
  if (VERSION.test(target)) return await findInstalledPackage(context, `${package_id}@${target}`);
  const { packages } = await installVersion(context, package_id, target, options);
  const match = packages.find(({ package: installed }) => installed.package_id === package_id);
  if (match !== undefined) return match.package;
  const names = packages.map(({ package: installed }) => installed.package_id).join(", ");
  throw new BackplaneError("cli.usage", `${target} contains ${names}, not ${package_id}.`, {
    fix: `Use the name of the package in the source: ${names}`,
  });
}

async function installVersion(
  context: CommandContext,
  package_id: string,
  target: string,
  options: VersionOptions,
): Promise<Installation> {
  const source = readPluginSource(context.io.cwd, target);
  // Nobody is asked here, because nothing is bound, and an upgrade asks before it moves the bindings.
  if (source.kind === "marketplace")
    return await installEntry(context, source.id, { bind: false }, { asks: false });
  const args = source.kind === "image" ? await readBoundArgs(context, package_id, options) : [];
  const settings = definedFields({ allow_scripts: options.allowScripts, allow_builds: options.allowBuild });
  return await sendInstallation(context, toInstallSource(source, target, args), { bind: false, ...settings });
}

/** Arguments change the command that an image starts, so its next version is installed with the same ones. */
async function readBoundArgs(
  context: CommandContext,
  package_id: string,
  options: VersionOptions,
): Promise<string[]> {
  const bound = await listScopeBindings(context, package_id, options);
  const args = bound.map(({ config }) => config.args).find((value) => Array.isArray(value));
  return (args ?? []).map(String);
}

function toInstallSource(source: PluginSource, text: string, args: string[]): LocalOrGatewaySource {
  if (source.kind === "package") return source;
  if (source.kind === "npm")
    return { gateway_source: { kind: "npm", spec: source.spec }, label: source.spec };
  if (source.kind === "pypi")
    return { gateway_source: { kind: "pypi", spec: source.spec }, label: source.spec };
  if (source.kind === "oci")
    return { gateway_source: { kind: "oci", reference: source.reference }, label: source.reference };
  if (source.kind === "image")
    return { gateway_source: { kind: "image", reference: source.reference, args }, label: source.reference };
  if (source.kind === "agent-plugin") return { path: source.path, is_folder: true };
  throw new BackplaneError("cli.usage", `${text} is not a version of a package.`, {
    fix: "Use a version, a folder, an archive, npm:NAME@VERSION, pypi:NAME==VERSION, oci://HOST/NAME:TAG, image:NAME:TAG or marketplace:ID.",
  });
}

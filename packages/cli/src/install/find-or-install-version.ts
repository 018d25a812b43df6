/** Finds the target version of an upgrade or a replay, and installs it, without bindings, if the target is a source. */
import { BackplaneError, definedFields, type Package } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { findInstalledPackage } from "../packages/find-package.ts";
import type { InstallOptions } from "./installation-settings.ts";
import { readPluginSource } from "./plugin-source.ts";
import { type LocalOrGatewaySource, sendInstallation } from "./send-installation.ts";

const VERSION = /^\d+\.\d+\.\d+(?:[-+].*)?$/;

/** `target` is an installed version, or a source as in `plugin install`. */
export async function findOrInstallVersion(
  context: CommandContext,
  package_id: string,
  target: string,
  { allowScripts, allowBuild }: Pick<InstallOptions, "allowScripts" | "allowBuild"> = {},
): Promise<Package> {
  if (VERSION.test(target)) return await findInstalledPackage(context, `${package_id}@${target}`);
  const settings = definedFields({ allow_scripts: allowScripts, allow_builds: allowBuild });
  const source = toInstallSource(context, target);
  const { packages } = await sendInstallation(context, source, { bind: false, ...settings });
  const match = packages.find(({ package: installed }) => installed.package_id === package_id);
  if (match !== undefined) return match.package;
  const names = packages.map(({ package: installed }) => installed.package_id).join(", ");
  throw new BackplaneError("cli.usage", `${target} contains ${names}, not ${package_id}.`, {
    fix: `Use the name of the package in the source: ${names}`,
  });
}

function toInstallSource({ io }: CommandContext, text: string): LocalOrGatewaySource {
  const source = readPluginSource(io.cwd, text);
  if (source.kind === "package") return source;
  if (source.kind === "npm")
    return { gateway_source: { kind: "npm", spec: source.spec }, label: source.spec };
  if (source.kind === "pypi")
    return { gateway_source: { kind: "pypi", spec: source.spec }, label: source.spec };
  if (source.kind === "oci")
    return { gateway_source: { kind: "oci", reference: source.reference }, label: source.reference };
  if (source.kind === "agent-plugin") return { path: source.path, folder: true };
  throw new BackplaneError("cli.usage", `${text} is not a version of a package.`, {
    fix: "Use a version, a folder, an archive, npm:NAME@VERSION, pypi:NAME==VERSION or oci://HOST/NAME:TAG.",
  });
}

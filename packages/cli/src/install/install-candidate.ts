/** Finds the version that an upgrade or a replay is about, and installs it, without bindings, if a source is given. */
import { BackplaneError, definedFields, type Package } from "@backplane/contract";
import { findInstalledPackage } from "../bindings/find-package.ts";
import type { CommandContext } from "../context/context.ts";
import type { InstallOptions } from "./installation-settings.ts";
import { readPluginSource } from "./plugin-source.ts";
import { type SentSource, sendInstallation } from "./send-installation.ts";

const VERSION = /^\d+\.\d+\.\d+(?:[-+].*)?$/;

/** `candidate` is an installed version, or a source as in `plugin install`. */
export async function installCandidate(
  context: CommandContext,
  package_id: string,
  candidate: string,
  { allowScripts, allowBuild }: Pick<InstallOptions, "allowScripts" | "allowBuild"> = {},
): Promise<Package> {
  if (VERSION.test(candidate)) return await findInstalledPackage(context, `${package_id}@${candidate}`);
  const settings = definedFields({ allow_scripts: allowScripts, allow_builds: allowBuild });
  const source = toSentSource(context, candidate);
  const { packages } = await sendInstallation(context, source, { bind: false, ...settings });
  const match = packages.find(({ package: installed }) => installed.package_id === package_id);
  if (match !== undefined) return match.package;
  const names = packages.map(({ package: installed }) => installed.package_id).join(", ");
  throw new BackplaneError("cli.usage", `${candidate} is ${names}, not ${package_id}.`, {
    fix: `Use the name of the package in the source: ${names}`,
  });
}

function toSentSource({ io }: CommandContext, text: string): SentSource {
  const source = readPluginSource(io.cwd, text);
  if (source.kind === "package") return source;
  if (source.kind === "npm") return { named: { kind: "npm", spec: source.spec }, label: source.spec };
  if (source.kind === "pypi") return { named: { kind: "pypi", spec: source.spec }, label: source.spec };
  if (source.kind === "oci")
    return { named: { kind: "oci", reference: source.reference }, label: source.reference };
  if (source.kind === "agent-plugin") return { path: source.path, folder: true };
  throw new BackplaneError("cli.usage", `${text} is not a version of a package.`, {
    fix: "Use a version, a folder, an archive, npm:NAME@VERSION, pypi:NAME==VERSION or oci://HOST/NAME:TAG.",
  });
}

/** Finds a package by its record id (`pkg_…`) or by `publisher/name[@version]`; the API accepts only record ids. */
import { BackplaneError, type Package } from "@backplane/contract";
import type { CommandContext } from "../context/context.ts";
import { listAll } from "../context/page.ts";

export async function findInstalledPackage(context: CommandContext, name: string): Promise<Package> {
  const client = context.client();
  if (name.startsWith("pkg_")) return client.packages.get(name);
  const { package_id, version } = parsePackageName(name);
  const matches = (await listAll((page) => client.packages.list(page))).filter(
    (item) => item.package_id === package_id && (version ?? item.version) === item.version,
  );
  if (matches.length === 1) return matches[0]!;
  if (matches.length === 0)
    throw new BackplaneError("package.not_found", `Package ${name} is not installed.`);
  const versions = matches.map((item) => item.version).join(", ");
  throw new BackplaneError("cli.usage", `${package_id} is installed in several versions: ${versions}.`, {
    // The most recently installed version is listed first.
    fix: `Add a version, for example ${package_id}@${matches[0]!.version}.`,
  });
}

/** Parses `acme/devkit@0.1.0`; the version is optional. */
export function parsePackageName(text: string): { package_id: string; version: string | undefined } {
  const at = text.indexOf("@");
  if (at === 0 || at === text.length - 1) {
    throw new BackplaneError("cli.usage", `${text} is not a valid package name.`, {
      fix: "Write acme/devkit or acme/devkit@0.1.0.",
    });
  }
  return at === -1
    ? { package_id: text, version: undefined }
    : { package_id: text.slice(0, at), version: text.slice(at + 1) };
}

/**
 * Creates a package from an MCP server of the npm registry. The whole dependency tree is resolved, locked and installed
 * without running any of its code, except for install scripts that the operator allows. The package contains these
 * files, the lock and a manifest.
 */
import { lstat, mkdir, readFile, realpath, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { join, posix, relative, sep } from "node:path";
import { BackplaneError, PLUGIN_ENTRY_GROUP } from "@backplane/contract";
import { type InstallScripts, type Operation, requireNotCancelled } from "@backplane/ports";
import { checkListing } from "../../archive/check-listing.ts";
import { SERVER_UNPACK_LIMITS } from "../../archive/limits.ts";
import { unpackArchive } from "../../archive/unpack-archive.ts";
import { refuseOwnCredentials } from "../../credentials/refuse-credentials.ts";
import { MANIFEST_FILE } from "../../manifest/read-manifest.ts";
import {
  type AllowedScripts,
  findInstallScripts,
  replaceFile,
  runScripts,
  type ScriptedPackage,
  skippedScriptsNote,
} from "../../npm/install-scripts.ts";
import { validateInstallSource } from "../../npm/install-source.ts";
import type { Npm } from "../../npm/npm-command.ts";
import { npmInstall, type RequestedPackage } from "../../npm/npm-install.ts";
import type { PackageJson } from "../../npm/package-json.ts";
import { packTar } from "../../pack/pack-folder.ts";
import { type FoundTree, findFiles, mapConcurrently, readTreeFile } from "../../tree/read-tree.ts";
import { listTree, type TreeFile, type TreeListing } from "../../tree/tree-listing.ts";
import type { NpmServerSource } from "../parts/source-content.ts";
import { buildServerManifest, toPackageId } from "./server-manifest.ts";

/** Files of npm that contain times; the same tree must have the same digest. */
const EXCLUDED = /(?:^|\/)node_modules\/(?:\.package-lock\.json|\.cache\/.*)$/;

/** Links to programs, which npm and node-gyp leave behind when scripts run. The package does not contain them. */
const TOOL_LINK = /(?:^|\/)(?:node_modules\/\.bin|build\/node_gyp_bins)\/[^/]+$/;

export interface NpmServerOptions extends NpmServerSource {
  allowed: AllowedScripts;
  /** Null if scripts cannot run here. */
  scripts: InstallScripts | null;
  note: (text: string) => void;
  /** Throws if the package must not be installed. */
  accept?: RequestedPackage["accept"];
}

/**
 * Creates the package in the folder `tree`, which does not exist yet. The files stay where npm wrote them, because
 * copying them would take as long as fetching them. A tree that install scripts have changed is copied, because a
 * script may have linked its files or changed their owner.
 */
export async function buildNpmServer(
  npm: Npm,
  { spec, program, secret_slots, allowed, scripts, note, accept }: NpmServerOptions,
  tree: string,
  operation: Operation,
): Promise<TreeListing> {
  const source = validateInstallSource(spec);
  if (source.kind !== "npm") {
    throw new BackplaneError("plugin.source_invalid", `${spec} is not the name of an npm package.`);
  }
  await mkdir(tree);
  await writeFile(join(tree, "package.json"), `${JSON.stringify({ name: "mcp-server", private: true })}\n`);
  await npmInstall(npm, tree, { ...source, ...(accept === undefined ? {} : { accept }) }, operation);
  const install_scripts = await findInstallScripts(tree);
  const selected = allowed.select(install_scripts);
  const skipped = install_scripts.filter((script) => !selected.includes(script));
  if (skipped.length > 0) note(skippedScriptsNote(spec, skipped));
  await refuseOwnCredentials(join(tree, "node_modules", source.name), "npm package", operation);
  // The manifest is built before the scripts run, because they could change the files that it is built from.
  const manifest = await buildManifest(tree, source.name, secret_slots, selected, program);
  if (selected.length > 0) {
    const script_tree = `${tree}-scripts`;
    await rename(tree, script_tree);
    await runScripts(scripts, script_tree, selected, await npm.findCli(), operation);
    await replaceFile(script_tree, MANIFEST_FILE, manifest);
    const listing = await listFiles(
      script_tree,
      await findFiles(script_tree),
      spec,
      { ignore_tool_links: true },
      operation,
    );
    const copied = await unpackArchive(
      packTar(() => script_tree, listing),
      tree,
      SERVER_UNPACK_LIMITS,
    );
    await rm(script_tree, { recursive: true });
    return copied;
  }
  await replaceFile(tree, MANIFEST_FILE, manifest);
  const files = await findFiles(tree);
  const listing = await listFiles(tree, files, spec, { ignore_tool_links: false }, operation);
  checkListing(listing.files, SERVER_UNPACK_LIMITS);
  await removeUnlisted(tree, files, listing);
  return listing;
}

/** Lists the files of the package. With `ignore_tool_links`, links to build tools are ignored instead of refused. */
async function listFiles(
  dir: string,
  found: FoundTree,
  spec: string,
  { ignore_tool_links }: { ignore_tool_links: boolean },
  operation: Operation,
): Promise<TreeListing> {
  const all = await requireRegularFiles(dir, found, spec, ignore_tool_links);
  const files = all.filter((path) => !EXCLUDED.test(path));
  return listTree(await readFiles(dir, files, spec, operation));
}

/** Removes files that are not part of the package, and empty folders. */
async function removeUnlisted(
  dir: string,
  { files, irregular }: FoundTree,
  listing: TreeListing,
): Promise<void> {
  const listed_paths = new Set(listing.files.map(({ path }) => path));
  const removed = files.filter((path) => !listed_paths.has(path));
  for (const path of removed) await rm(join(dir, path));
  for (const folder of [...removed.map((path) => posix.dirname(path)), ...irregular])
    await removeEmptyFolders(dir, folder);
}

/** Removes the folder and those above it, up to the first one with content. */
async function removeEmptyFolders(dir: string, path: string): Promise<void> {
  for (let folder = path; folder !== "."; folder = posix.dirname(folder)) {
    try {
      await rmdir(join(dir, folder));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The folder has other content, or was removed after an earlier file.
      if (code === "ENOTEMPTY" || code === "EEXIST" || code === "ENOENT") return;
      throw error;
    }
  }
}

async function readFiles(
  dir: string,
  files: readonly string[],
  spec: string,
  operation: Operation,
): Promise<TreeFile[]> {
  let done = 0;
  return await mapConcurrently(files, async (path) => {
    requireNotCancelled(operation);
    const file = await readTreeFile(dir, path);
    done += 1;
    const message = `Computing the digest of ${spec}`;
    operation.report({ step: "verify", message, done, total: files.length, unit: "files" });
    return file;
  });
}

async function buildManifest(
  dir: string,
  name: string,
  secret_slots: readonly string[],
  scripts: readonly ScriptedPackage[],
  requested_program: string | undefined,
): Promise<string> {
  const package_folder = join(dir, "node_modules", name);
  const manifest = JSON.parse(await readFile(join(package_folder, "package.json"), "utf8")) as PackageJson;
  if (manifest[PLUGIN_ENTRY_GROUP] !== undefined) {
    throw unusable(
      name,
      "it is a kernel plugin",
      `Install it without arguments: backplane plugin install npm:${name}`,
    );
  }
  selectProgram(name, manifest, requested_program);
  const program = await locateProgram(dir, package_folder, name, manifest);
  const { package_id, version } = describeServer(name, manifest);
  return buildServerManifest({
    package_id,
    version: appendScriptNames(version, scripts),
    name,
    ...optional("description", stringOrUndefined(manifest.description)),
    ...optional("license", stringOrUndefined(manifest.license)),
    source: [
      `npm:${name}@${stringOrUndefined(manifest.version) ?? ""}`,
      ...(scripts.length === 0 ? [] : [`install scripts: ${scripts.map(formatVersion).join(", ")}`]),
    ].join("; "),
    runtime: { protocol: "mcp.stdio", entrypoint: ["node", program] },
    secret_slots,
  });
}

export function describeServer(name: string, manifest: PackageJson): { package_id: string; version: string } {
  const [publisher, short] = name.startsWith("@")
    ? (name.slice(1).split("/") as [string, string])
    : ["npm", name];
  return {
    package_id: toPackageId(publisher, short),
    version: stringOrUndefined(manifest.version) ?? "0.0.0",
  };
}

const USE_SERVER_PACKAGE = "Specify the package that the server's instructions run with npx, not a library.";

/**
 * Like npx, returns the path of the program that is named like the package, or of the only program. A package is
 * installed once, whichever program a command starts, so a command that starts another program is refused.
 */
export function selectProgram(name: string, { bin }: PackageJson, requested_program?: string): string {
  const programs: [string, unknown][] =
    typeof bin === "string" ? [[name, bin]] : Object.entries((bin ?? {}) as Record<string, unknown>);
  const short = name.slice(name.lastIndexOf("/") + 1);
  const [program, path] =
    programs.find(([known]) => known === short) ?? (programs.length === 1 ? programs[0]! : []);
  if (typeof path === "string") {
    if (requested_program === undefined || requested_program === short || requested_program === program)
      return path;
    throw unusable(
      name,
      `the command starts its program ${JSON.stringify(requested_program)}, but only ${program} can be started`,
      USE_SERVER_PACKAGE,
    );
  }
  const names = programs.map(([known]) => known).join(", ");
  throw unusable(
    name,
    names === "" ? "it has no program to start" : `it has several programs: ${names}`,
    USE_SERVER_PACKAGE,
  );
}

async function locateProgram(
  dir: string,
  package_folder: string,
  name: string,
  manifest: PackageJson,
): Promise<string> {
  const path = selectProgram(name, manifest);
  const file = await realpath(join(package_folder, path)).catch(() => null);
  const root = await realpath(dir);
  if (file === null || !file.startsWith(root + sep))
    throw unusable(name, `its program ${path} is not in the package`);
  return `./${posix.join(...relative(root, file).split(sep))}`;
}

/**
 * The same version has different content with and without scripts, so the names become build metadata of the version.
 * A binding can then move from one version to the other.
 */
function appendScriptNames(version: string, scripts: readonly ScriptedPackage[]): string {
  if (scripts.length === 0) return version;
  const names = new Set(scripts.map(({ name }) => name.replace(/[^0-9A-Za-z-]+/g, "-").replace(/^-/, "")));
  return `${version}${version.includes("+") ? "." : "+"}scripts.${[...names].join(".")}`;
}

function formatVersion({ name, version }: ScriptedPackage): string {
  return `${name}@${version}`;
}

/** Refuses links and devices, because the package must not depend on files outside it. Empty folders are ignored. */
async function requireRegularFiles(
  dir: string,
  { files, irregular }: FoundTree,
  spec: string,
  ignore_tool_links: boolean,
): Promise<string[]> {
  for (const path of irregular) {
    if (ignore_tool_links && TOOL_LINK.test(path)) continue;
    if ((await lstat(join(dir, path))).isDirectory()) continue;
    throw unusable(spec, `${path} is neither a file nor a folder`);
  }
  return files;
}

function optional<K extends string>(key: K, value: string | undefined): { [P in K]?: string } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: string };
}

function stringOrUndefined(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function unusable(name: string, reason: string, fix?: string): BackplaneError {
  const message = `${name} cannot be installed as an MCP server: ${reason}.`;
  return new BackplaneError("package.invalid", message, fix === undefined ? {} : { fix });
}

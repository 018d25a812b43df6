/** Installs sources where discover.ts finds them, and removes installed plugins. Each operation is atomic. */
import { createHash, randomBytes } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError, diskFault, type PluginEntry } from "@backplane/contract";
import { type Operation, requireNotCancelled } from "@backplane/ports";
import { refuseOwnCredentials } from "../credentials/refuse-credentials.ts";
import type { InstallSource } from "../npm/install-source.ts";
import { NPM_FLAGS } from "../npm/npm-command.ts";
import { type LockedPackage, npmInstall } from "../npm/npm-install.ts";
import type { CheckProvenance } from "../provenance/check-provenance.ts";
import { copyFolder } from "./copy-folder.ts";
import { detectPathKind, type InspectOptions, inspectSource, requirePlugins } from "./inspect.ts";
import { folderPath, readLocalList, writeLocalList } from "./local-list.ts";
import { type NpmTree, withProvenance } from "./npm-tree.ts";
import { recordProvenance } from "./provenance-record.ts";
import { readArchive } from "./read-archive.ts";
import { readPluginPackage } from "./read-package.ts";

export interface InstallSourceOptions extends InspectOptions {
  tree: NpmTree;
  /** If absent, the provenance of packages is not checked. */
  provenance?: CheckProvenance;
  /** The plugins that are already installed. */
  listInstalled(): Promise<PluginEntry[]>;
}

/** The spec of an archive copy in the root package.json. */
const OWN_ARCHIVE = /^file:(?:\.\/)?archives\/[0-9a-f]+\.tgz$/;
const COPIES = "local";

export async function installSource(
  source: InstallSource,
  editable: boolean,
  options: InstallSourceOptions,
  operation: Operation,
): Promise<PluginEntry[]> {
  if (source.kind === "path" && (await detectPathKind(source.path)) === "folder") {
    return await installFolder(source.path, editable, options, operation);
  }
  if (editable) {
    throw new BackplaneError("plugin.source_invalid", "Only a local folder can be installed as editable.");
  }
  return await installPackage(source, options, operation);
}

async function installPackage(
  source: InstallSource,
  options: InstallSourceOptions,
  operation: Operation,
): Promise<PluginEntry[]> {
  // The name of a package in an archive is in its package.json.
  const name =
    source.kind === "npm" ? source.name : (await inspectSource(source, options, operation)).package_name;
  const read = async (dir: string) => {
    const declarations = await readPluginPackage(dir, {
      origin: "installed",
      source: name,
      conditions: options.conditions,
    });
    return requirePlugins(name, declarations).entries;
  };
  await options.tree.change(async (staging) => {
    let recorded: Parameters<typeof recordProvenance>[2] = null;
    const accept = async (locked: LockedPackage) => {
      const { provenance: check } = options;
      if (source.kind !== "npm" || check === undefined) return;
      const provenance = await check(locked, staging, operation);
      recorded = { version: locked.version, provenance };
    };
    const spec = source.kind === "npm" ? source.spec : await copyArchive(source.path, staging);
    const isOperatorArchive = (from: string) => OWN_ARCHIVE.test(from);
    const manifest = source.kind === "npm" ? null : (await readArchive(source.path)).manifest;
    await npmInstall(options.npm, staging, { name, spec, isOperatorArchive, manifest, accept }, operation);
    const credential_source = source.kind === "npm" ? "npm package" : "archive";
    await refuseOwnCredentials(join(staging, "node_modules", name), credential_source, operation);
    await recordProvenance(staging, name, recorded);
    await requireUnusedNames(await read(join(staging, "node_modules", name)), options);
    // After this check the staged copy replaces the tree.
    requireNotCancelled(operation);
    operation.report({ step: "store", message: `Storing ${name}` });
  });
  const entries = await read(join(options.plugins_dir, "node_modules", name));
  return await Promise.all(entries.map((entry) => withProvenance(options.tree, entry)));
}

/** Copies the archive next to node_modules, because later installs need it again. */
async function copyArchive(path: string, staging: string): Promise<string> {
  const digest = createHash("sha256")
    .update(await readFile(path))
    .digest("hex")
    .slice(0, 16);
  await mkdir(join(staging, "archives"), { recursive: true });
  await copyFile(path, join(staging, "archives", `${digest}.tgz`));
  return `./archives/${digest}.tgz`;
}

async function installFolder(
  path: string,
  editable: boolean,
  options: InstallSourceOptions,
  operation: Operation,
): Promise<PluginEntry[]> {
  const { conditions, plugins_dir } = options;
  operation.report({ step: "read", message: `Reading ${path}` });
  const { entries, package_name } = await inspectSource({ kind: "path", path }, options, operation);
  await requireUnusedNames(entries, options);
  const { folders, problem } = await readLocalList(plugins_dir);
  if (problem !== null) throw new BackplaneError("plugin.install_failed", `local.json: ${problem}.`);
  const others = folders.filter((folder) => (folder.from ?? folderPath(plugins_dir, folder)) !== path);
  if (editable) {
    requireNotCancelled(operation);
    operation.report({ step: "store", message: `Linking ${path}` });
    await writeLocalList(plugins_dir, [...others, { path, editable: true }]);
    return entries;
  }
  const copy = join(COPIES, `${entries[0]!.name}-${randomBytes(4).toString("hex")}`);
  const dir = join(plugins_dir, copy);
  const draft = `${dir}.new`;
  await mkdir(join(plugins_dir, COPIES), { recursive: true, mode: 0o700 });
  try {
    operation.report({ step: "unpack", message: `Copying ${path}` });
    await copyFolder(path, draft, operation);
    await refuseOwnCredentials(draft, "plugin folder", operation);
    await rename(draft, dir);
    const declarations = await readPluginPackage(dir, { origin: "local", source: path, conditions });
    const copied = requirePlugins(package_name || path, declarations).entries;
    requireNotCancelled(operation);
    operation.report({ step: "store", message: `Storing ${entries[0]!.name}` });
    await writeLocalList(plugins_dir, [...others, { path: copy, editable: false, from: path }]);
    return copied;
  } catch (error) {
    for (const path of [draft, dir]) await rm(path, { recursive: true, force: true });
    throw diskFault(error, "the gateway's home (plugins)") ?? error;
  }
}

/** If two packages provided the same plugin, it would be undefined which one runs. */
async function requireUnusedNames(
  entries: readonly PluginEntry[],
  options: InstallSourceOptions,
): Promise<void> {
  const installed = await options.listInstalled();
  for (const { name, origin, source } of entries) {
    const other = installed.find(
      (candidate) => candidate.name === name && candidate.origin === origin && candidate.source !== source,
    );
    if (other === undefined) continue;
    throw new BackplaneError("plugin.install_failed", `${name} is already a plugin of ${other.source}.`, {
      fix: `Remove it first: backplane plugin remove ${name}`,
    });
  }
}

/** Removes all plugins of the package. Their data stays. */
export async function removeEntry(entry: PluginEntry, options: InstallSourceOptions): Promise<void> {
  const { npm, plugins_dir, tree } = options;
  if (entry.origin === "bundled") {
    throw new BackplaneError("plugin.bundled", `${entry.name} is bundled and cannot be removed.`, {
      fix: `Disable it instead: backplane plugin disable ${entry.name}`,
    });
  }
  if (entry.origin === "installed") {
    await tree.change(async (staging) => {
      await npm.run(["uninstall", ...NPM_FLAGS, "--prefix", staging, "--", entry.source], staging);
    });
    return;
  }
  const { folders } = await readLocalList(plugins_dir);
  const removed = folders.filter((folder) => folderPath(plugins_dir, folder) === entry.dir);
  await writeLocalList(
    plugins_dir,
    folders.filter((folder) => !removed.includes(folder)),
  );
  for (const folder of removed) if (!folder.editable) await rm(entry.dir, { recursive: true, force: true });
}

/**
 * Removes copies that local.json does not list, because they were replaced or never completed. Call it only while no
 * plugin is running.
 */
export async function sweepCopies(plugins_dir: string): Promise<void> {
  const { folders, problem } = await readLocalList(plugins_dir);
  if (problem !== null) return;
  const used_folders = new Set(folders.map((folder) => folderPath(plugins_dir, folder)));
  for (const name of await readdir(join(plugins_dir, COPIES)).catch(() => [])) {
    const dir = join(plugins_dir, COPIES, name);
    if (!used_folders.has(dir)) await rm(dir, { recursive: true, force: true });
  }
}

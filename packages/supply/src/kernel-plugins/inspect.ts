/** Lists the plugins of a source, downloading it to a temporary folder if necessary. None of its code is executed. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { BackplaneError, PLUGIN_ENTRY_GROUP, type PluginEntry } from "@backplane/contract";
import type { Operation } from "@backplane/ports";
import { type InstallSource, isPackageName } from "../npm/install-source.ts";
import { NPM_FLAGS, type Npm } from "../npm/npm-command.ts";
import { watchNpm } from "../npm/npm-install.ts";
import { type ArchiveContents, readArchive } from "./read-archive.ts";
import {
  type FileLocator,
  type PluginDeclarations,
  readPackageJson,
  readPluginPackage,
} from "./read-package.ts";

export interface InspectedPackage {
  package_name: string;
  entries: PluginEntry[];
}

export interface InspectOptions {
  npm: Npm;
  plugins_dir: string;
  conditions: readonly string[];
}

export type PathKind = "folder" | "archive";

export async function inspectSource(
  source: InstallSource,
  options: InspectOptions,
  operation: Operation,
): Promise<InspectedPackage> {
  if (source.kind === "npm") {
    const archive = await readNpmPackage(options.npm, source.spec, operation);
    return await inspectArchive(archive, options);
  }
  if ((await detectPathKind(source.path)) === "archive") {
    return await inspectArchive(await readArchive(source.path), options);
  }
  const { conditions } = options;
  const declarations = await readPluginPackage(source.path, {
    origin: "local",
    source: source.path,
    conditions,
  });
  return requirePlugins(source.path, declarations);
}

/** A packed package as the registry serves it. */
export interface NpmArchive extends ArchiveContents {
  /** The hash of the archive, in the format of a lock file. */
  integrity: string;
}

/** Downloads a package from the registry and reads its package.json and file names. Nothing stays on disk. */
export async function readNpmPackage(npm: Npm, spec: string, operation: Operation): Promise<NpmArchive> {
  return await withTemporaryFolder(async (dir) => {
    const watch = watchNpm(operation, "read", `Reading ${spec} from the registry`);
    await npm.run(["pack", ...NPM_FLAGS, "--pack-destination", dir, "--", spec], dir, watch);
    const [archive] = (await readdir(dir)).filter((name) => name.endsWith(".tgz"));
    if (archive === undefined) throw failed(`npm did not create an archive for ${spec}.`);
    const file = join(dir, archive);
    const hash = createHash("sha512");
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
    return { ...(await readArchive(file)), integrity: `sha512-${hash.digest("base64")}` };
  });
}

export async function detectPathKind(path: string): Promise<PathKind> {
  const info = await stat(path).catch(() => null);
  if (info?.isDirectory()) return "folder";
  if (info?.isFile() && /\.(?:tgz|tar\.gz)$/.test(path)) return "archive";
  const description = info === null ? "There is nothing" : "There is neither a folder nor an archive (.tgz)";
  throw new BackplaneError("plugin.source_invalid", `${description} at ${path}.`);
}

/** Throws `plugin.invalid` with the first reason. */
export function requirePlugins(source: string, declarations: PluginDeclarations | null): InspectedPackage {
  const problem =
    declarations === null
      ? "it has no package.json"
      : declarations.has_section
        ? declarations.problems[0]
        : `its package.json has no ${PLUGIN_ENTRY_GROUP}`;
  if (problem !== undefined) {
    throw new BackplaneError("plugin.invalid", `${source} is not a kernel plugin: ${problem}.`);
  }
  return { package_name: declarations!.package_name ?? "", entries: declarations!.entries };
}

/** Lists the plugins of a packed package. Throws `plugin.invalid` with the first reason. */
export async function inspectArchive(
  { files, manifest }: ArchiveContents,
  { conditions, plugins_dir }: Pick<InspectOptions, "conditions" | "plugins_dir">,
): Promise<InspectedPackage> {
  if (manifest === null) return requirePlugins("The package", null);
  const name = nameOf(manifest);
  if (name === null) throw new BackplaneError("plugin.invalid", "The package.json has no valid name.");
  const dir = join(plugins_dir, "node_modules", name);
  const locate: FileLocator = async (path) => {
    const normalized = posix.normalize(path);
    if (files.has(normalized)) return { file: join(dir, normalized) };
    return { problem: `its module ${path} is not in the archive` };
  };
  return requirePlugins(
    "The package",
    await readPackageJson(manifest, dir, locate, { origin: "installed", conditions }),
  );
}

/** Null for text that is not JSON, a missing name, or one that npm would refuse: the name becomes part of a path. */
function nameOf(manifest: string): string | null {
  try {
    const { name } = JSON.parse(manifest) as { name?: unknown };
    return typeof name === "string" && isPackageName(name) ? name : null;
  } catch {
    return null;
  }
}

async function withTemporaryFolder<T>(work: (dir: string) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), "backplane-inspect-"));
  try {
    return await work(dir);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

function failed(message: string): BackplaneError {
  return new BackplaneError("plugin.install_failed", message);
}

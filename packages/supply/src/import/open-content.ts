/**
 * Finds out what a source contains. A folder with a manifest is a package, whatever else it contains; then come kernel
 * plugins, Agent Plugins and the other formats of packages.
 */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  BackplaneError,
  isObject,
  isSelfDescribing,
  type Manifest,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import type { ImportedPackage, InstallationSource, Operation } from "@backplane/ports";
import type { Staging } from "../content/content-store.ts";
import { inspectArchive, readNpmPackage, requirePlugins } from "../kernel-plugins/inspect.ts";
import { declaresPlugins, readPluginPackage } from "../kernel-plugins/read-package.ts";
import { conditionsOf } from "../kernel-plugins/resolve-module.ts";
import { MANIFEST_FILE } from "../manifest/read-manifest.ts";
import { validateInstallSource } from "../npm/install-source.ts";
import type { Npm } from "../npm/npm-command.ts";
import type { PackageJson } from "../npm/package-json.ts";
import type { CheckProvenance } from "../provenance/check-provenance.ts";
import type { Pip } from "../pypi/pip-command.ts";
import { parsePythonRequirement } from "../pypi/requirement.ts";
import { buildCommand, findVersion } from "../pypi/resolve-wheels.ts";
import type { TreeListing } from "../tree/tree-listing.ts";
import { openAgentPlugin } from "./agent-plugin/open-agent-plugin.ts";
import { AGENT_PLUGIN_FILE } from "./agent-plugin/read-agent-plugin.ts";
import {
  declareSlots,
  imageServerEntry,
  type McpServerEntry,
  npmServerEntry,
  pythonServerEntry,
  readMcpJson,
  remoteServerEntry,
} from "./mcp/mcp-json.ts";
import { describeServer, selectProgram } from "./mcp/npm-server.ts";
import { describePythonServer } from "./mcp/python-server.ts";
import { toServerContent } from "./mcp/server-part.ts";
import type { PartImporters, SourceContent } from "./parts/source-content.ts";

type ServerSource = Extract<InstallationSource, { kind: "npm" | "pypi" | "image" | "mcp_url" | "mcp_json" }>;

const PACKAGE_JSON = "package.json";
const MAX_JSON_BYTES = 1024 * 1024;

/** Lists the servers of a source. Nothing is downloaded before a part is imported. */
export function openServers(source: ServerSource, importers: PartImporters): SourceContent {
  const configured =
    source.kind === "mcp_json"
      ? readMcpJson(source.document, source.file)
      : {
          servers: [toServerEntry(source)],
          left_out: [],
        };
  const servers = configured.servers.map((server) => declareSlots(server, source.secret_slots));
  return toServerContent({ ...configured, servers }, importers);
}

function toServerEntry(source: Exclude<ServerSource, { kind: "mcp_json" }>): McpServerEntry {
  if (source.kind === "npm") return npmServerEntry(source.spec, source.args);
  if (source.kind === "pypi") return pythonServerEntry(source.spec, source.script, source.args);
  if (source.kind === "image") return imageServerEntry(source.reference, source.args);
  return remoteServerEntry(source.name, source.url, source.headers);
}

/** Downloads the package, without its dependencies, to find out whether it is a kernel plugin or a server. */
export async function inspectNpm(
  npm: Npm,
  source: Extract<InstallationSource, { kind: "npm" }>,
  operation: Operation,
  checkProvenance: CheckProvenance | undefined,
): Promise<SourceContent> {
  const valid = validateInstallSource(source.spec);
  if (valid.kind !== "npm")
    throw new BackplaneError("plugin.source_invalid", `${source.spec} is not the name of an npm package.`);
  const archive = await readNpmPackage(npm, valid.spec, operation);
  const text = archive.manifest ?? "{}";
  const verifyProvenance = async ({ version }: { version: string }) => {
    const locked = { name: valid.name, version, integrity: archive.integrity };
    const provenance = await checkProvenance?.(locked, tmpdir(), operation);
    return provenance === undefined ? {} : { provenance };
  };
  if (declaresPlugins(text)) {
    const options = { conditions: conditionsOf(process.execArgv), plugins_dir: "" };
    const { entries } = await inspectArchive(archive, options);
    const verified = await verifyProvenance(entries[0]!);
    const content = toPluginContent(entries);
    return { ...content, plugins: content.plugins!.map((plugin) => ({ ...plugin, ...verified })) };
  }
  const manifest = JSON.parse(text) as PackageJson;
  selectProgram(valid.name, manifest);
  const described = describeServer(valid.name, manifest);
  const verified = await verifyProvenance(described);
  const servers = [declareSlots(npmServerEntry(source.spec, source.args), source.secret_slots)];
  const content = toServerContent({ servers, left_out: [] }, NOT_IMPORTED);
  const parts = content.parts.map((part) => ({
    ...part,
    preview: { ...part.preview, name: valid.name, ...described, ...verified },
  }));
  return { ...content, parts };
}

/** Queries the index for the version, without the dependencies of the package. */
export async function inspectPython(
  pip: Pip,
  source: Extract<InstallationSource, { kind: "pypi" }>,
  operation: Operation,
): Promise<SourceContent> {
  const { name, requirement } = parsePythonRequirement(source.spec);
  const dir = await mkdtemp(join(tmpdir(), "backplane-pypi-"));
  try {
    const wanted = { name, requirements: [requirement], spec: source.spec };
    const { version, built } = await findVersion(pip, wanted, dir, operation);
    const content = openServers(source, NOT_IMPORTED);
    const described = { name, ...describePythonServer(name, version), source: `pypi:${name}==${version}` };
    const parts = content.parts.map((part) => ({ ...part, preview: { ...part.preview, ...described } }));
    const note = `${name} ${version} is published only as a source archive. To build it in the sandbox: ${buildCommand(source.spec, [name])}`;
    return { ...content, parts, notes: [...content.notes, ...(built ? [note] : [])] };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** A source that is only inspected is never imported. */
const unsupported = (): never => {
  throw new Error("an inspected source is not imported");
};
const NOT_IMPORTED: PartImporters = {
  npm: unsupported,
  pypi: unsupported,
  image: unsupported,
  bytes: unsupported,
  manifest: unsupported,
};

/** A folder of kernel plugins is recognized before it is packed, because it may contain a large node_modules. */
export async function readKernelPluginFolder(path: string): Promise<SourceContent | null> {
  const text = await readFile(join(path, PACKAGE_JSON), "utf8").catch(() => "");
  if (!declaresPlugins(text) || existsSync(join(path, MANIFEST_FILE))) return null;
  const options = { origin: "local", source: path, conditions: conditionsOf(process.execArgv) } as const;
  return toPluginContent(requirePlugins(path, await readPluginPackage(path, options)).entries);
}

/** Recognizes kernel plugins and Agent Plugins; null for a package. */
export async function findForeignContent(
  { tree }: Staging,
  listing: TreeListing,
  importers: PartImporters,
): Promise<SourceContent | null> {
  if (listing.files.some(({ path }) => path === MANIFEST_FILE)) return null;
  // `npm pack` puts everything into a folder named package.
  for (const folder of ["", "package/"]) {
    const text = await readListedText(tree, listing, `${folder}${PACKAGE_JSON}`);
    if (text === null || !declaresPlugins(text)) continue;
    const options = { origin: "local", conditions: conditionsOf(process.execArgv) } as const;
    const declarations = await readPluginPackage(join(tree, folder), options);
    return toPluginContent(requirePlugins("The archive", declarations).entries);
  }
  return isAgentPlugin(await readListedText(tree, listing, AGENT_PLUGIN_FILE))
    ? await openAgentPlugin(tree, importers)
    : null;
}

export async function readListedText(
  tree: string,
  { files }: TreeListing,
  path: string,
): Promise<string | null> {
  const listed_file = files.find((file) => file.path === path);
  if (listed_file === undefined || listed_file.size > MAX_JSON_BYTES) return null;
  return await readFile(join(tree, path), "utf8");
}

export function isAgentPlugin(text: string | null): boolean {
  try {
    const json: unknown = JSON.parse(text ?? "");
    return isObject(json) && typeof json.$schema === "string" && json.$schema.startsWith(AGENT_PLUGINS);
  } catch {
    return false;
  }
}

const AGENT_PLUGINS = "https://agent-plugins.org/";

function toPluginContent(entries: NonNullable<SourceContent["plugins"]>): SourceContent {
  const plugins = entries.map(({ name, version, category, source }) => ({ name, version, category, source }));
  return { kind: "kernel_plugins", parts: [], left_out: [], notes: [], plugins };
}

export function toPackageContent(
  manifest: Manifest,
  importPart: () => Promise<ImportedPackage>,
): SourceContent {
  const { name, package_id, version, runtime, exports } = manifest;
  const binds_whole_package = isSelfDescribing(runtime.protocol) || runtime.protocol === "skills";
  const permissions = [runtime.permissions, ...exports.map((item) => item.permissions)];
  const preview = {
    name,
    package_id,
    version,
    secret_slots: [...new Set(permissions.flatMap((item) => item?.secret_slots ?? []))],
    exports: binds_whole_package ? [WHOLE_PACKAGE] : exports.map(({ id }) => id),
    binds: isSelfDescribing(runtime.protocol),
    manifest,
  };
  const part = {
    kind: "package",
    name: package_id,
    registry: false,
    binding: {},
    preview,
    importPart,
  } as const;
  return { kind: "package", parts: [part], left_out: [], notes: [] };
}

/**
 * Imports an archive or a folder as an installed tree. A folder is packed first and then unpacked like an untrusted
 * archive, so there is one path for both. Order: unpack safely, digest, manifest, platform, schemas, entrypoint,
 * skills, install. A failure leaves nothing behind. Also opens sources with several parts, and packages in
 * registries.
 */
import { createReadStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, posix } from "node:path";
import {
  BackplaneError,
  dependencyLockOf,
  diskFault,
  editedVersion,
  type Provenance,
} from "@backplane/contract";
import {
  type ImportedPackage,
  type InstallationSource,
  type InstallScripts,
  type OpenOptions,
  type Operation,
  type PackageImporter,
  type PackageSource,
  requireNotCancelled,
  type Schemas,
  type SourceBuilds,
  unwatchedOperation,
} from "@backplane/ports";
import { UNPACK_LIMITS, type UnpackLimits } from "../archive/limits.ts";
import { unpackArchive } from "../archive/unpack-archive.ts";
import { type ContentStore, corruptPackage, type Staging } from "../content/content-store.ts";
import { createCredentialCheck } from "../credentials/scan-credentials.ts";
import type { HostPlatform } from "../manifest/host-platform.ts";
import { MANIFEST_FILE } from "../manifest/read-manifest.ts";
import { AllowedScripts } from "../npm/install-scripts.ts";
import { createNpm, type Npm } from "../npm/npm-command.ts";
import { isLayout, openLayoutArtifact } from "../oci/layout-artifact.ts";
import type { ArtifactSource } from "../oci/plugin-artifact.ts";
import { formatReference, type OciReference, parseReference, requireSameSource } from "../oci/reference.ts";
import { openRegistryArtifact } from "../oci/registry-artifact.ts";
import {
  createRegistryClient,
  type RegistryClient,
  type RegistryClientOptions,
} from "../oci/registry-client.ts";
import { requireSameFiles } from "../oci/require-same-files.ts";
import type { CheckProvenance } from "../provenance/check-provenance.ts";
import { AllowedBuilds } from "../pypi/allowed-builds.ts";
import { createPip, type Pip, PYPI_URL } from "../pypi/pip-command.ts";
import { readListed, readTreeFile } from "../tree/read-tree.ts";
import { listTree, type TreeListing } from "../tree/tree-listing.ts";
import { openAgentPlugin } from "./agent-plugin/open-agent-plugin.ts";
import { AGENT_PLUGIN_FILE } from "./agent-plugin/read-agent-plugin.ts";
import { createArtifactLookup } from "./artifact-lookup.ts";
import { checkEntrypoint, checkPlatform, checkSkills } from "./check-package.ts";
import { checkSchemaFiles } from "./check-schema-files.ts";
import type { PackageFormat, SourceHints } from "./formats/format.ts";
import { detectFormat, FORMATS } from "./formats/formats.ts";
import { imagePackage } from "./formats/image-package.ts";
import { toolFiles } from "./formats/tool-files.ts";
import { buildImageServer } from "./mcp/image-server.ts";
import { buildNpmServer, type NpmServerOptions } from "./mcp/npm-server.ts";
import { buildPythonServer, type PythonServerOptions } from "./mcp/python-server.ts";
import { readAcceptedArtifact, requireSameIdentity } from "./open-artifact.ts";
import {
  findForeignContent,
  inspectNpm,
  inspectPython,
  openServers,
  readKernelPluginFolder,
  toPackageContent,
} from "./open-content.ts";
import { openSource, readFolderSignature, type SourceArchive } from "./open-package-source.ts";
import type { ImageServerSource, PartImporters, SourceContent } from "./parts/source-content.ts";

const OCI_LAYOUT = { matchesNames: isLayout };

/** Recognizes a folder that may be an Agent Plugin. */
const AGENT_PLUGIN = { matchesNames: (names: readonly string[]) => names.includes(AGENT_PLUGIN_FILE) };

export interface PackageImporterOptions {
  store: ContentStore;
  schemas: Schemas;
  host: HostPlatform;
  npm?: Npm;
  pip?: Pip;
  /** If absent, the install scripts of npm packages never run. */
  scripts?: InstallScripts | null;
  /** If absent, no Python package is built from its source archive. */
  builds?: SourceBuilds | null;
  /** If absent, the provenance of npm packages is not checked. */
  provenance?: CheckProvenance;
  /** How OCI registries are reached. If absent, none can be used. */
  registries?: Omit<RegistryClientOptions, "credentials">;
  limits?: UnpackLimits;
}

interface StagedPackage extends Awaited<ReturnType<PackageFormat["read"]>> {
  staging: Staging;
  listing: TreeListing;
  starts_own_program: boolean;
}

/** The code of packages that the operator allows to run in the sandbox while they are installed. */
interface AllowedCode {
  scripts: AllowedScripts;
  builds: AllowedBuilds;
}

export function createPackageImporter({
  store,
  schemas,
  host,
  limits = UNPACK_LIMITS,
  npm = createNpm(),
  pip = createPip({ path: ["/usr/local/bin", "/usr/bin", "/bin"], index_url: PYPI_URL }),
  scripts = null,
  builds = null,
  provenance,
  registries,
}: PackageImporterOptions): PackageImporter {
  async function withStaging<T>(work: (staging: Staging) => Promise<T>): Promise<T> {
    const staging = await store.stage().catch(throwDiskFault);
    try {
      return await work(staging).catch(throwDiskFault);
    } finally {
      await staging.end();
    }
  }

  async function unpackChecked(
    bytes: AsyncIterable<Uint8Array>,
    { tree }: Staging,
    operation: Operation,
  ): Promise<TreeListing> {
    const credentials = createCredentialCheck();
    const listing = await unpackArchive(watchBytes(bytes, operation), tree, limits, credentials.scan);
    credentials.assertNone("archive");
    return listing;
  }

  async function readStaged(
    staging: Staging,
    listing: TreeListing,
    hints: SourceHints,
    fixed_format: PackageFormat | null,
  ): Promise<StagedPackage> {
    const format = fixed_format ?? detectFormat(listing);
    const read = await format.read(staging.tree, listing, hints);
    // The version of tool files already contains the digest.
    const edited = hints.changing === true && format !== toolFiles;
    const version = edited ? editedVersion(read.manifest.version, listing.digest) : read.manifest.version;
    const manifest = { ...read.manifest, version };
    return { ...read, manifest, staging, listing, starts_own_program: format.starts_own_program };
  }

  async function installStaged(
    { staging, listing, manifest, text, installed_at, starts_own_program }: StagedPackage,
    origin: ImportedPackage["origin"],
    created_at: string | null,
    operation: Operation,
  ): Promise<ImportedPackage> {
    operation.report({ step: "check", message: `Checking ${manifest.package_id} ${manifest.version}` });
    checkPlatform(manifest, host);
    const parsed = await checkSchemaFiles(staging.tree, listing, manifest, schemas);
    if (!starts_own_program) checkEntrypoint(manifest, listing, text);
    checkSkills(manifest, listing);
    requireNotCancelled(operation);
    await staging.install(listing, operation);
    return {
      digest: listing.digest,
      size_bytes: listing.size_bytes,
      manifest,
      schemas: parsed,
      origin,
      first_installed_at: installed_at ?? created_at,
      dependency_lock: dependencyLockOf(listing.files),
    };
  }

  const importTree = (
    { bytes, hints, created_at }: SourceArchive,
    origin: ImportedPackage["origin"],
    fixed_format: PackageFormat | null,
    operation: Operation,
  ): Promise<ImportedPackage> =>
    withStaging(async (staging) => {
      const listing = await unpackChecked(bytes, staging, operation);
      const staged = await readStaged(staging, listing, hints, fixed_format);
      return await installStaged(staged, origin, created_at, operation);
    });

  const importManifest = (text: string, hints: SourceHints, operation: Operation): Promise<ImportedPackage> =>
    withStaging(async (staging) => {
      await mkdir(staging.tree);
      await writeFile(join(staging.tree, MANIFEST_FILE), text);
      const listing = listTree([await readTreeFile(staging.tree, MANIFEST_FILE)]);
      const staged = await readStaged(staging, listing, hints, null);
      return await installStaged(staged, "upload", null, operation);
    });

  const importNpm = (
    options: Omit<NpmServerOptions, "accept">,
    operation: Operation,
  ): Promise<ImportedPackage> =>
    withStaging(async (staging) => {
      const { tree } = staging;
      let verified_provenance: Provenance | undefined;
      const accept: NpmServerOptions["accept"] = async (locked) => {
        verified_provenance = await provenance?.(locked, tree, operation);
      };
      const listing = await buildNpmServer(npm, { ...options, accept }, tree, operation);
      const staged = await readStaged(staging, listing, {}, null);
      const imported = await installStaged(staged, "npm", null, operation);
      return verified_provenance === undefined ? imported : { ...imported, provenance: verified_provenance };
    });

  const importPython = (options: PythonServerOptions, operation: Operation): Promise<ImportedPackage> =>
    withStaging(async (staging) => {
      const listing = await buildPythonServer(pip, host, options, staging.tree, operation);
      const staged = await readStaged(staging, listing, {}, null);
      return await installStaged(staged, "pypi", null, operation);
    });

  function openRegistry(findCredentials: OpenOptions["findRegistryCredentials"]): RegistryClient {
    if (registries === undefined)
      throw new BackplaneError("package.source_invalid", "This gateway does not use OCI registries.");
    return createRegistryClient({ ...registries, credentials: findCredentials ?? (async () => null) });
  }

  const importImage = (
    source: ImageServerSource,
    findCredentials: OpenOptions["findRegistryCredentials"],
    operation: Operation,
  ): Promise<ImportedPackage> =>
    withStaging(async (staging) => {
      const client = openRegistry(findCredentials);
      const notes: string[] = [];
      const note = (text: string) => void notes.push(text);
      try {
        const listing = await buildImageServer(client, host, source, staging.tree, operation, note);
        const staged = await readStaged(staging, listing, {}, imagePackage);
        return { ...(await installStaged(staged, "image", null, operation)), notes };
      } finally {
        client.close();
      }
    });

  const createPartImporters = (
    origin: ImportedPackage["origin"],
    allowed: AllowedCode,
    operation: Operation,
    { findRegistryCredentials, changing = false }: Pick<OpenOptions, "findRegistryCredentials" | "changing">,
  ): PartImporters => ({
    npm: async ({ spec, program, secret_slots }) => {
      const notes: string[] = [];
      const note = (text: string) => void notes.push(text);
      const options = { spec, program, secret_slots, allowed: allowed.scripts, scripts, note };
      return { ...(await importNpm(options, operation)), notes };
    },
    pypi: (source) => importPython({ ...source, allowed: allowed.builds, builds }, operation),
    image: (source) => importImage(source, findRegistryCredentials, operation),
    bytes: (bytes) => importTree({ bytes, hints: { changing }, created_at: null }, origin, null, operation),
    manifest: (text) => importManifest(text, { changing }, operation),
  });

  /** Unpacks a folder or an archive and determines what it contains. */
  async function unpackContent(
    source: Extract<InstallationSource, { kind: "archive" | "folder" }>,
    stage: () => Promise<Staging>,
    options: OpenOptions,
    allowed: AllowedCode,
    operation: Operation,
  ): Promise<SourceContent> {
    const { only, changing = false } = options;
    const origin = originOf(source);
    if (source.kind === "folder" && only === undefined) {
      const plugins = await readKernelPluginFolder(source.path);
      if (plugins !== null) return plugins;
    }
    const formats =
      only === "agent_plugin"
        ? [AGENT_PLUGIN]
        : [...FORMATS, OCI_LAYOUT, ...(only === undefined ? [AGENT_PLUGIN] : [])];
    const opened = await openSource(source, store, formats);
    const hints = { ...opened.hints, changing };
    const staging = await stage();
    const listing = await unpackChecked(opened.bytes, staging, operation);
    const importers = createPartImporters(origin, allowed, operation, options);
    if (only === "agent_plugin") return await openAgentPlugin(staging.tree, importers);
    if (isLayout(listing.files.map(({ path }) => path)))
      return await openArtifactContent(
        await openLayoutArtifact(staging.tree, listing),
        null,
        stage,
        options,
        operation,
      );
    const foreign = only === undefined ? await findForeignContent(staging, listing, importers) : null;
    if (foreign !== null) return foreign;
    const staged = await readStaged(staging, listing, hints, null);
    return toPackageContent(staged.manifest, async () => ({
      ...(await installStaged(staged, origin, opened.created_at, operation)),
      signatures: source.kind === "folder" ? readFolderSignature(source.path) : [],
    }));
  }

  /** Opens a package in a registry or, if `reference` is null, in a layout. */
  async function openArtifactContent(
    source: ArtifactSource,
    reference: OciReference | null,
    stage: () => Promise<Staging>,
    { acceptArtifact = async () => {}, accept_source = false }: OpenOptions,
    operation: Operation,
  ): Promise<SourceContent> {
    const artifact = await readAcceptedArtifact(source, host, limits, acceptArtifact);
    const staging = await stage();
    const file = await source.fetchFile(artifact.layer);
    const listing = await unpackChecked(createReadStream(file), staging, operation);
    requireSameFiles(artifact, listing);
    const staged = await readStaged(staging, listing, {}, null);
    requireSameIdentity(artifact, staged.manifest);
    if (reference !== null) requireSameSource(reference, staged.manifest.source, accept_source);
    const { manifest_digest, signatures } = artifact;
    const oci = { reference: reference === null ? null : formatReference(reference), manifest_digest };
    return toPackageContent(staged.manifest, async () => ({
      ...(await installStaged(staged, "oci", null, operation)),
      oci,
      signatures,
    }));
  }

  async function openRegistryContent(
    source: Extract<InstallationSource, { kind: "oci" }>,
    stage: () => Promise<Staging>,
    options: OpenOptions,
    operation: Operation,
  ): Promise<SourceContent> {
    const reference = parseReference(source.reference);
    const client = openRegistry(options.findRegistryCredentials);
    // The layer is downloaded into a staging folder of its own; its files are unpacked into another one.
    const folder = dirname((await stage()).tree);
    try {
      const artifact = openRegistryArtifact(client, reference, folder, operation);
      return await openArtifactContent(artifact, reference, stage, options, operation);
    } finally {
      client.close();
    }
  }

  async function openContent(
    source: InstallationSource,
    allowed: AllowedCode,
    operation: Operation,
    options: OpenOptions = {},
  ): Promise<{ content: SourceContent; end: () => Promise<void> }> {
    if (source.kind !== "archive" && source.kind !== "folder" && source.kind !== "oci")
      return {
        content: openServers(source, createPartImporters("upload", allowed, operation, options)),
        end: async () => {},
      };
    const stagings: Staging[] = [];
    const stage = async () => {
      const staging = await store.stage();
      stagings.push(staging);
      return staging;
    };
    const end = async () => {
      for (const staging of stagings.splice(0)) await staging.end();
    };
    try {
      const content =
        source.kind === "oci"
          ? await openRegistryContent(source, stage, options, operation)
          : await unpackContent(source, stage, options, allowed, operation);
      return { content, end };
    } catch (error) {
      await end();
      return throwDiskFault(error);
    }
  }

  return {
    ...createArtifactLookup(openRegistry, host),
    release: (digest) => store.release(digest),
    discard: (digest, isUsed) => store.discard(digest, isUsed),
    async listFiles(digest, folder) {
      const normalized = posix.normalize(`${folder}/`);
      const prefix = normalized === "./" ? "" : normalized;
      const files = await store.listFiles(digest);
      return files
        .filter(({ path }) => path.startsWith(prefix))
        .map(({ path }) => path.slice(prefix.length))
        .sort();
    },
    async readFile(digest, path, max_bytes) {
      // The path is untrusted: only listed files are part of the package.
      const normalized = posix.normalize(path);
      const listed = (await store.listFiles(digest)).find((file) => file.path === normalized);
      if (listed === undefined || listed.size > max_bytes) return null;
      const bytes = await readListed(store.treeOf(digest), listed);
      if (bytes === null) throw corruptPackage(digest, { file: normalized, what: "changed" });
      return bytes;
    },
    has: (digest) => store.has(digest),
    sweep: (isUsed, min_age_ms) => store.sweep(isUsed, min_age_ms),
    import: async (source) => {
      const operation = unwatchedOperation();
      if (source.kind === "npm") {
        const { spec, secret_slots } = source;
        const options = { spec, secret_slots, allowed: new AllowedScripts([]), scripts: null, note() {} };
        return await importNpm(options, operation);
      }
      const opened = await openSource(source, store);
      const fixed_format = source.kind === "workspace" ? toolFiles : null;
      return await importTree(opened, originOf(source), fixed_format, operation);
    },
    async open(source, options = {}) {
      const { operation = unwatchedOperation() } = options;
      const allowed = allowedCodeOf(options);
      const { content, end } = await openContent(source, allowed, operation, options);
      const { parts, plugins: _plugins, ...rest } = content;
      return {
        ...rest,
        parts,
        import: (part) =>
          parts
            .find((candidate) => candidate === part)!
            .importPart()
            .catch(throwDiskFault),
        assertAllowedFound() {
          allowed.scripts.assertFound();
          allowed.builds.assertFound();
        },
        end,
      };
    },
    async inspect(source, options = {}) {
      const { operation = unwatchedOperation() } = options;
      const noCleanup = async () => {};
      const { content, end } =
        source.kind === "npm"
          ? { content: await inspectNpm(npm, source, operation, provenance), end: noCleanup }
          : source.kind === "pypi"
            ? { content: await inspectPython(pip, source, operation), end: noCleanup }
            : // The source is only shown, so it may differ from the source in the manifest.
              await openContent(source, allowedCodeOf({}), operation, { ...options, accept_source: true });
      await end();
      const { kind, plugin, parts, plugins = [], left_out, notes } = content;
      return {
        kind,
        ...(plugin === undefined ? {} : { plugin }),
        packages: parts.map(({ preview }) => preview),
        plugins,
        left_out: [...left_out],
        notes: [...notes],
      };
    },
  };
}

function allowedCodeOf({ allow_scripts = [], allow_builds = [] }: OpenOptions): AllowedCode {
  return { scripts: new AllowedScripts(allow_scripts), builds: new AllowedBuilds(allow_builds) };
}

/** Reports the bytes of the archive that have been read, and throws `request.cancelled` after an abort. */
async function* watchBytes(
  bytes: AsyncIterable<Uint8Array>,
  operation: Operation,
): AsyncGenerator<Uint8Array, void> {
  let done = 0;
  for await (const chunk of bytes) {
    requireNotCancelled(operation);
    done += chunk.length;
    operation.report({ step: "unpack", message: "Unpacking", done, unit: "bytes" });
    yield chunk;
  }
}

function originOf(source: Pick<PackageSource, "kind"> & { whole?: boolean }): ImportedPackage["origin"] {
  if (source.kind === "archive") return "upload";
  if (source.kind === "npm") return "npm";
  return source.kind === "workspace" && !source.whole ? "workspace" : "folder";
}

function throwDiskFault(error: unknown): never {
  throw diskFault(error, "the gateway's home (blobs)") ?? error;
}

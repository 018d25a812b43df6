/** Manifests for tests, and an importer that installs them without archives. */
import { createHash } from "node:crypto";
import {
  BackplaneError,
  isSelfDescribing,
  type Json,
  type Manifest,
  type PluginExport,
  type SourceInspection,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { ManifestSchema } from "@backplane/contract/schema";
import type {
  ImportedPackage,
  InstallationSource,
  OpenedSource,
  OpenOptions,
  PackageImporter,
  PackageSource,
  StatedArtifact,
} from "@backplane/ports";

type Draft = Record<string, unknown> & { id: string };

export function toolExport(
  id: string,
  more: Record<string, unknown> = {},
  tool_fields: Record<string, unknown> = {},
): Draft {
  return { id, kind: "tool", tool: { effect_class: "read_only", ...tool_fields }, ...more };
}

export function hookExport(id: string, events: string[], more: Record<string, unknown> = {}): Draft {
  return { id, kind: "hook", hook: { subscribes_to: events }, ...more };
}

export function manifest(exports: Draft[], more: Record<string, unknown> = {}): Manifest {
  return ManifestSchema.parse({
    api_version: "vai.plugin.v1",
    package_id: "acme/devkit",
    version: "0.1.0",
    name: "Devkit",
    runtime: { protocol: "vai.rpc.v1", entrypoint: ["node", "plugin.js"] },
    exports: exports as unknown as PluginExport[],
    ...more,
  });
}

/** Imports manifests that the test provides instead of archives; digests are computed from their content. */
export class TestImporter implements PackageImporter {
  readonly #packages = new Map<string, ImportedPackage>();
  readonly discarded: string[] = [];
  sweep: NonNullable<PackageImporter["sweep"]> = async () => 0;
  has: NonNullable<PackageImporter["has"]> = async () => true;

  add(
    content: Manifest,
    schemas: Record<string, Json> = {},
    salt = "",
    source: Pick<ImportedPackage, "origin" | "oci"> = { origin: "folder" },
  ): { kind: "folder"; path: string } {
    const hash = createHash("sha256")
      .update(JSON.stringify([content, schemas, salt, source]))
      .digest("hex");
    this.#packages.set(hash, {
      digest: `sha256:${hash}`,
      size_bytes: 100,
      manifest: content,
      schemas,
      ...source,
      first_installed_at: null,
    });
    return { kind: "folder", path: hash };
  }

  async import(source: Pick<PackageSource, "kind"> & { path?: string }): Promise<ImportedPackage> {
    const pack = source.kind === "folder" ? this.#packages.get(source.path ?? "") : undefined;
    if (pack === undefined) throw new Error("the test has not added this package");
    return pack;
  }

  /** Every source is one package; only the supply module detects other contents. */
  async open(source: InstallationSource, { only }: OpenOptions = {}): Promise<OpenedSource> {
    if (only === "agent_plugin")
      throw new BackplaneError("package.invalid", "There are no Agent Plugins here.");
    const imported = await this.import(source as { kind: "folder"; path: string });
    const name = imported.manifest.package_id;
    return {
      kind: "package",
      parts: [{ kind: "package", name, registry: false, binding: {} }],
      left_out: [],
      notes: [],
      import: async () => imported,
      assertAllowedFound: () => {},
      end: async () => {},
    };
  }

  async inspect(source: InstallationSource): Promise<SourceInspection> {
    const { manifest } = await this.import(source as { kind: "folder"; path: string });
    const { package_id, version, runtime, exports } = manifest;
    const whole = isSelfDescribing(runtime.protocol);
    const preview = {
      name: package_id,
      package_id,
      version,
      secret_slots: [...(runtime.permissions?.secret_slots ?? [])],
      exports: whole ? [WHOLE_PACKAGE] : exports.map(({ id }) => id),
      binds: whole,
      manifest,
    };
    return { kind: "package", packages: [preview], plugins: [], left_out: [], notes: [] };
  }

  /** The tests that use a registry replace these two. */
  async listTags(_reference: string): Promise<string[]> {
    throw new Error("the test has no registry");
  }

  async readArtifact(_reference: string): Promise<StatedArtifact> {
    throw new Error("the test has no registry");
  }

  release(): void {}

  async discard(digest: string, used: () => Promise<boolean>): Promise<void> {
    if (!(await used())) this.discarded.push(digest);
  }

  /** Files by path; every package has the same files. */
  readonly texts = new Map<string, string>();

  async listFiles(_digest: string, folder: string): Promise<string[]> {
    const below = [...this.texts.keys()].filter((path) => path.startsWith(`${folder}/`));
    return below.map((path) => path.slice(folder.length + 1));
  }

  async readFile(_digest: string, path: string, max_bytes: number): Promise<Uint8Array | null> {
    const text = this.texts.get(path);
    return text === undefined || text.length > max_bytes ? null : new TextEncoder().encode(text);
  }
}

import type {
  BindingPolicy,
  Installation,
  Json,
  JsonObject,
  LeftOut,
  Manifest,
  NamedSource,
  Package,
  Provenance,
  SourceInspection,
} from "@backplane/contract";
import type { Operation } from "./operation.ts";

/** A package that was read from an archive or a folder, checked, and unpacked into the content store. */
export interface ImportedPackage {
  digest: string;
  size_bytes: number;
  manifest: Manifest;
  schemas: Record<string, Json>;
  origin: Package["origin"];
  /**
   * When the package was first installed anywhere: the time that the package states, or else the creation time of its
   * folder; null if both are unknown.
   */
  first_installed_at: string | null;
  oci?: NonNullable<Package["oci"]>;
  /** The id of the marketplace entry that it was installed from. */
  marketplace?: string;
  /** The content of signatures, unverified. */
  signatures?: readonly unknown[];
  /** The verified provenance of a package from the npm registry. */
  provenance?: Provenance;
  /** The lock files among its files. */
  dependency_lock?: readonly { path: string; sha256: string }[];
  /** Notes about the import for the operator, such as install scripts that did not run. */
  notes?: readonly string[];
}

/** Runs install scripts of npm packages in the sandbox, without network access or secrets. */
export interface InstallScripts {
  /**
   * `folder` contains the package.json and node_modules; scripts may change everything in it. Throws
   * `plugin.install_failed` with the end of the output, `sandbox.unavailable`, or `request.cancelled` after an abort.
   */
  run(request: {
    folder: string;
    packages: readonly string[];
    npm_cli: string;
    signal: AbortSignal;
  }): Promise<void>;
}

/** Runs the build backend of a Python source archive (PEP 517) in the sandbox, without network access or secrets. */
export interface SourceBuilds {
  /**
   * `folder` contains the files of the archive (`source`), its build requirements (`env`) and an empty folder `out`;
   * code of the archive may change everything in it. Afterwards `out` contains the wheel or, unless
   * `requirements_known`, the list of further build requirements (`requires.json`). Throws like `InstallScripts`.
   */
  run(request: {
    folder: string;
    /** The package, for messages. */
    name: string;
    python: string;
    backend: { module: string; attribute: string; path: readonly string[] };
    requirements_known: boolean;
    signal: AbortSignal;
    limit_ms?: number;
  }): Promise<void>;
}

export type PackageSource =
  | {
      kind: "archive";
      bytes: AsyncIterable<Uint8Array>;
      /** Name and creation time of the packed folder, which an archive does not contain. */
      name?: string;
      born_at?: string;
    }
  | { kind: "folder"; path: string }
  /** An MCP server from the npm registry with all dependencies; the operator specifies its `secret_slots`. */
  | { kind: "npm"; spec: string; secret_slots: readonly string[] }
  | WorkspaceSource;

/** Tool files used in place from a folder of this machine. */
export interface WorkspaceSource {
  kind: "workspace";
  path: string;
  /** The expected digest of the files; a mismatch throws `workspace.changed`. */
  digest: string;
  /** Whether the whole folder is used, or only its `tools` folder. */
  whole: boolean;
  /** Overrides the package id; null uses the name of the folder's files. The version is derived from the content. */
  package_id: string | null;
  /** Files taken from an installed tree instead, because the current ones do not load. */
  keep: { digest: string; files: readonly string[] } | null;
}

/** An uploaded archive. The importer detects its format. */
export type ArchiveSource = Extract<PackageSource, { kind: "archive" }>;

/** Everything that can be installed with one operation. */
export type InstallationSource = ArchiveSource | NamedSource;

/** One package of a source. */
export interface SourcePart {
  kind: LeftOut["kind"] | "package";
  name: string;
  /** Whether the part is downloaded from a registry. */
  registry: boolean;
  /** Settings for the part's binding, from the source. */
  binding: { config?: JsonObject; policy?: Pick<BindingPolicy, "secret_env"> };
}

/** An OCI artifact before its files are fetched. Its config lists the files, so the digest is known. */
export interface ArtifactClaim {
  /** The digest of the package. */
  digest: string;
  /** The content of its signatures, unverified. */
  signatures: readonly unknown[];
}

/** An OCI artifact as its manifest describes it. An installation compares the id and version with the package. */
export interface StatedArtifact {
  /** The digest of the OCI manifest for this host. */
  manifest_digest: string;
  package_id: string | null;
  version: string | null;
}

/** The credentials for an OCI registry. */
export interface RegistryCredentials {
  username: string;
  password: string;
}

export interface OpenOptions {
  /** Reads the source as this format instead of detecting the format. */
  only?: "package" | "agent_plugin" | undefined;
  /** Whether the files may change without a new version number; their digest is then part of the version. */
  changing?: boolean | undefined;
  /** The packages from npm whose install scripts run. */
  allow_scripts?: readonly string[] | undefined;
  /** The packages from the Python index that are built from their source archives. */
  allow_builds?: readonly string[] | undefined;
  /** Resolves to the credentials for a registry, whose name includes its port. */
  findRegistryCredentials?: ((registry: string) => Promise<RegistryCredentials | null>) | undefined;
  /** Called before the files of an OCI artifact are fetched. Throws if the artifact must not be installed. */
  acceptArtifact?: ((claim: ArtifactClaim) => Promise<void>) | undefined;
  /** Whether a package from a registry may specify another repository as its source. */
  accept_source?: boolean | undefined;
  /** Receives the progress of `open` and `import`. When it is cancelled, both throw `request.cancelled`. */
  operation?: Operation | undefined;
}

/** A source that was read but not installed; `end` removes the unpacked files. */
export interface OpenedSource extends Pick<Installation, "kind" | "plugin"> {
  parts: readonly SourcePart[];
  left_out: readonly LeftOut[];
  notes: readonly string[];
  /** Must not be called concurrently. Throws like `PackageImporter.import`. */
  import(part: SourcePart): Promise<ImportedPackage>;
  /** Throws if `allow_scripts` or `allow_builds` names a package that had no scripts or build in any imported tree. */
  assertAllowedFound(): void;
  end(): Promise<void>;
}

export interface PackageImporter {
  /**
   * Unpacks, checks and stores the bytes under their digest. Throws package.* and leaves no partial tree. Idempotent.
   * The bytes are held until `release`, so that a concurrent removal does not delete them.
   */
  import(source: PackageSource): Promise<ImportedPackage>;
  /** Opens a source that may contain several packages. Throws package.* and leaves no files behind. */
  open(source: InstallationSource, options?: OpenOptions): Promise<OpenedSource>;
  /**
   * Describes the source and the bindings that an installation would create. Runs no code from the source and leaves no
   * files behind.
   */
  inspect(
    source: InstallationSource,
    options?: Pick<OpenOptions, "operation" | "findRegistryCredentials">,
  ): Promise<SourceInspection>;
  /** Lists the tags in the repository of an `oci://` reference. Throws `registry.*`. */
  listTags(
    reference: string,
    options?: Pick<OpenOptions, "operation" | "findRegistryCredentials">,
  ): Promise<string[]>;
  /** Reads the manifest of the artifact at an `oci://` reference, without its files. Throws like `open`. */
  readArtifact(
    reference: string,
    options?: Pick<OpenOptions, "operation" | "findRegistryCredentials">,
  ): Promise<StatedArtifact>;
  /** Lists the files below a folder of an installed package, with paths relative to the folder. */
  listFiles(digest: string, folder: string): Promise<string[]>;
  /** Reads a verified file of an installed package. Resolves to null if it is missing or larger than `max_bytes`. */
  readFile(digest: string, path: string, max_bytes: number): Promise<Uint8Array | null>;
  /** Whether this gateway has the bytes of an installed package or can fetch them. Absent if it always has them. */
  has?(digest: string): Promise<boolean>;
  /** Ends the hold of one import, after its package row was written or its installation failed. */
  release(digest: string): void;
  /** Removes the bytes unless an import holds them or `used` resolves to true. */
  discard(digest: string, used: () => Promise<boolean>): Promise<void>;
  /** Removes unused bytes older than `min_age_ms`, left by a crash between storing the bytes and the package row. */
  sweep?(used: (digest: string) => Promise<boolean>, min_age_ms: number): Promise<number>;
}

/** Verified copies of installed packages, for the runner. */
export interface PackageFiles {
  /**
   * Opens a verified copy outside the content store, which later changes to the content store do not affect. Throws
   * `package.corrupt`, even if only the files in the content store are damaged, and `package.files_missing` if the
   * content store does not have the files and cannot fetch them.
   */
  open(digest: string): Promise<PackageImage>;
}

export interface PackageImage {
  readonly folder: string;
  /** Expands the files of a container image into a folder, which is the root of its processes. */
  expandRoot?(): Promise<string>;
  /** Throws `package.corrupt` if a file was changed after its verification. */
  check(): Promise<void>;
  /** Must be called when no process uses the image any more. */
  release(): void;
}

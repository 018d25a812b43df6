import type { BindingPolicy, Json, JsonObject, LeftOut, Manifest, Package } from "@backplane/contract";

/** What `supply` makes of an archive or a folder: checked, unpacked, in the content store. */
export interface ImportedPackage {
  digest: string;
  size_bytes: number;
  manifest: Manifest;
  schemas: Record<string, Json>;
  origin: Package["origin"];
  /** When it was first installed, wherever that was: what it says itself, else its folder's birth; null: unknown. */
  first_installed_at: string | null;
}

export type PackageSource =
  | {
      kind: "archive";
      bytes: AsyncIterable<Uint8Array>;
      /** Of the folder that was packed: what an archive cannot tell. */
      name?: string;
      born_at?: string;
    }
  | { kind: "folder"; path: string }
  /** An MCP server of the npm registry, with its whole dependency tree; `secret_slots` as its operator names them. */
  | { kind: "npm"; spec: string; secret_slots: readonly string[] }
  | WorkspaceSource;

/** Tool files as they lie in a folder of this machine. */
export interface WorkspaceSource {
  kind: "workspace";
  path: string;
  /** Of its files as they are expected; others throw `workspace.changed`. */
  digest: string;
  /** Only its `tools` folder counts, or all of it. */
  whole: boolean;
  /** What it is called whatever its files say; null: by its own name. Its version follows from its content. */
  package_id: string | null;
  /** Files that are taken from an installed tree instead, because what lies there does not load. */
  keep: { digest: string; files: readonly string[] } | null;
}

/** One package of an Agent Plugins folder. */
export interface AgentPluginPart {
  kind: LeftOut["kind"];
  name: string;
  /** It comes from the npm registry instead of the plugin's files. */
  registry: boolean;
  /** What its binding is made with. */
  binding: { config?: JsonObject; policy?: Pick<BindingPolicy, "secret_env"> };
}

/** Read and not yet installed; `end` removes what was unpacked. */
export interface OpenedAgentPlugin {
  name: string;
  version: string;
  parts: readonly AgentPluginPart[];
  left_out: readonly LeftOut[];
  notes: readonly string[];
  /** One after the other. Throws as `PackageImporter.import` does. */
  import(part: AgentPluginPart): Promise<ImportedPackage>;
  end(): Promise<void>;
}

export type AgentPluginSource = Extract<PackageSource, { kind: "archive" | "folder" }>;

export interface PackageImporter {
  /**
   * Unpacks, checks and stores the bytes under their digest. Throws package.* and leaves no partial tree. Doing
   * it twice is the same as once. The bytes are held until `release`: a removal at the same time leaves them alone.
   */
  import(source: PackageSource): Promise<ImportedPackage>;
  /** An Agent Plugins folder, which is several packages. Throws package.* and leaves nothing. */
  openAgentPlugin(source: AgentPluginSource): Promise<OpenedAgentPlugin>;
  /** The files below a folder of an installed package, by their paths from there. */
  files(digest: string, folder: string): Promise<string[]>;
  /** One file of an installed package, as it was installed. Null: there is none, or it is larger than `most`. */
  read(digest: string, path: string, most: number): Promise<Uint8Array | null>;
  /** Ends the hold of one import: its package row exists, or there will be none. */
  release(digest: string): void;
  /** Removes bytes that no import holds and that `used` does not know. */
  discard(digest: string, used: () => Promise<boolean>): Promise<void>;
  /** Removes bytes older than `min_age_ms` that nothing uses: what a death between bytes and row has left. */
  sweep?(used: (digest: string) => Promise<boolean>, min_age_ms: number): Promise<number>;
}

/** Installed packages as the runner starts them. */
export interface PackageFiles {
  /**
   * The verified image of these bytes, which is not the content store: what changes there later does not reach it.
   * Throws `package.corrupt`, also when the image is good and the installed files are not.
   */
  open(digest: string): Promise<PackageImage>;
}

export interface PackageImage {
  readonly folder: string;
  /** Throws `package.corrupt` when a file of it was changed since it was verified. */
  check(): Promise<void>;
  /** When nothing runs from it any more. */
  release(): void;
}

import type { Json, Manifest, Package } from "@backplane/contract";

/** What `supply` makes of an archive or a folder: checked, unpacked, in the content store. */
export interface ImportedPackage {
  digest: string;
  size_bytes: number;
  manifest: Manifest;
  schemas: Record<string, Json>;
  origin: Package["origin"];
}

export type PackageSource =
  | { kind: "archive"; bytes: AsyncIterable<Uint8Array> }
  | { kind: "folder"; path: string }
  /** An MCP server of the npm registry, with its whole dependency tree; `secret_slots` as its operator names them. */
  | { kind: "npm"; spec: string; secret_slots: readonly string[] };

export interface PackageImporter {
  /**
   * Unpacks, checks and stores the bytes under their digest. Throws package.* and leaves no partial tree. Doing
   * it twice is the same as once.
   */
  import(source: PackageSource): Promise<ImportedPackage>;
  /** The files below a folder of an installed package, by their paths from there. */
  files(digest: string, folder: string): Promise<string[]>;
  /** One file of an installed package, as it was installed. Null: there is none, or it is larger than `most`. */
  read(digest: string, path: string, most: number): Promise<Uint8Array | null>;
  /** Removes bytes that no package row refers to any more. */
  discard(digest: string): Promise<void>;
  /** Removes bytes older than `min_age_ms` that nothing uses: what a death between bytes and row has left. */
  sweep?(used: (digest: string) => Promise<boolean>, min_age_ms: number): Promise<number>;
}

/** The content store as the runner sees it. */
export interface PackageFiles {
  /** The folder of these bytes, after every byte was compared with the digest. Throws `package.corrupt`. */
  verified(digest: string): Promise<string>;
}

/** A file of a package, identified by the hash of its content. */
export interface SharedFileId {
  sha256: string;
  bytes: number;
}

/** A file that may have to be stored. */
export interface SharedFile extends SharedFileId {
  /** Reads the content. Throws if it does not match the hash, after the last byte at the latest. */
  read(): AsyncIterable<Uint8Array>;
}

export interface SharedChunk {
  sha256: string;
  /** Null if the chunk is missing or does not have the length that the size of the file requires. */
  content: Uint8Array | null;
  /** Whether the file ends with this chunk. */
  is_last: boolean;
}

/**
 * The files of packages in the database that gateways share: a package that was installed on one of them runs on all.
 * A file is stored once, whichever packages contain it. The listing of a package is stored like a file; its hash is the
 * digest of the package. A package is complete or absent. The implementation does not verify what it returns, because
 * the reader must not trust the database in any case. All methods throw `store.unavailable`.
 */
export interface SharedPackages {
  /** Resolves to null if the database does not have the package. */
  find(digest: string): Promise<{ listing_bytes: number } | null>;
  /** Returns the digests that are used by a package row of any organization and missing from the database. */
  findMissing(digests: readonly string[]): Promise<string[]>;
  /**
   * Stores a package with these files, one of which is its listing. Files that are stored and intact are not read;
   * damaged ones are replaced. The package cannot be removed before this process calls `release`, so that it stays until
   * its package row exists. If the process is killed, the protection expires by the clock of the database.
   */
  store(digest: string, files: readonly SharedFile[]): Promise<void>;
  release(digest: string): Promise<void>;
  /** Reads the chunks of the files one after another, in this order. An empty file has no chunks. */
  read(files: Iterable<SharedFileId>): AsyncIterable<SharedChunk>;
  /**
   * Removes the package, with the files that no other package contains, unless a package row uses it or a process
   * protects it.
   */
  remove(digest: string): Promise<void>;
  /** Removes unused packages that were stored at least `min_age_ms` ago and resolves to their number. */
  sweep(min_age_ms: number): Promise<number>;
}

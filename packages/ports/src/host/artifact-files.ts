/**
 * Files that results refer to, stored by hash. A gateway with its own home stores the files of its calls there;
 * gateways that share a database store them in the database, and each can serve all of them.
 */
export interface ArtifactFiles {
  /** Resolves when the bytes are on disk. Storing the same bytes again only resets their age. */
  store(sha256: string, bytes: Uint8Array): Promise<void>;
  /**
   * Resolves to null if the file is missing or damaged. Reading the content throws if it is removed or changed
   * meanwhile.
   */
  open(sha256: string): Promise<{ bytes: number; content: AsyncIterable<Uint8Array> } | null>;
  /** Removes files last stored more than `min_age_ms` ago and resolves to their number. */
  sweep(min_age_ms: number): Promise<number>;
}

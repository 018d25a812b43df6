/**
 * Bytes that calls handed over by reference, each under its own hash. A home keeps those of the calls it ran; gateways
 * that share a database keep them there, and any of them gives them out.
 */
export interface ArtifactFiles {
  /** On disk when it resolves. The same bytes again only renew their age. */
  keep(sha256: string, bytes: Uint8Array): Promise<void>;
  /** Null: not here, or not what was kept. The content throws when it goes or changes while it is read. */
  open(sha256: string): Promise<{ bytes: number; content: AsyncIterable<Uint8Array> } | null>;
  /** Removes what was last kept longer ago than this; answers how many. */
  sweep(min_age_ms: number): Promise<number>;
}

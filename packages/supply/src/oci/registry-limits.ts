/** Limits on the resources that a registry can use. A hostile registry can reach each of them. */
export interface RegistryLimits {
  manifest_bytes: number;
  /** Entries of an index, layers of a manifest, and referrers that are read. */
  descriptors: number;
  /** Pages of a list of referrers. */
  pages: number;
  /** Tags of a repository that are read. */
  tags: number;
  /** Pages of a list of tags. Some registries send at most 100 tags in each. */
  tag_pages: number;
  /** The page size that is requested, which is the maximum of several public registries. */
  tags_per_page: number;
  /** The size of error responses and token responses. */
  message_bytes: number;
  redirects: number;
  /** Connections for one blob, including those that resume it. */
  attempts: number;
  /** The longest wait before the second connection for a blob. It doubles for each further one. */
  retry_ms: number;
  /** The longest wait between two connections, unless the registry asks for more time. */
  max_retry_ms: number;
  /** The longest wait that a registry can ask for with Retry-After. */
  max_retry_after_ms: number;
  /** The maximum time without a byte from the registry. */
  idle_ms: number;
  /** The timeout of one manifest, one list or one blob that is read into memory. */
  request_ms: number;
  /** The timeout of one blob that is downloaded to a file or uploaded. */
  blob_ms: number;
}

const MIB = 1024 * 1024;

export const REGISTRY_LIMITS: RegistryLimits = {
  // The minimum that the distribution specification requires registries to accept.
  manifest_bytes: 4 * MIB,
  descriptors: 128,
  pages: 4,
  tags: 10_000,
  tag_pages: 100,
  tags_per_page: 1_000,
  message_bytes: 64 * 1024,
  redirects: 5,
  attempts: 8,
  retry_ms: 500,
  max_retry_ms: 15_000,
  max_retry_after_ms: 60_000,
  idle_ms: 30_000,
  request_ms: 60_000,
  blob_ms: 900_000,
};

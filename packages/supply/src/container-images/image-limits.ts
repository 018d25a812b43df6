/** Limits on the resources that an image can use. A hostile image could reach each of them. */
export interface ImageLimits {
  /** The entries of all layers together, including files that a later layer removes and folders that no entry names. */
  entries: number;
  /** The size of all uncompressed layers, and the size of the resulting files. */
  unpacked_bytes: number;
  /** The size of the names and link targets of all nodes, and the size of all paths of the expanded root. */
  text_bytes: number;
  /** The path components that are resolved in total. An entry needs about ten; long chains of links need more. */
  steps: number;
  /** The consecutive bytes of a layer that belong to no file: extended headers and padding. */
  header_bytes: number;
  /** The timeout for the whole image. Without it, every layer could take as long as a single request may. */
  pull_ms: number;
}

const MIB = 1024 * 1024;

export const IMAGE_LIMITS: ImageLimits = {
  entries: 200_000,
  unpacked_bytes: 2 * 1024 * MIB,
  text_bytes: 64 * MIB,
  steps: 20_000_000,
  header_bytes: 4 * MIB,
  pull_ms: 3_600_000,
};

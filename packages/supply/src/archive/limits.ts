const MIB = 1024 * 1024;

export interface UnpackLimits {
  /** Files and folders together. */
  entries: number;
  /** The size of a tar stream after decompression, or of all files of a zip or a folder together. */
  unpacked_bytes: number;
  file_bytes: number;
  /** Maximum ratio of unpacked to packed size, checked once more than `ratio_from_bytes` are unpacked. */
  ratio: number;
  ratio_from_bytes: number;
}

/** For a server together with its dependencies: real servers have 30,000 files and more. */
export const SERVER_UNPACK_LIMITS: UnpackLimits = {
  entries: 150_000,
  unpacked_bytes: 1024 * MIB,
  file_bytes: 256 * MIB,
  ratio: 200,
  ratio_from_bytes: 8 * MIB,
};

export const UNPACK_LIMITS: UnpackLimits = {
  entries: 20_000,
  unpacked_bytes: 256 * MIB,
  file_bytes: 128 * MIB,
  ratio: 200,
  ratio_from_bytes: 8 * MIB,
};

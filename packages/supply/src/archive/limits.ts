const MIB = 1024 * 1024;

export interface UnpackLimits {
  /** Files and folders together. */
  entries: number;
  /** The whole tar stream after decompression. */
  unpacked_bytes: number;
  file_bytes: number;
  /** Unpacked to packed, looked at once the unpacked side has passed `ratio_from_bytes`. */
  ratio: number;
  ratio_from_bytes: number;
}

export const UNPACK_LIMITS: UnpackLimits = {
  entries: 20_000,
  unpacked_bytes: 256 * MIB,
  file_bytes: 128 * MIB,
  ratio: 200,
  ratio_from_bytes: 8 * MIB,
};

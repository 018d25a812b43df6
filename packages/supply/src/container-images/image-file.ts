import type { Manifest } from "@backplane/contract";

/** The file of a package that describes the image it was made from. */
export const IMAGE_FILE = "image.json";

export interface ImageFile {
  manifest: Manifest;
  /** The name and the digests by which the image was pulled. */
  image: { reference: string; digest: string; layers: string[] };
}

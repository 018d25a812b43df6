/** Packages that the gateway makes from container images. An uploaded archive with the same files is not recognized. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ManifestSchema } from "@backplane/contract/schema";
import { IMAGE_FILE, type ImageFile } from "../../container-images/image-file.ts";
import type { PackageFormat } from "./format.ts";

export const imagePackage: PackageFormat = {
  name: IMAGE_FILE,
  starts_own_program: true,
  matchesNames: () => false,
  recognizes: () => false,
  async read(tree) {
    const text = await readFile(join(tree, IMAGE_FILE), "utf8");
    return { manifest: ManifestSchema.parse((JSON.parse(text) as ImageFile).manifest), text };
  },
};

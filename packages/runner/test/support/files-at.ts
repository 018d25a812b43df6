/** Presents a folder as a verified package image, for tests that do not cover verification. */
import type { PackageFiles } from "@backplane/ports";

export function filesAt(folder: string): PackageFiles {
  return { open: async () => ({ folder, check: async () => {}, release: () => {} }) };
}

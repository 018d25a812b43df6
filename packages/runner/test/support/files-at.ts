/** A folder as a verified package image, for tests about something else. */
import type { PackageFiles } from "@backplane/ports";

export function filesAt(folder: string): PackageFiles {
  return { open: async () => ({ folder, check: async () => {}, release: () => {} }) };
}

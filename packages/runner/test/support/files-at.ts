/** A folder as the runner would be given a verified image of it, for tests that are about something else. */
import type { PackageFiles } from "@backplane/ports";

export function filesAt(folder: string): PackageFiles {
  return { open: async () => ({ folder, check: async () => {}, release: () => {} }) };
}

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a folder for stores, in memory if the test run found such a file system (BACKPLANE_TEST_MEMORY). */
export function createMemoryFolder(prefix: string): string {
  return mkdtempSync(join(process.env.BACKPLANE_TEST_MEMORY ?? tmpdir(), prefix));
}

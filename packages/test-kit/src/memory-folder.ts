import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Creates a folder for stores. The test run names a place in memory if the machine has one. */
export function createMemoryFolder(prefix: string): string {
  return mkdtempSync(join(process.env.BACKPLANE_TEST_MEMORY ?? tmpdir(), prefix));
}

/**
 * Gives a test run its own temporary folder, and one in memory for stores where the machine has enough of it, and
 * removes both with everything in them. The suites write thousands of small stores, and on a disk every commit waits.
 * Sandboxed plugins never see a folder below /dev, so their files stay in the first one.
 */
import { chmodSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const MEMORY = "/dev/shm";
/** The file system type that statfs reports for tmpfs. */
const TMPFS = 0x01021994;
const NEEDED_BYTES = 4 * 2 ** 30;

export default function createRunFolder(): () => void {
  const folders = [mkdtempSync(join(tmpdir(), "bp-"))];
  process.env.TMPDIR = folders[0];
  if (isLargeTmpfs(MEMORY)) {
    const memory = mkdtempSync(join(MEMORY, "bp-"));
    folders.push(memory);
    process.env.BACKPLANE_TEST_MEMORY = memory;
  }
  // Plugins and PostgreSQL run as other users.
  for (const folder of folders) chmodSync(folder, 0o1777);
  return () => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  };
}

function isLargeTmpfs(folder: string): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(folder);
    return type === TMPFS && bavail * bsize >= NEEDED_BYTES;
  } catch {
    return false;
  }
}

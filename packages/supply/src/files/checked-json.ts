/** Small JSON files of the home. A file is replaced atomically: the new content is on disk before the rename. */
import { open, rename, rm } from "node:fs/promises";
import { basename } from "node:path";
import { crc32 } from "node:zlib";
import { diskFault } from "@backplane/contract";

export async function writeJson(file: string, value: unknown): Promise<void> {
  const draft = `${file}.new`;
  try {
    const handle = await open(draft, "w", 0o600);
    try {
      await handle.writeFile(`${JSON.stringify(value, null, 2)}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw diskFault(error, `the gateway's home (${basename(file)})`) ?? error;
  }
}

/** Adds a checksum, so that a corrupted byte is detected instead of being read as another value. */
export async function writeCheckedJson(file: string, value: Record<string, unknown>): Promise<void> {
  await writeJson(file, { ...value, sum: checksumOf(value) });
}

/** Throws if the checksum does not match. A file without a checksum was written by hand or by an earlier version. */
export function parseCheckedJson(text: string): Record<string, unknown> {
  const { sum, ...value } = JSON.parse(text) as Record<string, unknown>;
  if (sum !== undefined && sum !== checksumOf(value)) {
    throw new Error(
      'its content does not match its checksum; if you changed it yourself, remove the field "sum"',
    );
  }
  return value;
}

function checksumOf(value: Record<string, unknown>): number {
  return crc32(JSON.stringify(value));
}

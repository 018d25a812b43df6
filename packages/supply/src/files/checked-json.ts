/** A small file of the home, whole or as it was: written beside, on disk before it takes the old one's place. */
import { open, rename } from "node:fs/promises";
import { crc32 } from "node:zlib";

export async function keepJson(file: string, value: unknown): Promise<void> {
  const draft = `${file}.new`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.writeFile(`${JSON.stringify(value, null, 2)}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}

/** With a checksum, so that a changed byte is not taken for another path. */
export async function keepSummedJson(file: string, value: Record<string, unknown>): Promise<void> {
  await keepJson(file, { ...value, sum: sumOf(value) });
}

/** A file without a checksum was written by hand, or before there was one. Throws for one that does not match. */
export function parseSummedJson(text: string): Record<string, unknown> {
  const { sum, ...value } = JSON.parse(text) as Record<string, unknown>;
  if (sum !== undefined && sum !== sumOf(value)) {
    throw new Error(
      'its content does not match its checksum; if you changed it yourself, remove the field "sum"',
    );
  }
  return value;
}

function sumOf(value: Record<string, unknown>): number {
  return crc32(JSON.stringify(value));
}

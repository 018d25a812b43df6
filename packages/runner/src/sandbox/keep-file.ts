/** Keeps bytes in a folder under their own digest: written once, whole or not at all, and the same for everyone. */
import { createHash, randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

export async function keepFile(folder: string, name: string, bytes: Buffer): Promise<string> {
  const digest = createHash("sha256").update(bytes).digest("hex");
  const file = join(folder, `${name}-${digest.slice(0, 32)}`);
  const there = await readFile(file).catch(() => null);
  if (there?.equals(bytes)) return file;
  const draft = `${file}.${randomUUID()}`;
  try {
    await writeFile(draft, bytes, { mode: 0o444, flag: "wx" });
    await rename(draft, file);
  } finally {
    await rm(draft, { force: true });
  }
  return file;
}

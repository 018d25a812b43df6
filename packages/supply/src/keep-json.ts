/** A small file of the home, whole or as it was: written beside, on disk before it takes the old one's place. */
import { open, rename } from "node:fs/promises";

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

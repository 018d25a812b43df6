import { renameSync, rmSync, writeFileSync } from "node:fs";

/**
 * Replaces a file atomically, without an fsync. If the replacement fails, the file keeps its old content and no draft
 * is left.
 */
export function replaceContent(file: string, content: string): void {
  const draft = `${file}.new`;
  try {
    writeFileSync(draft, content, { mode: 0o600 });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

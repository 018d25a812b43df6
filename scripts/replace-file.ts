import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * Replaces the file atomically and only if it changed, so that a concurrent reader never sees a partial file. Returns
 * its path.
 */
export function replaceFile(target: string, bytes: Uint8Array): string {
  if (existsSync(target) && readFileSync(target).equals(bytes)) return target;
  mkdirSync(dirname(target), { recursive: true });
  const draft = `${target}.${process.pid}.tmp`;
  writeFileSync(draft, bytes);
  renameSync(draft, target);
  return target;
}

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/** Whole, and only when it changes: who reads it meanwhile never sees half of it. */
export function replaceFile(target: string, bytes: Uint8Array): string {
  if (existsSync(target) && readFileSync(target).equals(bytes)) return target;
  mkdirSync(dirname(target), { recursive: true });
  const fresh = `${target}.${process.pid}.tmp`;
  writeFileSync(fresh, bytes);
  renameSync(fresh, target);
  return target;
}

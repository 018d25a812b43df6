/**
 * Lists the top-level entries of a container image. Each entry is mounted separately, because the root folder itself
 * belongs to the sandbox.
 */
import { readdirSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { SandboxImage } from "./plan.ts";

/** Folders that the sandbox provides itself. */
const PROVIDED = ["dev", "proc", "sys", "tmp", "sandbox"];

export function readImageEntries(root: string): SandboxImage["entries"] {
  return readdirSync(root, { withFileTypes: true })
    .filter(({ name }) => !PROVIDED.includes(name))
    .map((entry) => {
      const path = `/${entry.name}`;
      const source = join(root, entry.name);
      return entry.isSymbolicLink() ? { path, target: readlinkSync(source) } : { path, source };
    });
}

/**
 * A host folder that is mounted for a confined plugin, so that a test can read what the plugin wrote. Its files exist
 * beforehand and are world-writable, because every sandboxed process has its own user.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface SharedFolder {
  /** For `policy.mounts` of a binding. */
  mount: { source: string; target: string; writable: true };
  /** The path of a file on the host. */
  outside(file: string): string;
  /** The path of a file in the sandbox. */
  inside(file: string): string;
  remove(): void;
}

export function createSharedFolder(...files: string[]): SharedFolder {
  const source = mkdtempSync(join(tmpdir(), "backplane-shared-"));
  chmodSync(source, 0o777);
  for (const file of files) {
    writeFileSync(join(source, file), "");
    chmodSync(join(source, file), 0o666);
  }
  const target = "/shared";
  return {
    mount: { source, target, writable: true },
    outside: (file) => join(source, file),
    inside: (file) => `${target}/${file}`,
    remove: () => rmSync(source, { recursive: true, force: true }),
  };
}

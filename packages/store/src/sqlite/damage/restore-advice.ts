/** Errors for a damaged store, with advice on how to restore it. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";

export function damagedStoreError(
  file: string,
  message: string,
  details: Record<string, unknown> = {},
): BackplaneError {
  return new BackplaneError("store.damaged", message, { details, fix: buildRestoreAdvice(file) });
}

/** Names the newest backup, if there is one. */
export function buildRestoreAdvice(file: string): string {
  const [newest] = listBackups(file);
  const check = "Stop the gateway and run `backplane store check` to see all damage.";
  const repair = "`backplane store repair` keeps intact data and moves the rest aside";
  if (newest === undefined) return `${check} ${repair}; there is no backup next to ${file}.`;
  return `${check} ${repair}; \`backplane store restore ${newest}\` restores that backup. Both keep the damaged files.`;
}

/** Newest first. */
export function listBackups(file: string): string[] {
  const folder = dirname(file);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.startsWith(`${basename(file)}.`) && name.endsWith(".backup"))
    .map((name) => join(folder, name))
    .sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs);
}

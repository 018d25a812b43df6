/** When the home was last backed up, for `status` and `doctor`. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface LastBackup {
  at: string;
  file: string;
  bytes: number;
}

const NAME = "last-backup.json";

export function readLastBackup(home: string): LastBackup | null {
  try {
    return JSON.parse(readFileSync(join(home, NAME), "utf8")) as LastBackup;
  } catch {
    // A missing or damaged file is replaced by the next backup.
    return null;
  }
}

export function writeLastBackup(home: string, backup: LastBackup): void {
  if (existsSync(home)) writeFileSync(join(home, NAME), `${JSON.stringify(backup)}\n`, { mode: 0o600 });
}

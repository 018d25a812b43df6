/** `backplane store`: checks, backs up, restores and repairs the SQLite files in the home. */
import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import {
  backUpStoreFile,
  checkStoreFile,
  lockHome,
  openSqliteStore,
  type RepairResult,
  repairStoreFile,
  restoreStoreFile,
  type StoreReport,
} from "@backplane/store";
import type { GatewayConfig } from "../config/config.ts";
import { ANCHOR_FILE } from "../home/audit-files.ts";
import { setPrivateUmask } from "../host/private-umask.ts";
import { recordChange } from "./record-change.ts";

export interface StoreFiles {
  check(): StoreReport;
  /** Returns the path of the backup. */
  backUp(to?: string): string;
  /** The gateway must not be running. Returns the folder to which the replaced files were moved. */
  restore(backup: string): Promise<string>;
  /** The gateway must not be running. */
  repair(accept_loss: boolean): Promise<RepairResult>;
}

export function storeFiles(config: GatewayConfig): StoreFiles {
  if (config.store.url !== undefined) {
    throw new BackplaneError(
      "request.invalid",
      "This home uses PostgreSQL, which is checked, backed up and restored with its own tools.",
      {
        fix: "Use `backplane backup` and `backplane restore`, or pg_amcheck, pg_dump and pg_restore.",
      },
    );
  }
  const file = join(config.home, "store.db");
  return {
    check: () => {
      const lock = tryLock(config.home);
      try {
        return checkStoreFile(file, lock === null);
      } finally {
        lock?.release();
      }
    },
    backUp(to = `${file}.${new Date().toISOString().replaceAll(/[:.]/g, "-")}.backup`) {
      const lock = tryLock(config.home);
      try {
        backUpStoreFile(file, to, lock === null);
        return to;
      } finally {
        lock?.release();
      }
    },
    restore: (backup) =>
      withLock(config.home, async () => {
        const kept = restoreStoreFile(file, backup);
        moveAnchor(config.home, kept);
        await recordChange(await openSqliteStore({ file, threaded: false }), "store.restore", {
          backup,
          kept,
        });
        return kept;
      }),
    repair: (accept_loss) =>
      withLock(config.home, async () => {
        const repair = repairStoreFile(file, accept_loss);
        if (repair.lost_commits > 0) moveAnchor(config.home, repair.kept);
        await recordChange(await openSqliteStore({ file, threaded: false }), "store.repair", {
          kept: repair.kept,
          lost_commits: repair.lost_commits,
          rows: repair.rows.slice(0, 100).map(({ table, id }) => `${table} ${id}`),
          indexes: repair.indexes,
        });
        return repair;
      }),
  };
}

/** The anchor refers to an entry that the store no longer has. The next start creates a new anchor and logs that. */
function moveAnchor(home: string, kept: string): void {
  const anchor = join(home, ANCHOR_FILE);
  if (existsSync(anchor)) renameSync(anchor, join(kept, ANCHOR_FILE));
}

/** Null if a gateway is running in this home. */
function tryLock(home: string): { release(): void } | null {
  setPrivateUmask();
  try {
    return lockHome(home);
  } catch (error) {
    if ((error as { code?: string }).code === "home.locked") return null;
    throw error;
  }
}

async function withLock<T>(home: string, work: () => Promise<T>): Promise<T> {
  setPrivateUmask();
  const lock = lockHome(home);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

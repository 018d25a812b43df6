/**
 * `backplane restore`: unpacks an archive next to the files of the home, verifies it, and only then replaces them. The
 * previous files are moved to a subfolder of the home.
 */
import { randomUUID } from "node:crypto";
import { createReadStream, existsSync } from "node:fs";
import { copyFile, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import {
  checkStoreFile,
  LOCK_FILE,
  lockHome,
  openPostgresStore,
  openSqliteStore,
  restoreDatabase,
  SCHEMA_VERSION,
} from "@backplane/store";
import { type GatewayConfig, loadConfig } from "../config/config.ts";
import { prepareHome } from "../home/home.ts";
import { finishRestore, listPreviousFiles, placeFiles, stagedFiles } from "../home/restored-files.ts";
import { setPrivateUmask } from "../host/private-umask.ts";
import { recordChange } from "../store/record-change.ts";
import { type BackupManifest, readBackupArchive } from "./archive.ts";
import {
  BACKED_UP_ENTRIES,
  CREDENTIALS,
  readKeyFingerprints,
  STORE_FILE,
  STORE_ROWS,
} from "./create-backup.ts";

export interface RestoreOptions {
  home: string;
  env: Record<string, string | undefined>;
  archive: string;
  /** A copy of the secret.key that sealed the secrets. */
  key_file?: string;
  /** Replaces a home and a database even if they are not empty. */
  force: boolean;
  /** Called about once a second. */
  progress(text: string): void;
}

export interface RestoreResult {
  manifest: BackupManifest;
  /** The folder with the previous files; null if the home was empty. */
  kept: string | null;
  /** The ids of keys that sealed secrets in the archive and are missing from the home. */
  missing_keys: string[];
}

export async function restoreBackup(options: RestoreOptions): Promise<RestoreResult> {
  const { home, archive } = options;
  if (!existsSync(archive))
    throw new BackplaneError("request.invalid", `The archive ${archive} does not exist.`, {
      fix: "Specify an archive that `backplane backup` wrote.",
    });
  const previous = listPreviousFiles(home);
  if (previous.length > 0 && !options.force) {
    throw new BackplaneError("request.invalid", `The home ${home} is not empty.`, {
      fix: "Choose another folder with --home, or replace this home with --force; its files are kept.",
    });
  }
  const had_lock_file = existsSync(join(home, LOCK_FILE));
  return await withLockedHome(home, async () => {
    const staging = join(home, `.restoring-${randomUUID()}`);
    await mkdir(stagedFiles(staging), { recursive: true, mode: 0o700 });
    try {
      return await restoreInto(options, staging);
    } catch (error) {
      // The lock is still held, so no gateway can be using the file.
      if (!had_lock_file) await rm(join(home, LOCK_FILE), { force: true });
      throw error;
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  });
}

/** Completes a restore that was interrupted after its files were verified. */
export async function resumeRestore(home: string): Promise<string | null> {
  return await withLockedHome(home, async () => finishRestore(home));
}

async function withLockedHome<T>(home: string, work: () => Promise<T>): Promise<T> {
  setPrivateUmask();
  prepareHome(home);
  const lock = lockHome(home);
  try {
    return await work();
  } finally {
    lock.release();
  }
}

async function restoreInto(options: RestoreOptions, staging: string): Promise<RestoreResult> {
  const { home, archive } = options;
  const files = stagedFiles(staging);
  const expected = new Set([...BACKED_UP_ENTRIES, ...CREDENTIALS, STORE_FILE, STORE_ROWS]);
  const manifest = await readBackupArchive(archive, {
    to: files,
    isExpected: (path) => expected.has(path.split("/", 1)[0]!),
    progress: (text) => options.progress(text),
  });
  const { store } = manifest;
  if (store.schema_version > SCHEMA_VERSION) {
    throw new BackplaneError(
      "store.schema_newer",
      `The archive has schema ${store.schema_version}; this build supports schemas up to ${SCHEMA_VERSION}.`,
    );
  }
  const missing_keys = await stageKeyFile(options, files, manifest);
  const config = loadConfig({ home: files, env: options.env });
  assertSameStore(config, store.kind);
  const details = { archive, created_at: manifest.created_at, version: manifest.version };
  if (config.store.url === undefined) {
    const file = join(files, STORE_FILE);
    checkStore(file);
    await recordChange(await openSqliteStore({ file, threaded: false }), "backup.restore", details);
  } else {
    const rows = join(staging, STORE_ROWS);
    await rename(join(files, STORE_ROWS), rows);
    await restoreDatabase(config.store.url, store, {
      force: options.force,
      rows: (table) => readLines(join(rows, `${table}.jsonl`)),
    });
    await recordChange(await openPostgresStore({ url: config.store.url }), "backup.restore", details);
  }
  return { manifest, kept: placeFiles(home, staging), missing_keys };
}

function assertSameStore({ store: { url } }: GatewayConfig, kind: BackupManifest["store"]["kind"]): void {
  if (kind === "postgres" && url === undefined) {
    throw new BackplaneError("request.invalid", "The archive contains the rows of a PostgreSQL database.", {
      fix: "Set BACKPLANE_STORE_URL to an empty PostgreSQL database.",
    });
  }
  if (kind === "sqlite" && url !== undefined) {
    throw new BackplaneError(
      "request.invalid",
      "The archive contains a SQLite store, but store.url is set.",
      {
        fix: "Unset BACKPLANE_STORE_URL.",
      },
    );
  }
}

function checkStore(file: string): void {
  const { structure, rows } = checkStoreFile(file, false);
  if (structure.length + rows.length === 0) return;
  throw new BackplaneError(
    "backup.invalid",
    `The store in the archive is damaged: ${structure[0] ?? `row ${rows[0]!.id} of ${rows[0]!.table}`}.`,
  );
}

/** Uses the first key file that exists: that of `--key`, the archive or the home. Returns the ids of missing keys. */
async function stageKeyFile(
  { home, env, key_file }: RestoreOptions,
  files: string,
  { keys }: BackupManifest,
): Promise<string[]> {
  const target = join(files, "secret.key");
  const home_key_file = env.BACKPLANE_SECRET_KEY_FILE ?? join(home, "secret.key");
  if (key_file !== undefined) {
    await rm(target, { force: true });
    await copyFile(key_file, target);
  }
  const available = readKeyFingerprints(existsSync(target) ? target : home_key_file);
  const missing = keys.filter(({ fingerprint }) => !available.some((key) => key.fingerprint === fingerprint));
  if (key_file !== undefined && missing.length > 0) {
    throw new BackplaneError(
      "request.invalid",
      `${key_file} does not contain every key that sealed secrets in this archive.`,
      {
        fix: `Specify the file that contains ${missing.map(({ id }) => id).join(", ")} with --key.`,
      },
    );
  }
  // The home keeps its key file: it is moved aside only if the archive or --key provides another one.
  return missing.map(({ id }) => id);
}

/** Splits only at line feeds; readline would also split at separators that JSON strings may contain. */
async function* readLines(file: string): AsyncGenerator<string> {
  if (!existsSync(file)) return;
  let partial = "";
  for await (const chunk of createReadStream(file, { encoding: "utf8" })) {
    const lines = `${partial}${chunk as string}`.split("\n");
    partial = lines.pop()!;
    yield* lines;
  }
  if (partial !== "") yield partial;
}

/**
 * `backplane backup` archives a home, even while its gateway runs. A snapshot of the store is copied first. The
 * bytes of packages and artifacts never change and are copied afterwards, so the archive contains all bytes that the
 * snapshot refers to, and possibly more. A package that is intact in the home is archived from there and not from a
 * PostgreSQL database, so that the archive does not contain it twice; the restored gateway stores it in its database
 * again.
 */
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { closeSync, createWriteStream, existsSync, lstatSync, openSync, readSync } from "node:fs";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { finished } from "node:stream/promises";
import { BackplaneError, codeOf, diskFault } from "@backplane/contract";
import {
  backUpStoreFile,
  dumpDatabase,
  lockHome,
  readStoreSchemaVersion,
  sqliteDiskFault,
} from "@backplane/store";
import { inspectContent } from "@backplane/supply";
import type { GatewayConfig } from "../config/config.ts";
import { fsyncFolder, readSecretKeys } from "../home/home.ts";
import { writeLastBackup } from "../home/last-backup.ts";
import { setPrivateUmask } from "../host/private-umask.ts";
import { VERSION } from "../host/version.ts";
import { type ArchiveWriter, type BackupManifest, createArchive } from "./archive.ts";

export interface BackupOptions {
  /** The path of the archive, which must not exist yet. */
  to: string;
  /** Adds secret.key and admin.token. Anyone who has the archive can then read every secret. */
  credentials: boolean;
  /** Called about once a second. */
  progress(text: string): void;
}

export interface Backup {
  file: string;
  bytes: number;
  manifest: BackupManifest | Omit<BackupManifest, "entries">;
}

/** The files and folders of the home that a backup contains, besides the store and the credentials. */
export const BACKED_UP_ENTRIES = ["backplane.toml", "blobs", "data", "plugins", "workspaces.json"];
export const CREDENTIALS = ["admin.token", "secret.key"];
/** Paths in the archive: the file of a SQLite store, and the folder with the rows of a PostgreSQL store. */
export const STORE_FILE = "store.db";
export const STORE_ROWS = "store";
const SQLITE_HEADER = "SQLite format 3\0";
const PROGRESS_MS = 1_000;

export async function createBackup(config: GatewayConfig, options: BackupOptions): Promise<Backup> {
  const { home } = config;
  const { to } = options;
  setPrivateUmask();
  if (!existsSync(home)) throw new BackplaneError("request.invalid", `The home ${home} does not exist.`);
  if (existsSync(to))
    throw new BackplaneError("request.invalid", `${to} already exists. Choose another file.`);
  const work = join(dirname(to), `.backplane-backup-${randomUUID()}`);
  const partial = join(work, "archive");
  await mkdir(work, { recursive: true, mode: 0o700 });
  try {
    const archive = createArchive(partial);
    try {
      const store = await addStore(config, archive, work);
      await addFiles(home, archive, work, (text) => options.progress(text));
      if (options.credentials) await addCredentials(config, archive);
      const manifest = {
        format: 1 as const,
        created_at: new Date().toISOString(),
        version: VERSION,
        owner: lstatSync(home).uid,
        store,
        keys: readKeyFingerprints(config.secret_key_file),
        credentials: options.credentials,
      };
      await archive.finish(manifest);
      await rename(partial, to);
      fsyncFolder(dirname(to));
      const { size: bytes } = await stat(to);
      try {
        writeLastBackup(home, { at: manifest.created_at, file: to, bytes });
      } catch (error) {
        // The archive is complete, even if the disk of the home is full.
        options.progress(`The backup could not be recorded in ${home}: ${(error as Error).message}`);
      }
      return { file: to, bytes, manifest };
    } catch (error) {
      await archive.abort(error as Error);
      throw diskFault(error, work) ?? error;
    }
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function addStore(
  { home, store: { url } }: GatewayConfig,
  archive: ArchiveWriter,
  work: string,
): Promise<BackupManifest["store"]> {
  if (url !== undefined) return await addDatabase(url, home, archive, work);
  const copy = join(work, STORE_FILE);
  const lock = tryLock(home);
  try {
    backUpStoreFile(join(home, STORE_FILE), copy, lock === null);
  } finally {
    lock?.release();
  }
  const schema_version = readStoreSchemaVersion(copy);
  await archive.add(STORE_FILE, copy);
  await rm(copy);
  return { kind: "sqlite", schema_version, tables: [] };
}

/** The rows of each table are collected in a file first, because a tar entry begins with its size. */
async function addDatabase(
  url: string,
  home: string,
  archive: ArchiveWriter,
  work: string,
): Promise<BackupManifest["store"]> {
  const rowsFile = (table: string) => join(work, `${table}.jsonl`);
  let current: { table: string; out: ReturnType<typeof createWriteStream> } | null = null;
  const addCurrentTable = async () => {
    if (current === null) return;
    current.out.end();
    await finished(current.out);
    await archive.add(`${STORE_ROWS}/${current.table}.jsonl`, rowsFile(current.table));
    await rm(rowsFile(current.table));
  };
  const omitted_packages: string[] = [];
  for await (const { digest, difference } of inspectContent(join(home, "blobs")))
    if (difference === null) omitted_packages.push(digest);
  const dump = await dumpDatabase(url, { omitted_packages }, async (table, row) => {
    if (current?.table !== table) {
      await addCurrentTable();
      current = { table, out: createWriteStream(rowsFile(table), { mode: 0o600 }) };
      // Without a listener, an error between two rows would crash the process; `finished` reports it.
      current.out.on("error", () => {});
    }
    if (!current.out.write(`${row}\n`) && !current.out.destroyed) await once(current.out, "drain");
    if (current.out.errored !== null) throw current.out.errored;
  });
  await addCurrentTable();
  return { kind: "postgres", ...dump };
}

async function addFiles(
  home: string,
  archive: ArchiveWriter,
  work: string,
  progress: (text: string) => void,
): Promise<void> {
  let count = 0;
  let last_progress = performance.now();
  const visit = async (path: string): Promise<void> => {
    const from = join(home, path);
    const info = lstatSync(from, { throwIfNoEntry: false });
    // The entry does not exist, was removed after its folder was read, or is a socket or pipe of a plugin.
    if (info === undefined || !(info.isFile() || info.isDirectory() || info.isSymbolicLink())) return;
    if (info.isFile() && isPartOfDatabase(from)) return;
    count += 1;
    if (performance.now() - last_progress >= PROGRESS_MS) {
      last_progress = performance.now();
      progress(`Added ${count} files; now ${path}`);
    }
    if (info.isFile() && isDatabase(from)) return await addDatabaseFile(path, from);
    await ignoreRemoved(archive.add(path, from));
    if (!info.isDirectory()) return;
    for (const name of await readdir(from).catch((): string[] => [])) await visit(`${path}/${name}`);
  };
  /** A plugin may be writing to its database, so a consistent copy is made of it. */
  const addDatabaseFile = async (path: string, from: string) => {
    const copy = join(work, "database");
    try {
      const database = new DatabaseSync(from, { readOnly: true });
      try {
        database.exec(`vacuum into '${copy.replaceAll("'", "''")}'`);
      } finally {
        database.close();
      }
      await archive.add(path, copy);
    } catch (error) {
      // On a full or failing disk, a copy of the bytes would fail too, or could be inconsistent.
      const fault = sqliteDiskFault(error, work);
      if (fault !== null) throw fault;
      // The file only looks like a database, or is damaged; its bytes are copied unchanged.
      await ignoreRemoved(archive.add(path, from));
    } finally {
      await rm(copy, { force: true });
    }
  };
  for (const name of BACKED_UP_ENTRIES) await visit(name);
}

async function ignoreRemoved(added: Promise<void>): Promise<void> {
  await added.catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  });
}

function isDatabase(file: string): boolean {
  const fd = openSync(file, "r");
  try {
    const header = Buffer.alloc(SQLITE_HEADER.length);
    return readSync(fd, header, 0, header.length, 0) === header.length && header.toString() === SQLITE_HEADER;
  } finally {
    closeSync(fd);
  }
}

/** Whether a file is the -wal, -shm or -journal file of a database. The copy of the database does not need it. */
function isPartOfDatabase(file: string): boolean {
  const [, main] = /^(.+)-(?:wal|shm|journal)$/.exec(file) ?? [];
  return main !== undefined && existsSync(main) && isDatabase(main);
}

async function addCredentials(
  { home, secret_key_file }: GatewayConfig,
  archive: ArchiveWriter,
): Promise<void> {
  const sources = { "admin.token": join(home, "admin.token"), "secret.key": secret_key_file };
  for (const [name, file] of Object.entries(sources)) if (existsSync(file)) await archive.add(name, file);
}

/** Null if a gateway is running in this home. */
function tryLock(home: string): { release(): void } | null {
  try {
    return lockHome(home);
  } catch (error) {
    if (codeOf(error) === "home.locked") return null;
    throw error;
  }
}

/** A key is random, so its hash reveals nothing. */
export function readKeyFingerprints(key_file: string): BackupManifest["keys"] {
  if (!existsSync(key_file)) return [];
  return readSecretKeys(key_file).map(({ id, key }) => ({
    id,
    fingerprint: createHash("sha256").update("backplane secret key").update(key).digest("hex").slice(0, 16),
  }));
}

/**
 * The home folder with all persistent data of one gateway, inaccessible to other users (home-access.ts). Credentials in
 * it are created once. A credential that others can read is refused, because another user may have read it.
 */
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { BackplaneError, diskFault, TOKEN_PREFIXES } from "@backplane/contract";
import { type HomeProblem, secureHome } from "./home-access.ts";

export interface Home {
  dir: string;
  store_file: string;
  blobs: string;
  scratch: string;
  /** Persistent data of plugins: one folder for each binding and project. */
  data: string;
  admin_token_file: string;
  admin_token: string;
  /** Repaired modes, and warnings about the parent folders. */
  problems: HomeProblem[];
}

export function openHome(dir: string): Home {
  const problems = prepareHome(dir);
  const blobs = join(dir, "blobs");
  const scratch = join(dir, "scratch");
  const data = join(dir, "data");
  mkdirSync(blobs, { recursive: true, mode: 0o700 });
  mkdirSync(scratch, { recursive: true, mode: 0o700 });
  mkdirSync(data, { recursive: true, mode: 0o700 });
  const admin_token_file = join(dir, "admin.token");
  const admin_token = readOrCreate(
    admin_token_file,
    () => `${TOKEN_PREFIXES.admin}${randomBytes(32).toString("base64url")}\n`,
  ).trim();
  if (admin_token.length < 20) {
    throw new BackplaneError("config.invalid", `${admin_token_file} does not contain a valid token.`, {
      fix: `Remove ${admin_token_file} and start the gateway again to create a new token.`,
    });
  }
  return {
    dir,
    store_file: join(dir, "store.db"),
    blobs,
    scratch,
    data,
    admin_token_file,
    admin_token,
    problems,
  };
}

/** Creates the home, or makes an existing one inaccessible to other users. Throws `home.unsafe`. */
export function prepareHome(dir: string): HomeProblem[] {
  createFolders(dir);
  return secureHome(dir);
}

/**
 * Reads the file, and creates it with one key if it is missing. Each line is a key, as `ID:HEX`. The last key encrypts
 * and all keys can decrypt; a rotation appends a line.
 */
export function readSecretKeys(file: string): { id: string; key: Uint8Array }[] {
  createFolders(dirname(file));
  const text = readOrCreate(file, () => `k1:${randomBytes(32).toString("hex")}\n`);
  const keys = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const match = /^([A-Za-z0-9_-]{1,16}):([0-9a-f]{64})$/.exec(line);
      if (match === null) {
        throw new BackplaneError("config.invalid", `${file} has a line that is not a key.`, {
          fix: "Write each key as ID:HEX with 64 hex digits. Never remove a key that has encrypted a secret.",
        });
      }
      return { id: match[1]!, key: Uint8Array.from(Buffer.from(match[2]!, "hex")) };
    });
  if (keys.length === 0) {
    throw new BackplaneError("config.invalid", `${file} does not contain a key.`, {
      fix: `Restore ${file} from a backup.`,
    });
  }
  return keys;
}

/** Appends the key as the last line; it is on disk when this returns. Existing lines are not changed. */
export function appendSecretKey(file: string, key: { id: string; key: Uint8Array }): void {
  try {
    const real = realpathSync(file);
    const text = readFileSync(real, "utf8");
    const line = `${key.id}:${Buffer.from(key.key).toString("hex")}\n`;
    replaceDurably(real, `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${line}`);
    fsyncFolder(dirname(real));
  } catch (error) {
    const fault = diskFault(error, "secret.key");
    if (fault !== null) throw fault;
    throw new BackplaneError("config.invalid", `${file} cannot be written, so no new key was created.`, {
      cause: error,
      fix: `Add a line ID:HEX with 64 hex digits to ${file} yourself, restart the gateway, and run: backplane secret rotate-key --reseal-only`,
    });
  }
}

/** Read by `backplane status` and other commands to find the running gateway. */
export interface DaemonState {
  url: string;
  pid: number;
  version: string;
}

export function writeDaemon(dir: string, state: DaemonState): void {
  const file = join(dir, "gateway.json");
  replaceDurably(file, `${JSON.stringify(state)}\n`);
}

export function clearDaemon(dir: string): void {
  rmSync(join(dir, "gateway.json"), { force: true });
}

/** Null when no gateway is running in this home, even when a killed one has left its state file. */
export function readDaemon(dir: string): DaemonState | null {
  try {
    const state = JSON.parse(readFileSync(join(dir, "gateway.json"), "utf8")) as DaemonState;
    process.kill(state.pid, 0);
    return state;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    if ((error as { code?: string }).code === "EPERM") {
      return JSON.parse(readFileSync(join(dir, "gateway.json"), "utf8")) as DaemonState;
    }
    return null;
  }
}

/**
 * Creates a folder and its parents, each with mode 0700 if it is new. The `recursive` option of mkdir is not used,
 * because it loops forever when the system returns ENOENT for an existing parent (/proc).
 */
export function createFolders(dir: string): void {
  const parent = dirname(dir);
  if (parent !== dir && !existsSync(parent)) createFolders(parent);
  try {
    mkdirSync(dir, { mode: 0o700 });
    chmodSync(dir, 0o700);
  } catch (error) {
    if ((error as { code?: string }).code !== "EEXIST" || !statSync(dir).isDirectory()) throw error;
  }
}

/** Reads the file and creates it first if it is missing. Concurrent processes get the same content. */
function readOrCreate(file: string, createContent: () => string): string {
  if (!existsSync(file)) {
    const draft = draftPath(file);
    try {
      writeDurably(draft, createContent());
      linkSync(draft, file);
    } catch (error) {
      if ((error as { code?: string }).code !== "EEXIST") throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  }
  const mode = statSync(file).mode & 0o077;
  if (mode !== 0 && process.platform !== "win32") {
    throw new BackplaneError("config.invalid", `${file} can be read by others.`, {
      fix: `chmod 600 ${file}`,
    });
  }
  return readFileSync(file, "utf8");
}

/** Makes renames in the folder durable. */
export function fsyncFolder(dir: string): void {
  const fd = openSync(dir, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

const draftPath = (file: string) => `${file}.${process.pid}.new`;

/** If the new content cannot be written completely, the file keeps its old content and no draft is left. */
function replaceDurably(file: string, content: string): void {
  const draft = draftPath(file);
  try {
    writeDurably(draft, content);
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

function writeDurably(file: string, content: string): void {
  const fd = openSync(file, "w", 0o600);
  try {
    // Unlike writeSync, writeFileSync fails unless everything is written.
    writeFileSync(fd, content);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

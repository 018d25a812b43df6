/**
 * The home folder: everything of one gateway that lasts, closed to other users (home-access.ts). Credentials in it are
 * made once; one with wider rights is refused, since somebody else may have read it.
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
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";
import { type HomeProblem, secureHome } from "./home-access.ts";

export interface Home {
  dir: string;
  store_file: string;
  blobs: string;
  scratch: string;
  /** What plugins keep: one folder for each binding and project. */
  data: string;
  admin_token_file: string;
  admin_token: string;
  /** Modes that were too wide and no longer are, and doubts about the folders above. */
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
  const admin_token = onceFile(
    admin_token_file,
    () => `bpa_${randomBytes(32).toString("base64url")}\n`,
  ).trim();
  if (admin_token.length < 20) {
    throw new BackplaneError("config.invalid", `${admin_token_file} holds no usable token`, {
      fix: `remove ${admin_token_file} and start again; a new one is made`,
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

/** Makes the home, or closes one that is there to other users. Throws `home.unsafe`. */
export function prepareHome(dir: string): HomeProblem[] {
  makeFolders(dir);
  return secureHome(dir);
}

/** `ID:HEX` a line; the last line seals, all open, so a rotated key is one more line. */
export function readSecretKeys(file: string): { id: string; key: Uint8Array }[] {
  makeFolders(dirname(file));
  const text = onceFile(file, () => `k1:${randomBytes(32).toString("hex")}\n`);
  const keys = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const match = /^([A-Za-z0-9_-]{1,16}):([0-9a-f]{64})$/.exec(line);
      if (match === null) {
        throw new BackplaneError("config.invalid", `${file} has a line that is no key`, {
          fix: "write each key as ID:HEX with 64 hex digits; never remove one that sealed a secret",
        });
      }
      return { id: match[1]!, key: Uint8Array.from(Buffer.from(match[2]!, "hex")) };
    });
  if (keys.length === 0) {
    throw new BackplaneError("config.invalid", `${file} holds no key`, {
      fix: `restore ${file} from a backup`,
    });
  }
  return keys;
}

/** The new key is the last line, and is on disk when this returns. A line that is there stays as it is. */
export function appendSecretKey(file: string, key: { id: string; key: Uint8Array }): void {
  try {
    const real = realpathSync(file);
    const text = readFileSync(real, "utf8");
    const draft = `${real}.${process.pid}.new`;
    const line = `${key.id}:${Buffer.from(key.key).toString("hex")}\n`;
    writeDurably(draft, `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}${line}`);
    renameSync(draft, real);
    syncFolder(dirname(real));
  } catch (error) {
    throw new BackplaneError("config.invalid", `${file} cannot be written: no new key was made.`, {
      cause: error,
      fix: `add a line ID:HEX with 64 hex digits to ${file} yourself, restart, and run backplane secret rotate-key --reseal-only`,
    });
  }
}

/** What `backplane status` and the other commands read to find the running gateway. */
export interface DaemonState {
  url: string;
  pid: number;
  version: string;
}

export function writeDaemon(dir: string, state: DaemonState): void {
  const file = join(dir, "gateway.json");
  writeDurably(`${file}.new`, `${JSON.stringify(state)}\n`);
  renameSync(`${file}.new`, file);
}

export function clearDaemon(dir: string): void {
  rmSync(join(dir, "gateway.json"), { force: true });
}

/** null when no gateway runs on this home; a state file left by a killed one is not believed. */
export function readDaemon(dir: string): DaemonState | null {
  try {
    const state = JSON.parse(readFileSync(join(dir, "gateway.json"), "utf8")) as DaemonState;
    process.kill(state.pid, 0);
    return state;
  } catch (error) {
    // EPERM: it runs, but belongs to another user.
    if ((error as { code?: string }).code === "EPERM") {
      return JSON.parse(readFileSync(join(dir, "gateway.json"), "utf8")) as DaemonState;
    }
    return null;
  }
}

/**
 * Makes a folder and those above it, each 0700 if it is new. Not mkdir's own `recursive`: where the system answers
 * ENOENT although the parent is there (/proc), that one tries for ever.
 */
export function makeFolders(dir: string): void {
  const above = dirname(dir);
  if (above !== dir && !existsSync(above)) makeFolders(above);
  try {
    mkdirSync(dir, { mode: 0o700 });
    chmodSync(dir, 0o700);
  } catch (error) {
    if ((error as { code?: string }).code !== "EEXIST" || !statSync(dir).isDirectory()) throw error;
  }
}

/** Reads the file, making it first if it is not there. Two processes that race get the same content. */
function onceFile(file: string, content: () => string): string {
  if (!existsSync(file)) {
    const draft = `${file}.${process.pid}.new`;
    writeDurably(draft, content());
    try {
      linkSync(draft, file);
    } catch (error) {
      if ((error as { code?: string }).code !== "EEXIST") throw error;
    } finally {
      rmSync(draft, { force: true });
    }
  }
  const mode = statSync(file).mode & 0o077;
  if (mode !== 0 && process.platform !== "win32") {
    throw new BackplaneError("config.invalid", `${file} can be read by others`, { fix: `chmod 600 ${file}` });
  }
  return readFileSync(file, "utf8");
}

function syncFolder(dir: string): void {
  const fd = openSync(dir, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function writeDurably(file: string, content: string): void {
  const fd = openSync(file, "w", 0o600);
  try {
    writeSync(fd, content);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

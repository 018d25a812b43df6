/**
 * Reads and replaces the configuration file of another program. A symbolic link is followed, so that a dotfile kept
 * elsewhere is changed there. The file is replaced by a rename, with the same mode and owner, after a copy of it has
 * been stored next to it.
 */
import { randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { BackplaneError, diskFault } from "@backplane/contract";

interface FileOwner {
  uid: number;
  gid: number;
}

export interface ConfigFile {
  /** The path that the client uses. */
  path: string;
  /** The path after symbolic links are followed. */
  target: string;
  /** Null if the file does not exist. */
  text: string | null;
  mode: number;
  /** Null for a file that does not exist. */
  owner: FileOwner | null;
}

const MAX_BYTES = 32 * 1024 * 1024;
const PRIVATE_MODE = 0o600;
const BACKUP_SUFFIX = ".backplane-backup";

export function readConfigFile(path: string): ConfigFile {
  return explainFailure(path, () => read(path));
}

function read(path: string): ConfigFile {
  if (!existsSync(path)) {
    if (isLink(path)) throw invalidFileError(path, "it is a symbolic link to a file that does not exist");
    return { path, target: path, text: null, mode: PRIVATE_MODE, owner: null };
  }
  const target = realpathSync(path);
  const { size, mode, uid, gid } = statRegularFile(path, target);
  if (size > MAX_BYTES) throw invalidFileError(path, `it is larger than ${MAX_BYTES / 1024 / 1024} MiB`);
  const bytes = readFileSync(target);
  const text = bytes.toString("utf8");
  // Rewriting a file that is not UTF-8 would change other bytes of it.
  if (!Buffer.from(text).equals(bytes)) throw invalidFileError(path, "it is not UTF-8");
  return { path, target, text, mode: mode & 0o7777, owner: { uid, gid } };
}

/** Returns the path of the backup, or null for a new file. Throws if the file is read-only or has changed meanwhile. */
export function replaceConfigFile(file: ConfigFile, text: string): string | null {
  return explainFailure(file.path, () => replace(file, text));
}

function replace(file: ConfigFile, text: string): string | null {
  const { target, mode } = file;
  const owner = file.owner ?? createFolder(dirname(target));
  assertReplaceable(file);
  const backup = file.text === null ? null : `${target}${BACKUP_SUFFIX}`;
  // The backup may contain credentials, so only its owner may read it, whatever the mode of the file is.
  if (backup !== null) writeAtomically(backup, file.text!, mode & PRIVATE_MODE, owner);
  writeAtomically(target, text, mode, owner);
  return backup;
}

/** Returns the text of the backup that `replaceConfigFile` stored, or null if there is none. */
export function readBackup({ target }: ConfigFile): string | null {
  const backup = `${target}${BACKUP_SUFFIX}`;
  return explainFailure(backup, () => (existsSync(backup) ? read(backup).text : null));
}

/**
 * Restores the content that the file had before `replaceConfigFile`, or removes a file that did not exist before. The
 * backup is no longer needed and is removed as well.
 */
export function restoreConfigFile(file: ConfigFile, text: string | null): void {
  explainFailure(file.path, () => {
    assertReplaceable(file);
    if (text === null) rmSync(file.target);
    else writeAtomically(file.target, text, file.mode, file.owner);
    rmSync(`${file.target}${BACKUP_SUFFIX}`, { force: true });
  });
}

/** Throws if the file is not writable or has changed since it was read. */
function assertReplaceable({ path, target, text, mode }: ConfigFile): void {
  // A rename would replace a file that its owner has made read-only, and root may write any file.
  if (text !== null && (mode & 0o222) === 0) throw invalidFileError(path, "it is read-only");
  if (text !== null) accessSync(target, constants.W_OK);
  if (read(path).text !== text)
    throw new BackplaneError("client.config_changed", `${path} was changed by another program.`);
}

/** Whether other users of the machine can read the file. */
export function isReadableByOthers({ text, mode }: ConfigFile): boolean {
  return text !== null && process.platform !== "win32" && (mode & 0o044) !== 0;
}

export function invalidFileError(path: string, reason: string): BackplaneError {
  return new BackplaneError("client.config_invalid", `${path} was not changed: ${reason}.`);
}

/** Reports a failure of the file system, such as missing permission, as a problem of this file. */
function explainFailure<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof BackplaneError || code === undefined) throw error;
    throw diskFault(error, path) ?? invalidFileError(path, `the file system reports ${code}`);
  }
}

function statRegularFile(path: string, target: string) {
  const stat = statSync(target);
  if (!stat.isFile()) throw invalidFileError(path, "it is not a regular file");
  return stat;
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

/**
 * Creates the folder with access only for its owner. Returns the owner for new files in it: for root the owner of the
 * folder, so that `sudo` leaves no file that the user cannot change; null for other users, who own what they create.
 */
function createFolder(folder: string): FileOwner | null {
  if (!existsSync(folder)) {
    const owner = createFolder(dirname(folder));
    mkdirSync(folder, { mode: 0o700 });
    setOwner(folder, owner);
  }
  if (process.getuid?.() !== 0) return null;
  const { uid, gid } = statSync(folder);
  return { uid, gid };
}

function writeAtomically(target: string, text: string, mode: number, owner: FileOwner | null): void {
  const draft = `${target}.${randomBytes(6).toString("hex")}.tmp`;
  try {
    writeFileSync(draft, text, { mode: PRIVATE_MODE, flag: "wx" });
    setOwner(draft, owner);
    // The mode is set after the owner, because a change of owner clears some mode bits.
    chmodSync(draft, mode);
    const fd = openSync(draft, "r");
    try {
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(draft, target);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
}

function setOwner(path: string, owner: FileOwner | null): void {
  if (owner === null || process.getuid === undefined) return;
  const { uid, gid } = statSync(path);
  if (uid !== owner.uid || gid !== owner.gid) chownSync(path, owner.uid, owner.gid);
}

/**
 * Access to the home. All data of the gateway is in this folder, so only the user of the gateway may access it: folders
 * have mode 0700 and files 0600. Files that a sandbox shows to another user (packages, sandbox-init) are readable
 * inside these folders, but that user reaches them only through a mount, never by their path on the host.
 *
 * Modes that are too permissive are repaired. Files that another user may have placed there are refused.
 */
import { chmodSync, lstatSync, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";

export interface HomeProblem {
  path: string;
  message: string;
  /** A command, or an instruction where no single command helps. */
  fix: string;
  /**
   * `repair`: the gateway corrects the mode at its next start. `refuse`: it does not start. `warn`: it starts anyway.
   */
  action: "repair" | "refuse" | "warn";
  mode?: number;
}

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
/** Folders whose entries are checked too. */
const INNER_FOLDERS = ["blobs", "plugins"];
/** Folders of programs that the gateway starts: they must not contain files of other users. */
const PROGRAM_FOLDERS = ["images", "programs", "sandbox", "tools"];
/** Not repaired, because other users may have read them already. The code that reads them refuses such modes. */
const CREDENTIALS = new Set(["admin.token", "secret.key"]);

/** Repairs modes and returns the problems. Throws `home.unsafe` for a problem with the action `refuse`. */
export function secureHome(dir: string): HomeProblem[] {
  const problems: HomeProblem[] = [];
  // The folder itself is repaired first, so that no other user can change its entries between their check and repair.
  for (const check of [checkFolder, checkEntries]) {
    for (const problem of check(dir)) {
      if (problem.action === "refuse") {
        throw new BackplaneError("home.unsafe", problem.message, { fix: problem.fix });
      }
      if (problem.mode !== undefined) chmodSync(problem.path, problem.mode);
      problems.push(problem);
    }
  }
  return problems;
}

/** Returns the same problems without repairing them, for `backplane doctor`. */
export function findHomeProblems(dir: string): HomeProblem[] {
  return [...checkFolder(dir), ...checkEntries(dir)];
}

function checkFolder(dir: string): HomeProblem[] {
  if (!hasModes()) return [];
  const info = lstatSync(dir);
  if (info.isSymbolicLink()) {
    const target = realpathSync(dir);
    return [
      createRefusal(
        dir,
        `The home ${dir} is a symbolic link to ${target}.`,
        `Set BACKPLANE_HOME to ${target} itself.`,
      ),
    ];
  }
  if (info.uid !== process.geteuid!()) {
    return [
      createRefusal(
        dir,
        `The home ${dir} belongs to user ${info.uid}, and the gateway runs as user ${process.geteuid!()}.`,
        `Run the gateway as user ${info.uid}, set BACKPLANE_HOME to another folder, or change its owner: chown -R ${process.geteuid!()} ${dir}`,
      ),
    ];
  }
  return [...checkParents(dir), ...checkMode(dir, info)];
}

/** A user who may rename the home, or a folder above it, can replace it. */
function checkParents(dir: string): HomeProblem[] {
  const problems: HomeProblem[] = [];
  for (let folder = realpathSync(dirname(dir)); ; folder = dirname(folder)) {
    const { mode, uid } = statSync(folder);
    const sticky = (mode & 0o1000) !== 0;
    if (!sticky && (mode & 0o002) !== 0) {
      problems.push(
        createRefusal(
          folder,
          `Every user of this machine can replace the home ${dir}: ${folder} is writable by all.`,
          `chmod o-w ${folder}`,
        ),
      );
    } else if (!sticky && (mode & 0o020) !== 0) {
      // Not refused: private groups, and volumes shared with a container by group, are common.
      problems.push({
        path: folder,
        message: `${folder} is writable by its group, whose members can replace the home ${dir}`,
        fix: `chmod g-w ${folder}`,
        action: "warn",
      });
    }
    if (uid !== 0 && uid !== process.geteuid!()) {
      problems.push({
        path: folder,
        message: `${folder} belongs to user ${uid}, who can replace the home ${dir}`,
        fix: "set BACKPLANE_HOME to a folder whose parents all belong to root or to the gateway's user",
        action: "warn",
      });
    }
    if (dirname(folder) === folder) return problems;
  }
}

function checkEntries(dir: string): HomeProblem[] {
  if (!hasModes()) return [];
  const problems: HomeProblem[] = [];
  for (const { path, name, info } of listEntries(dir)) {
    if (isForeign(info)) problems.push(createForeignFileRefusal(path, info));
    else if (!CREDENTIALS.has(name)) problems.push(...checkMode(path, info));
  }
  for (const name of INNER_FOLDERS) {
    for (const { path, info } of listEntries(join(dir, name))) {
      if (isForeign(info)) problems.push(createForeignFileRefusal(path, info));
      else problems.push(...checkMode(path, info));
    }
  }
  for (const name of PROGRAM_FOLDERS) {
    for (const { path, info } of listEntries(join(dir, name))) {
      if (isForeign(info)) problems.push(createForeignFileRefusal(path, info));
    }
  }
  return problems;
}

function listEntries(folder: string): { path: string; name: string; info: Stats }[] {
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const entries: { path: string; name: string; info: Stats }[] = [];
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const info = lstatSync(path, { throwIfNoEntry: false });
    if (info !== undefined) entries.push({ path, name, info });
  }
  return entries;
}

/** Symbolic links have no mode of their own, and the operator is responsible for their targets. */
function checkMode(path: string, info: Stats): HomeProblem[] {
  if (!info.isDirectory() && !info.isFile()) return [];
  const mode = info.isDirectory() ? FOLDER_MODE : FILE_MODE;
  const actual_mode = info.mode & 0o7777;
  if ((actual_mode & 0o077) === 0) return [];
  return [
    {
      path,
      message: `${path} is accessible to other users (${octal(actual_mode)})`,
      fix: `chmod ${octal(mode)} ${path}`,
      action: "repair",
      mode,
    },
  ];
}

/** Files of root are accepted: root may have run `doctor` or a restore. */
function isForeign({ uid }: Stats): boolean {
  return uid !== 0 && uid !== process.geteuid!();
}

function createForeignFileRefusal(path: string, { uid }: Stats): HomeProblem {
  return createRefusal(
    path,
    `${path} belongs to user ${uid}, and the gateway runs as user ${process.geteuid!()}.`,
    `Remove it, or change its owner if you know where it comes from: chown -R ${process.geteuid!()} ${path}`,
  );
}

function createRefusal(path: string, message: string, fix: string): HomeProblem {
  return { path, message, fix, action: "refuse" };
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

function hasModes(): boolean {
  return process.platform !== "win32";
}

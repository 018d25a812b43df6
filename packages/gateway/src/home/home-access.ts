/**
 * Who may reach the home. Everything that the gateway knows is in this folder, so it belongs to the gateway's own user
 * and to nobody else: the folder and the folders in it are 0700, its files 0600. What a sandbox shows to another user
 * (package bytes, sandbox-init) is open further down, and is reached through a mount, never by its path on the host.
 *
 * Modes that are too wide are repaired; anything that another user may already have put there is refused.
 */
import { chmodSync, lstatSync, readdirSync, realpathSync, type Stats, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { BackplaneError } from "@backplane/contract";

export interface HomeProblem {
  path: string;
  message: string;
  /** A command, or what to do instead. */
  fix: string;
  /** `repair`: the gateway changes the mode at its next start. `refuse`: it does not start. `warn`: it starts. */
  action: "repair" | "refuse" | "warn";
  mode?: number;
}

const FOLDER = 0o700;
const FILE = 0o600;
/** Below the top level: folders whose entries are the gateway's own or are named by digests that it keeps private. */
const INNER_FOLDERS = ["blobs", "plugins"];
/** Folders with programs that the gateway starts: nobody else may have put one there. */
const PROGRAM_FOLDERS = ["images", "programs", "sandbox"];
/** Credentials are refused by who reads them when others could read them: a new mode does not take a reading back. */
const CREDENTIALS = new Set(["admin.token", "secret.key"]);

/** Repairs what can be repaired and returns what it found; throws `home.unsafe` for the rest. `dir` exists. */
export function secureHome(dir: string): HomeProblem[] {
  const found: HomeProblem[] = [];
  // The folder itself comes first: once it is closed, nobody changes what is in it between a look and a change.
  for (const look of [lookAtFolder, lookInside]) {
    for (const problem of look(dir)) {
      if (problem.action === "refuse") {
        throw new BackplaneError("home.unsafe", problem.message, { fix: problem.fix });
      }
      if (problem.mode !== undefined) chmodSync(problem.path, problem.mode);
      found.push(problem);
    }
  }
  return found;
}

/** The same, changing nothing: for `doctor`. */
export function findHomeProblems(dir: string): HomeProblem[] {
  return [...lookAtFolder(dir), ...lookInside(dir)];
}

function lookAtFolder(dir: string): HomeProblem[] {
  if (!hasModes()) return [];
  const info = lstatSync(dir);
  if (info.isSymbolicLink()) {
    const target = realpathSync(dir);
    return [
      refuse(
        dir,
        `The home ${dir} is a symbolic link to ${target}.`,
        `Set BACKPLANE_HOME to ${target} itself.`,
      ),
    ];
  }
  if (info.uid !== process.geteuid!()) {
    return [
      refuse(
        dir,
        `The home ${dir} belongs to user ${info.uid}, and the gateway runs as user ${process.geteuid!()}.`,
        `Run the gateway as user ${info.uid}, set BACKPLANE_HOME to another folder, or give it away: chown -R ${process.geteuid!()} ${dir}`,
      ),
    ];
  }
  return [...lookAbove(dir), ...tooWide(dir, info)];
}

/** Whoever may rename the home, or a folder above it, can put another one in its place. */
function lookAbove(dir: string): HomeProblem[] {
  const problems: HomeProblem[] = [];
  for (let folder = realpathSync(dirname(dir)); ; folder = dirname(folder)) {
    const { mode, uid } = statSync(folder);
    const sticky = (mode & 0o1000) !== 0;
    if (!sticky && (mode & 0o002) !== 0) {
      problems.push(
        refuse(
          folder,
          `Every user of this machine can replace the home ${dir}: ${folder} is writable by all.`,
          `chmod o-w ${folder}`,
        ),
      );
    } else if (!sticky && (mode & 0o020) !== 0) {
      // Not refused: a group of one's own and volumes that a container shares by group are usual.
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
        fix: "set BACKPLANE_HOME to a folder below one of root or of the gateway's user",
        action: "warn",
      });
    }
    if (dirname(folder) === folder) return problems;
  }
}

function lookInside(dir: string): HomeProblem[] {
  if (!hasModes()) return [];
  const problems: HomeProblem[] = [];
  for (const { path, name, info } of entriesOf(dir)) {
    if (isForeign(info)) problems.push(foreign(path, info));
    else if (!CREDENTIALS.has(name)) problems.push(...tooWide(path, info));
  }
  for (const name of INNER_FOLDERS) {
    for (const { path, info } of entriesOf(join(dir, name))) {
      if (isForeign(info)) problems.push(foreign(path, info));
      else problems.push(...tooWide(path, info));
    }
  }
  for (const name of PROGRAM_FOLDERS) {
    for (const { path, info } of entriesOf(join(dir, name))) {
      if (isForeign(info)) problems.push(foreign(path, info));
    }
  }
  return problems;
}

function entriesOf(folder: string): { path: string; name: string; info: Stats }[] {
  if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const entries: { path: string; name: string; info: Stats }[] = [];
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const info = lstatSync(path, { throwIfNoEntry: false });
    if (info !== undefined) entries.push({ path, name, info });
  }
  return entries;
}

/** A link has no mode of its own, and what it leads to is the operator's. */
function tooWide(path: string, info: Stats): HomeProblem[] {
  if (!info.isDirectory() && !info.isFile()) return [];
  const mode = info.isDirectory() ? FOLDER : FILE;
  const has = info.mode & 0o7777;
  if ((has & 0o077) === 0) return [];
  return [
    {
      path,
      message: `${path} is open to other users (${octal(has)})`,
      fix: `chmod ${octal(mode)} ${path}`,
      action: "repair",
      mode,
    },
  ];
}

/** Root may have run `doctor` or a restore here. */
function isForeign({ uid }: Stats): boolean {
  return uid !== 0 && uid !== process.geteuid!();
}

function foreign(path: string, { uid }: Stats): HomeProblem {
  return refuse(
    path,
    `${path} belongs to user ${uid}, and the gateway runs as user ${process.geteuid!()}.`,
    `Remove it, or take it over when you know where it comes from: chown -R ${process.geteuid!()} ${path}`,
  );
}

function refuse(path: string, message: string, fix: string): HomeProblem {
  return { path, message, fix, action: "refuse" };
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, "0");
}

function hasModes(): boolean {
  return process.platform !== "win32";
}

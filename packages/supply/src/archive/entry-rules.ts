/**
 * Rules for the names in an archive. An accepted name means the same file on every system: it is relative and
 * normalized, and no other name of the archive is equal to it on a file system that folds case or Unicode forms
 * (pkg.unpack-safe).
 */
import { type BuildRefusal, unsafe } from "./unsafe.ts";

const MAX_PATH_BYTES = 1024;
const MAX_PART_BYTES = 255;
export const MAX_PARTS = 32;
const RESERVED = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?$/i;
const CONTROL = /[\p{Cc}\u2028\u2029]/u;
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/;

/** Returns the name as a path inside the tree, or "" for the root folder itself. Throws `package.unsafe`. */
export function safePath(name: string, isFolder: boolean, refuse: BuildRefusal = unsafe): string {
  if (name === "") throw refuse("name", "it has no name", name);
  if (CONTROL.test(name)) throw refuse("control-character", "its name contains a control character", name);
  if (INVISIBLE.test(name))
    throw refuse("invisible-character", "its name contains an invisible character", name);
  if (name.includes("\\")) throw refuse("backslash", "its name contains a backslash", name);
  if (name.startsWith("/")) throw refuse("absolute-path", "its path is absolute", name);
  if (/^[A-Za-z]:/.test(name)) throw refuse("drive-letter", "its path begins with a drive letter", name);
  if (isFolder && /^\.\/?$/.test(name)) return "";
  let path = name.startsWith("./") ? name.slice(2) : name;
  if (isFolder && path.endsWith("/")) path = path.slice(0, -1);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw refuse("path-too-long", `its path is longer than ${MAX_PATH_BYTES} bytes`, name);
  }
  const parts = path.split("/");
  if (parts.length > MAX_PARTS)
    throw refuse("path-too-deep", `it is nested deeper than ${MAX_PARTS} folders`, name);
  for (const part of parts) checkPart(part, name, refuse);
  // Some file systems fold compatibility forms, so the folded name must be safe too.
  const folded = path.normalize("NFKC");
  if (folded !== path) {
    if (folded.split("/").length !== parts.length || /[\\:]/.test(folded)) {
      throw refuse("unicode-path", "its name becomes another path in Unicode compatibility form", name);
    }
    for (const part of folded.split("/")) checkPart(part, name, refuse);
  }
  return path;
}

function checkPart(part: string, name: string, refuse: BuildRefusal): void {
  if (part === "..") throw refuse("path-traversal", 'its path contains ".."', name);
  if (part === "" || part === ".")
    throw refuse("path-form", 'its path has a part that is empty or "."', name);
  if (part.startsWith(".wh.")) throw refuse("whiteout", "it is a whiteout file of a container layer", name);
  if (/[. ]$/.test(part)) throw refuse("trailing-dot", "a part of its path ends with a dot or a space", name);
  if (part.includes(":")) throw refuse("colon", "its path contains a colon", name);
  if (RESERVED.test(part)) throw refuse("reserved-name", "its name is reserved on Windows", name);
  if (Buffer.byteLength(part) > MAX_PART_BYTES) {
    throw refuse("name-too-long", `a part of its path is longer than ${MAX_PART_BYTES} bytes`, name);
  }
}

export interface NameLedger {
  /**
   * Throws `package.unsafe` when the path repeats an earlier one, would equal one on some file system, or needs a
   * folder where there is a file.
   */
  add(path: string, kind: "file" | "folder"): void;
}

export function createNameLedger(refuse: BuildRefusal = unsafe): NameLedger {
  const seen = new Map<string, { path: string; kind: "file" | "folder"; listed: boolean }>();
  return {
    add(path, kind) {
      for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
        const folder = path.slice(0, slash);
        const known = seen.get(foldCase(folder));
        if (known === undefined) seen.set(foldCase(folder), { path: folder, kind: "folder", listed: false });
        else if (known.path !== folder) throw collision(path, known.path, refuse);
        else if (known.kind === "file") {
          throw refuse("file-and-folder", `${JSON.stringify(folder)} is already a file`, path);
        }
      }
      const known = seen.get(foldCase(path));
      if (known === undefined) {
        seen.set(foldCase(path), { path, kind, listed: true });
        return;
      }
      if (known.path !== path) throw collision(path, known.path, refuse);
      if (known.kind !== kind) throw refuse("file-and-folder", `it is already a ${known.kind}`, path);
      if (known.listed) throw refuse("duplicate", "it is listed twice", path);
      known.listed = true;
    },
  };
}

function collision(path: string, other: string, refuse: BuildRefusal): Error {
  return refuse("collision", `on some file systems it is the same name as ${JSON.stringify(other)}`, path);
}

/** Maps all names that a file system may treat as equal to one key. */
function foldCase(path: string): string {
  return path.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC");
}

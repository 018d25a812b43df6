/**
 * Which names an archive may hold. A name that passes means the same file on every system we unpack on:
 * relative, plain, one spelling, no two names that some file system would take for one (pkg.unpack-safe).
 */
import { unsafe } from "./unsafe.ts";

const MAX_PATH_BYTES = 1024;
const MAX_PART_BYTES = 255;
const MAX_PARTS = 32;
const RESERVED = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(\..*)?$/i;
const CONTROL = /[\p{Cc}\u2028\u2029]/u;
const INVISIBLE = /[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/;

/** The name as a path inside the tree, or "" for the root folder itself. Throws `package.unsafe`. */
export function safePath(name: string, isFolder: boolean): string {
  if (name === "") throw unsafe("name", "it has no name", name);
  if (CONTROL.test(name)) throw unsafe("control-character", "its name holds a control character", name);
  if (INVISIBLE.test(name))
    throw unsafe("invisible-character", "its name holds an invisible character", name);
  if (name.includes("\\")) throw unsafe("backslash", "its name holds a backslash", name);
  if (name.startsWith("/")) throw unsafe("absolute-path", "its path is absolute", name);
  if (/^[A-Za-z]:/.test(name)) throw unsafe("drive-letter", "its path names a drive", name);
  if (isFolder && /^\.\/?$/.test(name)) return "";
  let path = name.startsWith("./") ? name.slice(2) : name;
  if (isFolder && path.endsWith("/")) path = path.slice(0, -1);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    throw unsafe("path-too-long", `its path is longer than ${MAX_PATH_BYTES} bytes`, name);
  }
  const parts = path.split("/");
  if (parts.length > MAX_PARTS)
    throw unsafe("path-too-deep", `it lies deeper than ${MAX_PARTS} folders`, name);
  for (const part of parts) checkPart(part, name);
  // Some file systems fold compatibility forms: a name must stay harmless after that too.
  const folded = path.normalize("NFKC");
  if (folded !== path) {
    if (folded.split("/").length !== parts.length || /[\\:]/.test(folded)) {
      throw unsafe("unicode-path", "its name turns into another path in compatibility form", name);
    }
    for (const part of folded.split("/")) checkPart(part, name);
  }
  return path;
}

function checkPart(part: string, name: string): void {
  if (part === "..") throw unsafe("path-traversal", "its path steps upwards", name);
  if (part === "" || part === ".") throw unsafe("path-form", "its path has an empty part", name);
  if (part.startsWith(".wh.")) throw unsafe("whiteout", "it is a whiteout of a container layer", name);
  if (/[. ]$/.test(part)) throw unsafe("trailing-dot", "a part of its path ends with a dot or a space", name);
  if (part.includes(":")) throw unsafe("colon", "its path holds a colon", name);
  if (RESERVED.test(part)) throw unsafe("reserved-name", "its name is reserved on Windows", name);
  if (Buffer.byteLength(part) > MAX_PART_BYTES) {
    throw unsafe("name-too-long", `a part of its path is longer than ${MAX_PART_BYTES} bytes`, name);
  }
}

export interface NameLedger {
  /** Throws `package.unsafe` when the path is, or could be taken for, one that is there already. */
  add(path: string, kind: "file" | "folder"): void;
}

export function createNameLedger(): NameLedger {
  const seen = new Map<string, { path: string; kind: "file" | "folder"; listed: boolean }>();
  return {
    add(path, kind) {
      for (let slash = path.indexOf("/"); slash !== -1; slash = path.indexOf("/", slash + 1)) {
        const folder = path.slice(0, slash);
        const before = seen.get(foldCase(folder));
        if (before === undefined) seen.set(foldCase(folder), { path: folder, kind: "folder", listed: false });
        else if (before.path !== folder) throw collision(path, before.path);
        else if (before.kind === "file") {
          throw unsafe("file-and-folder", `${JSON.stringify(folder)} is a file already`, path);
        }
      }
      const before = seen.get(foldCase(path));
      if (before === undefined) {
        seen.set(foldCase(path), { path, kind, listed: true });
        return;
      }
      if (before.path !== path) throw collision(path, before.path);
      if (before.kind !== kind) throw unsafe("file-and-folder", `it is a ${before.kind} already`, path);
      if (before.listed) throw unsafe("duplicate", "it is in the archive twice", path);
      before.listed = true;
    },
  };
}

function collision(path: string, other: string): Error {
  return unsafe("collision", `some file systems take it for ${JSON.stringify(other)}`, path);
}

/** One key for all spellings that a case- or form-folding file system treats alike. */
function foldCase(path: string): string {
  return path.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC");
}

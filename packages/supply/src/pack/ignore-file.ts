/** `.vaiignore`: one pattern a line, `*`, `**` and `?`, a trailing `/` for folders, a leading `/` for the root, `#` comments. */
export const IGNORE_FILE = ".vaiignore";

/** Never part of a package: version control, caches, the links of npm. */
const ALWAYS = [
  ".git",
  ".hg",
  ".svn",
  ".DS_Store",
  "__pycache__/",
  "node_modules/.cache",
  "node_modules/.bin",
  "**/node_modules/.cache",
  "**/node_modules/.bin",
  "/.vaiignore",
];

export type Ignores = (path: string, isFolder: boolean) => boolean;

interface Rule {
  fits(path: string): boolean;
  folderOnly: boolean;
}

export function readIgnores(text: string): Ignores {
  const rules = [...ALWAYS, ...text.split(/\r?\n/)]
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map(toRule);
  return (path, isFolder) => rules.some((rule) => (isFolder || !rule.folderOnly) && rule.fits(path));
}

function toRule(line: string): Rule {
  const folderOnly = line.endsWith("/");
  const glob = folderOnly ? line.slice(0, -1) : line;
  // As in .gitignore: a pattern with a slash is meant from the root, one without anywhere.
  const anywhere = !glob.includes("/");
  const body = glob.replace(/^\//, "");
  if (!/[*?]/.test(body)) {
    const fits = (path: string) => path === body || (anywhere && path.endsWith(`/${body}`));
    return { fits, folderOnly };
  }
  const pieces = `${anywhere ? "**/" : ""}${body}`.match(/\*\*\/|\*\*|[\s\S]/gu) ?? [];
  return { fits: (path) => matches(pieces, path), folderOnly };
}

/**
 * Keeps every place of the pattern that the path so far can have reached, so its time is the product of both
 * lengths: a stranger's pattern of many stars costs no more than any other of its length.
 */
function matches(pieces: readonly string[], path: string): boolean {
  let places = withSkips(new Set([0]), pieces, true);
  for (const char of path) {
    const next = new Set<number>();
    for (const place of places) {
      const piece = pieces[place];
      if (piece === "**" || piece === "**/" || (piece === "*" && char !== "/")) next.add(place);
      else if (piece === char || (piece === "?" && char !== "/")) next.add(place + 1);
    }
    places = withSkips(next, pieces, char === "/");
    if (places.size === 0) return false;
  }
  return places.has(pieces.length);
}

/** Stars may stand for nothing; `**` followed by a slash ends only where a name begins. */
function withSkips(places: Set<number>, pieces: readonly string[], atName: boolean): Set<number> {
  // A set hands out what is added while it is walked.
  for (const place of places) {
    const piece = pieces[place];
    if (piece === "*" || piece === "**" || (piece === "**/" && atName)) places.add(place + 1);
  }
  return places;
}

/** `.vaiignore`: patterns as in .gitignore. */
import { BackplaneError, SIGNATURE_FILE } from "@backplane/contract";

export const IGNORE_FILE = ".vaiignore";

/** These files are never part of a package, and no pattern can include them: version control, caches, npm's links. */
const ALWAYS_IGNORED = [
  ".git",
  ".hg",
  ".svn",
  ".DS_Store",
  "__pycache__/",
  "**/node_modules/.cache",
  "**/node_modules/.bin",
  "**/node_modules/.package-lock.json",
  `/${IGNORE_FILE}`,
  // The signature covers the digest of the other files.
  `/${SIGNATURE_FILE}`,
];

/**
 * A package that is being imported brings its own patterns, and the library matches with backtracking expressions.
 * The time of one match grows like the depth of the path raised to the number of `**`, so both are limited, and so is
 * the time of all matches together.
 */
const MAX_PATTERNS = 500;
const MAX_GLOBSTARS = 2;
const MAX_MATCH_MS = 5_000;

/** Whether a path is ignored. `path` is relative to the folder of `.vaiignore`, with forward slashes. */
export type IgnoreCheck = (path: string, isFolder: boolean) => boolean;

/** `text` is the content of `.vaiignore`. Throws `package.source_invalid` for patterns that could take too long. */
export async function createIgnoreCheck(text: string, max_match_ms = MAX_MATCH_MS): Promise<IgnoreCheck> {
  checkPatterns(text);
  // Loaded on first use, so that it does not delay the start of the gateway (benchmark boot.ready).
  const { default: createIgnore } = await import("ignore");
  const always = createIgnore({ ignorecase: false }).add(ALWAYS_IGNORED);
  const custom = createIgnore({ ignorecase: false }).add(text);
  let spent_ms = 0;
  return (path, isFolder) => {
    const tested = isFolder ? `${path}/` : path;
    if (always.ignores(tested)) return true;
    const started_at = performance.now();
    const ignored = custom.ignores(tested);
    spent_ms += performance.now() - started_at;
    if (spent_ms > max_match_ms) throw invalid("matching its patterns takes too long; use fewer of them");
    return ignored;
  };
}

function checkPatterns(text: string): void {
  const lines = text.split(/\r?\n/);
  const patterns = lines.filter((line) => line.trim() !== "" && !line.startsWith("#"));
  if (patterns.length > MAX_PATTERNS) throw invalid(`it has more than ${MAX_PATTERNS} patterns`);
  for (const [index, line] of lines.entries()) {
    if ((line.match(/\*{2,}/g) ?? []).length > MAX_GLOBSTARS) {
      throw invalid(`line ${index + 1} has more than ${MAX_GLOBSTARS} "**"`);
    }
  }
}

function invalid(problem: string): BackplaneError {
  return new BackplaneError("package.source_invalid", `${IGNORE_FILE} cannot be used: ${problem}.`);
}

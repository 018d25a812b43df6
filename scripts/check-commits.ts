/**
 * Checks commit subjects: `type(module): imperative summary`, at most 72 characters. Commits older than this
 * script are skipped. A folder without history, such as an unpacked archive, passes.
 */
import { execFileSync } from "node:child_process";

const TYPES = ["feat", "fix", "perf", "refactor", "test", "docs", "style", "build", "ci", "chore", "revert"];
const SUBJECT = new RegExp(`^(${TYPES.join("|")})(\\([a-z0-9,-]+\\))?!?: [a-z0-9\`/.-]`);
const MAX_LENGTH = 72;

/** Returns the problem with a subject, or null if it is valid. */
export function subjectProblem(subject: string): string | null {
  if (subject.startsWith("Merge ")) return null;
  if (subject.length > MAX_LENGTH)
    return `it has ${subject.length} characters, and at most ${MAX_LENGTH} are allowed`;
  if (!SUBJECT.test(subject))
    return `it is not "type(module): imperative summary" with one of the types ${TYPES.join(", ")}`;
  return subject.endsWith(".") ? "it ends with a period" : null;
}

function git(...args: string[]): string {
  return execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
}

function main(): void {
  let first: string | undefined;
  try {
    first = git("log", "--diff-filter=A", "--format=%H", "--", "scripts/check-commits.ts").split("\n").at(-1);
  } catch {
    console.log("There is no git history here, so commit subjects were not checked.");
    return;
  }
  if (first === undefined || first === "") return;
  const bad = git("log", "--format=%h %s", `${first}..HEAD`)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ line, problem: subjectProblem(line.slice(line.indexOf(" ") + 1)) }))
    .filter(({ problem }) => problem !== null);
  for (const { line, problem } of bad) console.error(`${line}\n    ${problem}`);
  if (bad.length > 0) process.exitCode = 1;
}

if (import.meta.main) main();

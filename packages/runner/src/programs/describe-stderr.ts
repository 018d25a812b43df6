/**
 * Picks the lines of stderr that explain why a process failed. The cause is often not the last line: programs print
 * their usage, a stack trace or a closing message after it.
 */
import { stripVTControlCharacters } from "node:util";

const MAX_LINES = 400;
const MAX_ERRORS = 3;
const CONTEXT_LINES = 2;
const LINE_CHARS = 200;

/** Markers such as `Error:`, `ValueError:`, `[error]`, `npm error`, `2026-01-01 FATAL …`, `panic:`, `level=error`. */
const MARKED =
  /(?:^|[\s[(<"'=|])(?:[\w.$]*(?:Error|Exception)|error|fatal|panic|critical|ERR!?|E\d{3,5})(?:\s?[:\]>)|!]|\s+\[|["']\s|\s+-\s)|^(?:error|fatal|panic|uncaught|unhandled)\b|level=(?:error|fatal)\b/i;
/** Words that describe a failure in lines without a marker. */
const WORDED =
  /\b(?:failed|failure|cannot|can't|could not|couldn't|unable to|denied|refused|invalid|missing|required|not found|not set|no such|unknown|unsupported|must (?:be|have|provide|specify)|please (?:set|provide|specify)|E(?:CONN\w+|NOENT|ACCES|PERM|ROFS|AI_\w+|TIMEDOUT|HOSTUNREACH|NETUNREACH))\b/i;
/** The start of a help text, which lists words such as "required" for other reasons. */
const HELP =
  /^\s*(?:usage|options|arguments|commands|examples?|flags|environment variables)\s*:?\s*$|^\s*usage:/i;
const HEADING = /^\s*\w[\w ]*:\s*$/;
/** Frames of a stack trace, closing brackets and the version line of Node. */
const NOISE = /^\s*(?:at\s|File ".*", line \d|\^+\s*$|[{}\])\s]*$|Node\.js v\d|goroutine \d|Traceback )/;

/** Returns one sentence that quotes these lines; null if there is no line to quote. */
export function describeStderr(stderr: string): string | null {
  // Color codes would otherwise hide the words to look for.
  const lines = stripVTControlCharacters(stderr).replaceAll("\r", "").split("\n").slice(-MAX_LINES);
  const last = findLastLine(lines);
  if (last === -1) return null;
  const errors = findErrorLines(lines);
  const [first] = errors;
  if (first === undefined || (errors.length === 1 && first === last))
    return `Last line on stderr: ${clip(lines[last]!)}`;
  const excerpt = errors.length > 1 ? errors : [first, ...contextAfter(lines, first)];
  return `From stderr: ${withoutRepetitions(excerpt.map((index) => clip(lines[index]!))).join(" | ")}`;
}

/** Drops a line that another one contains: programs often log an error and then exit with it. */
function withoutRepetitions(lines: readonly string[]): string[] {
  return lines.filter(
    (line, index) =>
      !lines.some((other, other_index) => (other === line ? other_index < index : other.includes(line))),
  );
}

/** The last lines with an error marker, without repetitions; otherwise the first line that describes a failure. */
function findErrorLines(lines: readonly string[]): number[] {
  const help_index = lines.findIndex((line) => HELP.test(line));
  const marked = new Map<string, number>();
  for (const [index, line] of lines.entries()) {
    if (NOISE.test(line) || !MARKED.test(line) || isListed(line, index, help_index)) continue;
    const text = clip(line);
    marked.delete(text);
    marked.set(text, index);
  }
  if (marked.size > 0) return [...marked.values()].slice(-MAX_ERRORS);
  const worded = lines.findIndex(
    (line, index) => !NOISE.test(line) && WORDED.test(line) && !isListed(line, index, help_index),
  );
  return worded === -1 ? [] : [worded];
}

/** True for an indented line of a help text. */
function isListed(line: string, index: number, help_index: number): boolean {
  return help_index !== -1 && index > help_index && /^\s/.test(line);
}

function contextAfter(lines: readonly string[], index: number): number[] {
  const positions: number[] = [];
  for (let next = index + 1; next < lines.length && positions.length < CONTEXT_LINES; next++) {
    const line = lines[next]!;
    if (line.trim() === "") continue;
    if (NOISE.test(line) || HEADING.test(line)) break;
    positions.push(next);
  }
  return positions;
}

/** The last unindented line that is not part of a stack trace. */
function findLastLine(lines: readonly string[]): number {
  return lines.findLastIndex((line) => !/^\s/.test(line) && !NOISE.test(line) && line.trim() !== "");
}

function clip(text: string): string {
  const line = text.trim().replaceAll(/\s+/g, " ");
  return line.length > LINE_CHARS ? `${line.slice(0, LINE_CHARS)}…` : line;
}

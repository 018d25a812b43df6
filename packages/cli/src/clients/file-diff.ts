import { TOKEN_PREFIX_SOURCE } from "@backplane/contract";

/**
 * Formats a change to a file as a diff. Null means that the file does not exist. Tokens of the gateway are masked,
 * because the output may end up in a log.
 */
export function formatDiff(path: string, before: string | null, after: string | null): string {
  const old_lines = splitLines(before);
  const new_lines = splitLines(after);
  let start = 0;
  while (start < Math.min(old_lines.length, new_lines.length) && old_lines[start] === new_lines[start])
    start++;
  let end = 0;
  const max_end = Math.min(old_lines.length, new_lines.length) - start;
  while (end < max_end && old_lines.at(-1 - end) === new_lines.at(-1 - end)) end++;
  const removed = old_lines.slice(start, old_lines.length - end);
  const added = new_lines.slice(start, new_lines.length - end);
  return [
    `--- ${before === null ? "/dev/null" : path}`,
    `+++ ${after === null ? "/dev/null" : path}`,
    `@@ -${formatRange(start, removed.length)} +${formatRange(start, added.length)} @@`,
    ...removed.map((line) => `-${maskTokens(line)}`),
    ...added.map((line) => `+${maskTokens(line)}`),
  ].join("\n");
}

function splitLines(text: string | null): string[] {
  if (text === null || text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

/** As in a unified diff without context: an empty range refers to the line before it. */
function formatRange(start: number, count: number): string {
  return `${count === 0 ? start : start + 1},${count}`;
}

/** A person may have written the admin token into the file. */
const TOKEN = new RegExp(`(${TOKEN_PREFIX_SOURCE})[A-Za-z0-9_-]+`, "g");

function maskTokens(line: string): string {
  return line.replaceAll(TOKEN, (_token, prefix: string) => `${prefix}…`);
}

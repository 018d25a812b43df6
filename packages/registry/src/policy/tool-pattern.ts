/**
 * Matches tool names against patterns with `*`. The matcher is written by hand because patterns come from users and
 * must not cause catastrophic backtracking.
 */

export type ToolMatcher = (name: string) => boolean;

export function compileToolPatterns(patterns: readonly string[]): ToolMatcher {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const open = patterns.filter((pattern) => pattern.includes("*"));
  if (open.length === 0) return (name) => exact.has(name);
  return (name) => exact.has(name) || open.some((pattern) => matches(pattern, name));
}

/** Only the last `*` is ever retried, so the time is at most pattern length times name length. */
function matches(pattern: string, name: string): boolean {
  let at = 0;
  let star = -1;
  let retry_at = 0;
  let p = 0;
  while (at < name.length) {
    if (p < pattern.length && pattern[p] === "*") {
      star = p++;
      retry_at = at;
    } else if (p < pattern.length && pattern[p] === name[at]) {
      p++;
      at++;
    } else if (star >= 0) {
      p = star + 1;
      at = ++retry_at;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

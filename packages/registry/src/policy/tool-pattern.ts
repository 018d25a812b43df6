/**
 * Matches tool names against patterns with `*`. The matcher is written by hand because patterns come from users and
 * must not cause catastrophic backtracking.
 */

export type ToolMatcher = (name: string) => boolean;

export function compileToolPatterns(patterns: readonly string[]): ToolMatcher {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const wildcard_patterns = patterns.filter((pattern) => pattern.includes("*"));
  if (wildcard_patterns.length === 0) return (name) => exact.has(name);
  return (name) => exact.has(name) || wildcard_patterns.some((pattern) => matches(pattern, name));
}

/** Only the last `*` is ever retried, so the time is at most pattern length times name length. */
function matches(pattern: string, name: string): boolean {
  let position = 0;
  let star = -1;
  let retry_at = 0;
  let pattern_index = 0;
  while (position < name.length) {
    if (pattern_index < pattern.length && pattern[pattern_index] === "*") {
      star = pattern_index++;
      retry_at = position;
    } else if (pattern_index < pattern.length && pattern[pattern_index] === name[position]) {
      pattern_index++;
      position++;
    } else if (star >= 0) {
      pattern_index = star + 1;
      position = ++retry_at;
    } else return false;
  }
  while (pattern[pattern_index] === "*") pattern_index++;
  return pattern_index === pattern.length;
}

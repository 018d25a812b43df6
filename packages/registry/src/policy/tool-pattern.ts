/** Tool names with `*` in them. Matched by hand: a pattern is somebody's text and must not be able to run away. */

export type ToolMatcher = (name: string) => boolean;

export function compileToolPatterns(patterns: readonly string[]): ToolMatcher {
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const open = patterns.filter((pattern) => pattern.includes("*"));
  if (open.length === 0) return (name) => exact.has(name);
  return (name) => exact.has(name) || open.some((pattern) => matches(pattern, name));
}

/** Each `*` remembers where it stood; only the last one is ever tried again. */
function matches(pattern: string, name: string): boolean {
  let at = 0;
  let star = -1;
  let kept = 0;
  let p = 0;
  while (at < name.length) {
    if (p < pattern.length && pattern[p] === "*") {
      star = p++;
      kept = at;
    } else if (p < pattern.length && pattern[p] === name[at]) {
      p++;
      at++;
    } else if (star >= 0) {
      p = star + 1;
      at = ++kept;
    } else return false;
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

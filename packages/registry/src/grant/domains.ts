/**
 * Sets of domain patterns: `name`, `*.name` (any depth below name, not name itself) and `*`, each with an optional
 * `:port`; a pattern without a port covers every port. The intersection of two sets allows exactly what both allow.
 */

interface Pattern {
  host: string;
  port: string | null;
}

export function intersectDomains(a: readonly string[], b: readonly string[]): string[] {
  const shared: string[] = [];
  for (const left of a) {
    for (const right of b) {
      const both = intersectPatterns(parsePattern(left), parsePattern(right));
      if (both !== null) shared.push(formatPattern(both));
    }
  }
  return normalizeDomains(shared);
}

/** Returns one canonical form per set: sorted, without patterns that another pattern of the set covers. */
export function normalizeDomains(patterns: readonly string[]): string[] {
  const unique = [...new Set(patterns.map((text) => formatPattern(parsePattern(text))))];
  return unique.filter((domain) => !unique.some((other) => other !== domain && covers(other, domain))).sort();
}

/** Whether everything that `narrow` allows is allowed by `wide`. */
export function covers(wide: string, narrow: string): boolean {
  const outer = parsePattern(wide);
  const inner = parsePattern(narrow);
  return coversHost(outer.host, inner.host) && (outer.port === null || outer.port === inner.port);
}

function intersectPatterns(a: Pattern, b: Pattern): Pattern | null {
  const host = coversHost(a.host, b.host) ? b.host : coversHost(b.host, a.host) ? a.host : null;
  if (host === null) return null;
  if (a.port !== null && b.port !== null && a.port !== b.port) return null;
  return { host, port: a.port ?? b.port };
}

function coversHost(wide: string, narrow: string): boolean {
  if (wide === "*" || wide === narrow) return true;
  if (!wide.startsWith("*.")) return false;
  return narrow !== "*" && narrow.endsWith(wide.slice(1));
}

function parsePattern(text: string): Pattern {
  const lower = text.toLowerCase();
  const colon = lower.lastIndexOf(":");
  if (colon < 0) return { host: lower, port: null };
  return { host: lower.slice(0, colon), port: lower.slice(colon + 1) };
}

function formatPattern(pattern: Pattern): string {
  return pattern.port === null ? pattern.host : `${pattern.host}:${pattern.port}`;
}

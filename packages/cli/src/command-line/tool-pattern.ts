/**
 * Converts a pattern with `*` to a regular expression. The gateway itself decides which tools match; this is for
 * notes about patterns that match nothing.
 */
export function toolPattern(pattern: string): RegExp {
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`);
}

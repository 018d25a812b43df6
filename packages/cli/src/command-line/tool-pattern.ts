/** The tools that a pattern with `*` names. The gateway decides; this is for notes about patterns that match nothing. */
export function toolPattern(pattern: string): RegExp {
  const parts = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`);
}

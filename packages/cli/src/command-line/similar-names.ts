/** Suggests known names for a mistyped one. */

const MAX_SUGGESTIONS = 3;

export function similarNames(name: string, known: readonly string[]): string[] {
  const lower_name = name.toLowerCase();
  return known
    .map((candidate) => ({ candidate, distance: countEdits(lower_name, candidate.toLowerCase()) }))
    .filter(({ distance }) => distance <= Math.max(2, Math.floor(lower_name.length / 4)))
    .sort((a, b) => a.distance - b.distance || (a.candidate < b.candidate ? -1 : 1))
    .slice(0, MAX_SUGGESTIONS)
    .map(({ candidate }) => candidate);
}

/** The number of edits; 0 if one name ends with `_` and the other, as `mcp_demo_echo` ends with `_echo`. */
function countEdits(a: string, b: string): number {
  if (b.endsWith(`_${a}`) || a.endsWith(`_${b}`)) return 0;
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}

/** Returns the items that contain every word of the query, sorted by the position of the first word. */
export function rankMatches<T>(items: readonly T[], query: string, textOf: (item: T) => string): T[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [...items];
  return items
    .map((item) => ({ item, text: textOf(item).toLowerCase() }))
    .filter(({ text }) => words.every((word) => text.includes(word)))
    .map(({ item, text }) => ({ item, at: text.indexOf(words[0]!) }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

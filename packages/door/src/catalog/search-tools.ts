/** Finds tools by words that describe them. Used by `tool_search`, in turns and for MCP clients. */

export interface SearchableTool {
  name: string;
  description: string;
  keywords: readonly string[];
  details: { title: string | null };
}

/**
 * Returns the best match first. A word counts most in the name or title, then in the keywords, then in the description.
 */
export function searchTools<T extends SearchableTool>(
  tools: readonly T[],
  query: string,
  limit: number,
): T[] {
  const words = splitWords(query);
  return tools
    .map((tool) => ({ tool, score: scoreTool(tool, words) }))
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score || (a.tool.name < b.tool.name ? -1 : 1))
    .slice(0, limit)
    .map(({ tool }) => tool);
}

function scoreTool(
  { name, description, keywords, details }: SearchableTool,
  words: readonly string[],
): number {
  const name_words = splitWords(`${name} ${details.title ?? ""}`);
  const keyword_words = keywords.flatMap(splitWords);
  const description_words = splitWords(description);
  let score = 0;
  for (const word of words) {
    const matches = (term: string) => term === word || (word.length > 3 && term.startsWith(word));
    score +=
      (name_words.some(matches) ? 4 : 0) +
      (keyword_words.some(matches) ? 3 : 0) +
      (description_words.some(matches) ? 1 : 0);
  }
  return score;
}

function splitWords(text: string): string[] {
  return text
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== "");
}

/**
 * Selects the words that a search can afford. A search costs about a microsecond per entry that contains a
 * word, and words that are in most entries hardly affect the ranking, so in a large scope the most common
 * words of a query are left out.
 */
import type { Database } from "./database.ts";

/** The number of occurrences that one search may touch. */
const SEARCH_BUDGET = 50_000;
/** Counting a rarer word is faster than caching its count. */
const MIN_CACHED_COUNT = 1_000;
const MAX_CACHED_WORDS = 10_000;
/** A count is valid until the scope has grown or shrunk by more than this share. */
const DRIFT = 0.1;

export interface WordCounts {
  /** Returns the words to search for, in the same order; the rarest word is always included. */
  selectAffordable(scope_id: number, entries: number, terms: readonly string[]): string[];
}

export function createWordCounts({ execute }: Database, budget = SEARCH_BUDGET): WordCounts {
  const counts = new Map<string, { count: number; entries: number }>();

  function readCount(scope_id: number, entries: number, term: string): number {
    const key = `${scope_id} ${term}`;
    const cached = counts.get(key);
    if (cached !== undefined && Math.abs(entries - cached.entries) <= cached.entries * DRIFT)
      return cached.count;
    const count = Number(
      execute(`select doc from temp.count_${scope_id} where term = ?`, fold(term))[0]?.doc ?? 0,
    );
    if (count >= MIN_CACHED_COUNT) {
      if (counts.size >= MAX_CACHED_WORDS) counts.clear();
      counts.set(key, { count, entries });
    }
    return count;
  }

  return {
    selectAffordable(scope_id, entries, terms) {
      if (entries * terms.length <= budget) return [...terms];
      execute(
        `create virtual table if not exists temp.count_${scope_id} using fts5vocab ('main', 'words_${scope_id}', 'row')`,
      );
      const counted = terms.map((term) => ({ term, count: readCount(scope_id, entries, term) }));
      const chosen = new Set<string>();
      let cost = 0;
      for (const { term, count } of counted.toSorted((a, b) => a.count - b.count)) {
        cost += count;
        if (chosen.size > 0 && cost > budget) break;
        chosen.add(term);
      }
      return terms.filter((term) => chosen.has(term));
    },
  };
}

/**
 * Approximates the spelling of the index: a word that the index spells differently is treated as rare
 * and searched for.
 */
function fold(term: string): string {
  return term.normalize("NFD").replaceAll(/\p{M}/gu, "").toLowerCase();
}

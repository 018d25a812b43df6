/**
 * Converts a user's words into a safe search: only letters, digits and marks remain, each term is quoted, and
 * no input is interpreted as an operator. The last term also matches longer words, because it may be partly typed.
 */

const TERM = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
/** A long message is searched by its first words; more terms cost time and do not improve the result. */
const MAX_TERMS = 32;
const MAX_TERM_LENGTH = 64;
/** A single letter would match half of all words. */
const LONG_ENOUGH = /^..+$/u;

export function parseSearchTerms(query: string): string[] {
  const terms = new Set<string>();
  for (const [term] of query.toWellFormed().matchAll(TERM)) {
    const word = term.toLowerCase().slice(0, MAX_TERM_LENGTH).toWellFormed();
    // A repeated word keeps its last position.
    terms.delete(word);
    terms.add(word);
    if (terms.size === MAX_TERMS) break;
  }
  return [...terms];
}

/**
 * The FTS5 query: any of the terms. A prefix is combined with its own word, so that the whole word ranks
 * above a longer one.
 */
export function buildMatchExpression(terms: readonly string[], prefix: string | undefined): string {
  const phrases = terms.map((term) => `"${term}"`);
  if (prefix !== undefined && LONG_ENOUGH.test(prefix)) phrases.push(`"${prefix}"*`);
  return phrases.join(" OR ");
}

/** The LIKE pattern, with `\` as its escape. */
export function toLikePattern(term: string): string {
  return `%${term.replaceAll(/[\\%_]/g, "\\$&")}%`;
}

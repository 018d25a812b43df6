/**
 * A user's words as a search that cannot be broken: only letters, digits and marks survive, each term is quoted, and
 * nothing that the user types is an operator. The last term also finds longer words, since it may be half typed.
 */
const TERM = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
/** A long message searches by its first words; more terms cost time and find nothing better. */
const MOST_TERMS = 32;
const LONGEST_TERM = 64;
/** One letter would find half of all words. */
const LONG_ENOUGH = /^..+$/u;

export function searchTerms(query: string): string[] {
  const terms = new Set<string>();
  for (const [term] of query.toWellFormed().matchAll(TERM)) {
    const word = term.toLowerCase().slice(0, LONGEST_TERM).toWellFormed();
    // A word that comes again counts where it stands last.
    terms.delete(word);
    terms.add(word);
    if (terms.size === MOST_TERMS) break;
  }
  return [...terms];
}

/** For FTS5: any of the terms. A prefix beside its own word lets the whole word beat a longer one. */
export function matchExpression(terms: readonly string[], prefix: string | undefined): string {
  const phrases = terms.map((term) => `"${term}"`);
  if (prefix !== undefined && LONG_ENOUGH.test(prefix)) phrases.push(`"${prefix}"*`);
  return phrases.join(" OR ");
}

/** For LIKE, with `\` as its escape. */
export function likePattern(term: string): string {
  return `%${term.replaceAll(/[\\%_]/g, "\\$&")}%`;
}

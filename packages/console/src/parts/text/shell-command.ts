/** Builds a command line that a POSIX shell reads as exactly these words. */

export function shellCommand(...words: readonly string[]): string {
  return words.map(quote).join(" ");
}

function quote(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

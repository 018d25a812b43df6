/** Resolves when the text has come to match, with the first group or the match. */
export async function said(read: () => string, pattern: RegExp): Promise<string> {
  for (;;) {
    const match = pattern.exec(read());
    if (match !== null) return match[1] ?? match[0];
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

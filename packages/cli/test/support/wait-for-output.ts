/** Longer than anything takes that a test waits for, and shorter than a test may take. */
const PATIENCE_MS = 25_000;

/** Resolves when the text has come to match, with the first group or the match. */
export async function waitForOutput(read: () => string, pattern: RegExp): Promise<string> {
  const end = performance.now() + PATIENCE_MS;
  for (;;) {
    const match = pattern.exec(read());
    if (match !== null) return match[1] ?? match[0];
    if (performance.now() > end) throw new Error(`never said ${pattern.source}:\n${read().slice(-1_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

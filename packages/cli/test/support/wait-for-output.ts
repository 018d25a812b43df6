/** Longer than any expected wait. */
const TIMEOUT_MS = 90_000;

/** Waits until the output matches; resolves with the first group, otherwise the match. */
export async function waitForOutput(read: () => string, pattern: RegExp): Promise<string> {
  const end = performance.now() + TIMEOUT_MS;
  for (;;) {
    const match = pattern.exec(read());
    if (match !== null) return match[1] ?? match[0];
    if (performance.now() > end)
      throw new Error(`The output never matched ${pattern.source}:\n${read().slice(-1_000)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

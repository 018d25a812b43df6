import type { PageOf } from "@backplane/ports";

/** Reads all pages of a list. */
export async function readAllPages<T>(
  read: (page: { limit: number; after?: string }) => Promise<PageOf<T>>,
): Promise<T[]> {
  const results: T[] = [];
  for (let after = {}; ; ) {
    const page = await read({ limit: 100, ...after });
    results.push(...page.items);
    if (page.next === null) return results;
    after = { after: page.next };
  }
}

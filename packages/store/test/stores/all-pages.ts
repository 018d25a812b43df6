import type { Page, PageOf } from "@backplane/ports";

/** All items of a list, read in pages of two. */
export async function readAllPages<T>(list: (page: Page) => Promise<PageOf<T>>): Promise<T[]> {
  const items: T[] = [];
  for (let after: string | null | undefined; after !== null; ) {
    const page: PageOf<T> = await list({ limit: 2, ...(after === undefined ? {} : { after }) });
    items.push(...page.items);
    after = page.next;
  }
  return items;
}

import type { Page, PageOf } from "@backplane/ports";

/** Sorts after every id. */
const END = "\u{10FFFF}";

/** Lists are sorted from the newest id to the oldest. */
export function pageCursor(page: Page): string {
  return page.after ?? END;
}

/** `rows` has one row more than the page when there is a next page. */
export function toPage<R, T>(
  rows: R[],
  page: Page,
  id: (row: R) => string,
  decode: (row: R) => T,
): PageOf<T> {
  const items = rows.slice(0, page.limit);
  const last = items.at(-1);
  return {
    items: items.map(decode),
    next: rows.length > page.limit && last !== undefined ? id(last) : null,
  };
}

/** How scopes and pages are spelled in columns and cursors. */
import type { Page, PageOf } from "@backplane/ports";

/** In columns '' is the whole org: SQL compares it like any other value. */
export function projectColumn(project_id: string | null): string {
  return project_id ?? "";
}

export function projectOf(column: unknown): string | null {
  return column === "" ? null : (column as string);
}

/** Sorts behind every id. */
const END = "\u{10FFFF}";

/** Lists run from the newest id down. */
export function beforeOf(page: Page): string {
  return page.after ?? END;
}

/** `rows` holds one more than the page, if there is one more. */
export function pageOf<R, T>(
  rows: R[],
  page: Page,
  id: (row: R) => string,
  decode: (row: R) => T,
): PageOf<T> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return {
    items: shown.map(decode),
    next: rows.length > page.limit && last !== undefined ? id(last) : null,
  };
}

/** Paged lists. All commands that print one have the same paging flags. */
import type { Command } from "commander";
import { wholeNumber } from "../command-line/parse-flags.ts";
import { type Cell, table } from "../terminal/output.ts";
import type { CommandContext } from "./context.ts";

export interface PageFlags {
  limit?: number;
  after?: string;
}

export function addPageFlags(command: Command): Command {
  return command
    .option("--limit <number>", "maximum number of items", wholeNumber("--limit", 1, 500))
    .option("--after <cursor>", "start after this cursor");
}

/** The largest page that every list of the API returns. */
const PAGE_LIMIT = 500;

/** Fetches every item of a list, page by page. Stops after a page with an item that matches `stopAt`. */
export async function listAll<T>(
  fetchPage: (page: {
    limit: number;
    after?: string;
  }) => Promise<{ items: readonly T[]; next: string | null }>,
  stopAt: (item: T) => boolean = () => false,
): Promise<T[]> {
  const all: T[] = [];
  for (let after: string | null = null; ; ) {
    const { items, next } = await fetchPage({ limit: PAGE_LIMIT, ...(after === null ? {} : { after }) });
    all.push(...items);
    if (next === null || items.some(stopAt)) return all;
    after = next;
  }
}

export function showPage<T>(
  context: CommandContext,
  page: { items: readonly T[]; next: string | null },
  heads: string[],
  toCells: (item: T) => Cell[],
): void {
  showRows(context, page, heads, page.items.map(toCells), page.next);
}

/** Prints `value` with --json, otherwise `rows` as a table. */
export function showRows(
  { out }: CommandContext,
  value: unknown,
  heads: string[],
  rows: Cell[][],
  next: string | null = null,
): void {
  out.data(value, () => (rows.length === 0 ? "" : table(out, heads, rows)));
  if (rows.length === 0 && !out.json) out.note("Nothing found.");
  if (next !== null && !out.json) out.note(`More items: add --after ${next}`);
}

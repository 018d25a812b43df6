/** Lists: one page at a time, the same two flags and the same JSON ({items,next}) for every noun. */
import type { Command } from "commander";
import type { Context } from "./context.ts";
import { type Cell, table } from "./output.ts";
import { wholeNumber } from "./parse-flags.ts";

export interface PageOptions {
  limit?: number;
  after?: string;
}

export function pageFlags(command: Command): Command {
  return command
    .option("--limit <number>", "how many at most", wholeNumber("--limit", 1, 500))
    .option("--after <cursor>", "the page after this cursor");
}

export function showPage<T>(
  context: Context,
  page: { items: readonly T[]; next: string | null },
  heads: string[],
  row: (item: T) => Cell[],
): void {
  const { out } = context;
  out.data(page, () => (page.items.length === 0 ? "" : table(out, heads, page.items.map(row))));
  if (page.items.length === 0 && !out.json) out.note("There are none.");
  if (page.next !== null && !out.json) out.note(`There is more: add --after ${page.next}`);
}

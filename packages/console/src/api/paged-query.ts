/** Queries for paginated lists. */
import type { ListOf } from "@backplane/client";
import { infiniteQueryOptions } from "@tanstack/react-query";
import type { Noun } from "./nouns.ts";

/** The key starts with the noun, so that an event refreshes every list of that noun. */
export function pagedQuery<T>(
  key: readonly [Noun, ...unknown[]],
  load: (page: { after?: string }) => Promise<ListOf<T>>,
) {
  return infiniteQueryOptions({
    queryKey: key,
    queryFn: ({ pageParam }) => load(pageParam === null ? {} : { after: pageParam }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
  });
}

/** Loads every page, for lists that are short or shown as a whole. */
export async function listAllPages<T>(load: (page: { after?: string }) => Promise<ListOf<T>>): Promise<T[]> {
  const rows: T[] = [];
  let after: string | null = null;
  do {
    const { items, next }: ListOf<T> = await load(after === null ? {} : { after });
    rows.push(...items);
    after = next;
  } while (after !== null);
  return rows;
}

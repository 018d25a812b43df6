/** A list with its loading, empty and error states, loaded page by page. */
import type { ListOf } from "@backplane/client";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { ErrorView } from "../notices/error-view.tsx";
import styles from "../styles/parts.module.css";
import { DataTable, type DataTableProps } from "./data-table.tsx";
import { ListSkeleton } from "./list-skeleton.tsx";

export interface PagedListProps<T> extends Omit<DataTableProps<T>, "rows" | "onEnd"> {
  query: UseInfiniteQueryResult<InfiniteData<ListOf<T>>>;
  empty: ReactNode;
}

export function PagedList<T>({ query, empty, ...table }: PagedListProps<T>) {
  const rows = useRows(query);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const loadNext = useMemo(
    () => (hasNextPage && !isFetchingNextPage ? () => void fetchNextPage() : undefined),
    [hasNextPage, isFetchingNextPage, fetchNextPage],
  );
  if (query.isError && rows.length === 0)
    return <ErrorView error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <div className={styles.card}>
      {query.isPending && <ListSkeleton />}
      {query.isSuccess && rows.length === 0 && empty}
      {rows.length > 0 && <DataTable {...table} rows={rows} onEnd={loadNext} />}
    </div>
  );
}

/** The rows of all loaded pages. */
export function useRows<T>(
  query: Pick<UseInfiniteQueryResult<InfiniteData<ListOf<T>>>, "data">,
): readonly T[] {
  return useMemo(() => query.data?.pages.flatMap(({ items }) => items) ?? [], [query.data]);
}

/** The cache of loaded data. */
import {
  type InvalidateOptions,
  type InvalidateQueryFilters,
  QueryClient,
  type QueryKey,
} from "@tanstack/react-query";

/**
 * Repeats the first load of a query that is invalidated during that load. TanStack Query itself does not: the response,
 * which may be older than the change, would count as fresh until the next change.
 */
export class ConsoleQueryClient extends QueryClient {
  override async invalidateQueries<TaggedQueryKey extends QueryKey = QueryKey>(
    filters?: InvalidateQueryFilters<TaggedQueryKey>,
    options?: InvalidateOptions,
  ): Promise<void> {
    const first_loads = this.getQueryCache()
      .findAll({ ...(filters as InvalidateQueryFilters), fetchStatus: "fetching" })
      .filter(({ state }) => state.data === undefined);
    const refreshed = super.invalidateQueries(filters, options);
    await Promise.all([
      refreshed,
      ...first_loads.map(async (query) => {
        await query.promise?.catch(() => undefined);
        // A failed load is repeated as well: the change may have removed its cause.
        await super.invalidateQueries({ queryKey: query.queryKey, exact: true }, options);
      }),
    ]);
  }
}

import type { Client } from "@backplane/client";
import { queryOptions } from "@tanstack/react-query";
import { listAllPages, pagedQuery } from "./paged-query.ts";

export const packageQueries = {
  list: (client: Client) =>
    pagedQuery(["packages", "list"], (page) => client.packages.list({ ...page, limit: 200 })),
  /** All versions of all packages, from which the detail page compares versions and finds the newest one. */
  all: (client: Client) =>
    queryOptions({
      queryKey: ["packages", "all"],
      queryFn: () => listAllPages((page) => client.packages.list({ ...page, limit: 200 })),
    }),
  detail: (client: Client, id: string) =>
    queryOptions({ queryKey: ["packages", "detail", id], queryFn: () => client.packages.get(id) }),
  /** The examples are part of the gateway, so they are loaded only once. */
  examples: (client: Client) =>
    queryOptions({
      queryKey: ["packages", "examples"],
      queryFn: () => client.examples.list(),
      staleTime: Number.POSITIVE_INFINITY,
    }),
  /** The gateway queries the sources of the packages, so the list is loaded only on request and kept for a while. */
  outdated: (client: Client) =>
    queryOptions({
      queryKey: ["packages", "outdated"],
      queryFn: () => client.packages.outdated(),
      staleTime: 10 * 60_000,
    }),
};

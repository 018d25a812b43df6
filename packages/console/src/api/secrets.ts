import type { Client } from "@backplane/client";
import { queryOptions } from "@tanstack/react-query";
import { listAllPages, pagedQuery } from "./paged-query.ts";

export const secretQueries = {
  list: (client: Client) =>
    pagedQuery(["secrets", "list"], (page) => client.secrets.list({ ...page, limit: 200 })),
  all: (client: Client) =>
    queryOptions({
      queryKey: ["secrets", "all"],
      queryFn: () => listAllPages((page) => client.secrets.list({ ...page, limit: 200 })),
    }),
};

import type { Client } from "@backplane/client";
import { definedFields } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

export const runQueries = {
  list: (client: Client, filter: { session_id?: string | undefined; workspace?: string | undefined } = {}) =>
    pagedQuery(["runs", "list", filter], (page) =>
      client.runs.list({ ...definedFields(filter), ...page, limit: 100 }),
    ),
  detail: (client: Client, id: string) =>
    queryOptions({ queryKey: ["runs", "detail", id], queryFn: () => client.runs.get(id) }),
  execution: (client: Client, id: string) =>
    queryOptions({ queryKey: ["runs", "execution", id], queryFn: () => client.runs.execution(id) }),
};

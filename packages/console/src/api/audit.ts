import type { Client } from "@backplane/client";
import { definedFields } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

export const auditQueries = {
  list: (client: Client, filter: { action?: string | undefined } = {}) =>
    pagedQuery(["audit", "list", filter], (page) =>
      client.audit.list({ ...definedFields(filter), ...page, limit: 100 }),
    ),
  /** The gateway reads the whole log for a report, so events do not refresh it. */
  report: (client: Client) =>
    queryOptions({ queryKey: ["audit-report"], queryFn: () => client.audit.verify(), staleTime: 60_000 }),
};

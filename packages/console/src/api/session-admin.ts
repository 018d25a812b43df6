/** Queries for the compactions of a session and their outcome for each entry. */
import type { Client } from "@backplane/client";
import type { CompactedEntry } from "@backplane/contract";
import { type QueryClient, queryOptions } from "@tanstack/react-query";
import { listAllPages, pagedQuery } from "./paged-query.ts";
import type { SessionAddress } from "./sessions.ts";

const PAGE_SIZE = 1_000;

export const sessionAdminQueries = {
  compactions: (client: Client, { session_id, workspace }: SessionAddress) =>
    pagedQuery(["sessions", "compactions", workspace, session_id], (page) =>
      client.compactions.list({ session_id, workspace, ...page, limit: 100 }),
    ),
  /** The outcome for each entry of the compacted chain. It never changes. */
  compacted: (client: Client, chain_id: string) =>
    queryOptions({
      queryKey: ["sessions", "compacted", chain_id],
      queryFn: () =>
        listAllPages<CompactedEntry>(({ after }) =>
          client.compactions.entries(chain_id, {
            limit: PAGE_SIZE,
            ...(after === undefined ? {} : { after: Number(after) }),
          }),
        ),
      staleTime: Number.POSITIVE_INFINITY,
    }),
};

export function refreshSessions(queries: QueryClient): Promise<void> {
  return queries.invalidateQueries({ queryKey: ["sessions"] });
}

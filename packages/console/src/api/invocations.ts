import type { Client } from "@backplane/client";
import { definedFields, type Invocation, type InvocationStatus, isTerminal } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

/** A call has no event of its own until it ends, so an open call is polled. */
const POLL_MS = 2_000;

/** The statuses of calls that failed. A call that was cancelled did not fail. */
export const FAILURE_STATUSES: readonly InvocationStatus[] = ["failed", "retryable_failure"];

export interface InvocationFilter {
  status?: InvocationStatus | readonly InvocationStatus[] | undefined;
  export_id?: string | undefined;
  session_id?: string | undefined;
  binding_id?: string | undefined;
}

export const invocationQueries = {
  list: (client: Client, filter: InvocationFilter = {}, limit = 100) => ({
    ...pagedQuery(["invocations", "list", filter, limit], (page) =>
      client.invocations.list({ ...definedFields(filter), ...page, limit }),
    ),
    refetchInterval: POLL_MS * 5,
  }),
  detail: (client: Client, id: string) =>
    queryOptions({
      queryKey: ["invocations", "detail", id],
      queryFn: () => client.invocations.get(id),
      refetchInterval: ({ state }) => (isOpen(state.data) ? POLL_MS : false),
    }),
};

function isOpen(invocation: Invocation | undefined): boolean {
  return invocation !== undefined && !isTerminal(invocation.status);
}

/** Queries of the model endpoints: the models that they offer, and the records of their calls. */
import type { Client } from "@backplane/client";
import { definedFields } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { pagedQuery } from "./paged-query.ts";

/** Model calls have no events, so they are polled. */
const POLL_MS = 5_000;

export const llmQueries = {
  models: (client: Client) =>
    queryOptions({ queryKey: ["llm", "models"], queryFn: () => client.llm.models() }),
  calls: (
    client: Client,
    filter: { run_id?: string | undefined; invocation_id?: string | undefined } = {},
  ) => ({
    ...pagedQuery(["llm", "calls", filter], (page) =>
      client.llm.calls({ ...definedFields(filter), ...page, limit: 100 }),
    ),
    refetchInterval: POLL_MS,
  }),
  call: (client: Client, id: string) =>
    queryOptions({ queryKey: ["llm", "call", id], queryFn: () => client.llm.call(id) }),
};

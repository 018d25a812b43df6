import type { Client } from "@backplane/client";
import { queryOptions } from "@tanstack/react-query";

const POLL_MS = 10_000;

export const statusQueries = {
  current: (client: Client) =>
    queryOptions({
      queryKey: ["status"],
      queryFn: () => client.status(),
      refetchInterval: POLL_MS,
    }),
};

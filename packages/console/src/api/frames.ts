import type { Client } from "@backplane/client";
import { queryOptions } from "@tanstack/react-query";

const POLL_MS = 3_000;

export const frameQueries = {
  list: (client: Client, invocation_id: string) =>
    queryOptions({
      queryKey: ["frames", invocation_id],
      queryFn: () => client.invocations.frames(invocation_id),
      // Frames have no events, so they are polled while the gateway records the frames of the binding.
      refetchInterval: ({ state }) => (state.data?.recording_until == null ? false : POLL_MS),
    }),
};

/** The calls of a trace: those of a run and its sub-agents, or of one request, and their nested calls. */
import type { Client } from "@backplane/client";
import type { Run } from "@backplane/contract";
import { queryOptions } from "@tanstack/react-query";
import { useEffect } from "react";
import { pagedQuery } from "./paged-query.ts";
import { useServices } from "./services.ts";

const PAGE_SPANS = 1_000;
/** Collects the events of one burst, so that the trace is loaded once. */
const BATCH_MS = 500;

export const traceQueries = {
  spans: (client: Client, trace_id: string) =>
    pagedQuery(["traces", "spans", trace_id], (page) =>
      client.invocations.trace(trace_id, { ...page, limit: PAGE_SPANS }),
    ),
  run: (client: Client, id: string) =>
    queryOptions<Run>({ queryKey: ["traces", "run", id], queryFn: () => client.runs.get(id) }),
};

/** Loads a trace again only after an event of that trace, because a long one takes several requests. */
export function useTraceUpdates(trace_id: string): void {
  const { live, queries } = useServices();
  useEffect(() => {
    let batch: ReturnType<typeof setTimeout> | undefined;
    const refresh = () => {
      batch = undefined;
      void queries.invalidateQueries({ queryKey: ["traces"] });
    };
    const stop = live.onEvent((event) => {
      if (event.trace_id === trace_id) batch ??= setTimeout(refresh, BATCH_MS);
    });
    return () => {
      stop();
      clearTimeout(batch);
    };
  }, [live, queries, trace_id]);
}

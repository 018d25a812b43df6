import type { Run } from "@backplane/contract";
import { useInfiniteQuery, useQueries } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { useClient } from "../../api/services.ts";
import { traceQueries, useTraceUpdates } from "../../api/traces.ts";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { useNow } from "../../parts/values/time.tsx";
import { buildTrace } from "./build-trace.ts";

/** At most this many runs are loaded. Any other run is drawn from its first call to its last. */
const MAX_RUNS = 30;
const REFRESH_RUNNING_MS = 1_000;
const REFRESH_ENDED_MS = 60_000;

/** The rows of a trace. The first ones are available before all pages are loaded. */
export function useTrace(trace_id: string) {
  const client = useClient();
  const query = useInfiniteQuery(traceQueries.spans(client, trace_id));
  useTraceUpdates(trace_id);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const spans = useRows(query);
  const run_ids = useMemo(
    () => [...new Set(spans.flatMap(({ run_id }) => (run_id === null ? [] : [run_id])))].slice(0, MAX_RUNS),
    [spans],
  );
  const runs = useQueries({
    queries: run_ids.map((id) => traceQueries.run(client, id)),
    combine: (results) => results.flatMap(({ data }): Run[] => (data === undefined ? [] : [data])),
  });
  const running =
    spans.some(({ ended_at }) => ended_at === null) || runs.some((run) => run.ended_at === null);
  const now = useNow(running ? REFRESH_RUNNING_MS : REFRESH_ENDED_MS);
  // While nothing is running, no row depends on the current time.
  const end = running ? now : 0;
  const rows = useMemo(() => buildTrace(spans, runs, end), [spans, runs, end]);
  return { query, spans, rows };
}

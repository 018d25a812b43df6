/**
 * Everything that belongs to one request: a run, its sub-agents and their calls, or a call and the calls that it made.
 */
import type { TraceSpan } from "@backplane/contract";
import { useParams } from "@tanstack/react-router";
import { Card } from "../../parts/layout/card.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { durationText } from "../../parts/text/time-text.ts";
import { Time } from "../../parts/values/time.tsx";
import type { TraceRow } from "./build-trace.ts";
import { compressGaps } from "./compress-gaps.ts";
import { TraceWaterfall } from "./trace-waterfall.tsx";
import styles from "./traces.module.css";
import { useTrace } from "./use-trace.ts";

export function TracePage() {
  const { id } = useParams({ from: "/traces/$id" });
  const { query, spans, rows } = useTrace(id);
  return (
    <>
      <PageHeader
        title="Trace"
        lead={
          spans.length === 0 ? (
            id
          ) : (
            <>
              {id}, started <Time at={spans[0]!.created_at} />
            </>
          )
        }
      />
      {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <ListSkeleton />}
      {query.isSuccess && spans.length === 0 && (
        <EmptyView icon="invocation">
          No calls are listed for this trace. A single call is shown on its own page.
        </EmptyView>
      )}
      {spans.length > 0 && (
        <Card title="Calls" flush>
          <TraceSummary spans={spans} rows={rows} complete={!query.hasNextPage} />
          <TraceWaterfall rows={rows} />
        </Card>
      )}
    </>
  );
}

interface TraceSummaryProps {
  spans: readonly TraceSpan[];
  rows: readonly TraceRow[];
  /** Whether all pages are loaded. */
  complete: boolean;
}

export function TraceSummary({ spans, rows, complete }: TraceSummaryProps) {
  const { gaps } = compressGaps(rows);
  const from = rows.reduce((first, row) => Math.min(first, row.from), Number.POSITIVE_INFINITY);
  const to = rows.reduce((last, row) => Math.max(last, row.to), 0);
  const failed = spans.filter(({ status }) => status === "failed" || status === "retryable_failure").length;
  const idle = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  return (
    <p className={styles.summary}>
      <span>
        {pluralize(spans.length, "call")}
        {!complete && ", loading more…"}
      </span>
      <span>{durationText(to - from)}</span>
      {failed > 0 && <span>{failed} failed</span>}
      {gaps.length > 0 && (
        <span>
          {pluralize(gaps.length, "idle time")} compressed, {durationText(idle)} in total
        </span>
      )}
    </p>
  );
}

function pluralize(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

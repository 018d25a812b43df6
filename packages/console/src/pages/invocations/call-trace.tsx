import type { Invocation } from "@backplane/contract";
import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Card } from "../../parts/layout/card.tsx";
import { TraceSummary } from "../traces/trace-page.tsx";
import { TraceWaterfall } from "../traces/trace-waterfall.tsx";
import { useTrace } from "../traces/use-trace.ts";
import styles from "./invocations.module.css";

/** The calls that belong to the same run or request. Renders nothing if the trace has no other call. */
export function CallTrace({ call: { id, trace_id } }: { call: Invocation }) {
  const { query, spans, rows } = useTrace(trace_id);
  if (spans.length < 2) return null;
  return (
    <Card
      title="Trace"
      flush
      actions={
        <Anchor component={Link} to="/traces/$id" params={{ id: trace_id } as never} size="sm">
          Open the trace
        </Anchor>
      }
    >
      <TraceSummary spans={spans} rows={rows} complete={!query.hasNextPage} />
      <div className={styles.traceRows}>
        <TraceWaterfall rows={rows} current={id} />
      </div>
    </Card>
  );
}

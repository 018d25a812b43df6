/** The rows of a trace on a common time scale. Only the rows near the visible ones are in the document. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { Icon, type IconName } from "../../parts/layout/icon.tsx";
import { useListKeys } from "../../parts/lists/data-table.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { durationText } from "../../parts/text/time-text.ts";
import type { TraceRow } from "./build-trace.ts";
import { type CompressedScale, compressGaps } from "./compress-gaps.ts";
import styles from "./traces.module.css";

const ROW_PX = 32;
const OVERSCAN = 10;
const MAX_INDENT = 8;

const STATUSES: Record<NonNullable<TraceRow["status"]>, { icon: IconName; tone: string; label: string }> = {
  waiting_approval: { icon: "clock", tone: "warn", label: "Awaiting approval" },
  running: { icon: "play", tone: "info", label: "Running" },
  succeeded: { icon: "check", tone: "good", label: "Succeeded" },
  completed: { icon: "check", tone: "good", label: "Completed" },
  failed: { icon: "cross", tone: "bad", label: "Failed" },
  retryable_failure: { icon: "rerun", tone: "bad", label: "Failed, can be retried" },
  cancelled: { icon: "cross", tone: "quiet", label: "Cancelled" },
};

export interface TraceWaterfallProps {
  rows: readonly TraceRow[];
  /** The call whose page shows the trace. */
  current?: string;
}

export function TraceWaterfall({ rows, current }: TraceWaterfallProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const scale = useMemo(() => compressGaps(rows), [rows]);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => rows[index]!.key,
  });
  useListKeys(scroll);
  return (
    <div className={styles.scroll} ref={scroll}>
      <ul
        className={styles.rows}
        aria-label="Trace"
        style={{ height: virtual.getTotalSize(), "--row-height": `${ROW_PX}px` } as object}
      >
        {virtual.getVirtualItems().map(({ index, key, start }) => (
          <li
            key={key}
            className={styles.row}
            data-current={rows[index]!.id === current ? "" : undefined}
            aria-setsize={rows.length}
            aria-posinset={index + 1}
            style={{ transform: `translateY(${start}px)` }}
          >
            <RowContent row={rows[index]!} scale={scale} />
          </li>
        ))}
      </ul>
    </div>
  );
}

function RowContent({ row, scale }: { row: TraceRow; scale: CompressedScale }) {
  const status = row.status === null ? null : STATUSES[row.status];
  const from = scale.position(row.from);
  const started = row.started === null ? from : scale.position(row.started);
  const to = scale.position(row.to);
  const note = [row.error_code, retryText(row.retries)].filter((part) => part !== null).join(", ");
  return (
    <>
      <span
        className={styles.name}
        style={{ paddingLeft: `${Math.min(row.depth, MAX_INDENT) * 0.875}rem` }}
        title={`${row.name}, ${row.hint}${note === "" ? "" : `, ${note}`}`}
      >
        {status !== null && (
          <span className={styles.status} style={{ color: `var(--${status.tone})` }}>
            <Icon name={status.icon} size={14} />
            <span className="visually-hidden">{status.label}</span>
          </span>
        )}
        <NameLink row={row} />
        <span className={styles.hint}>{note === "" ? row.hint : note}</span>
      </span>
      <span className={styles.track} aria-hidden="true">
        {scale.gaps.map(({ at, width, from: key }) => (
          <span key={key} className={styles.gap} style={{ left: percent(at), width: percent(width) }} />
        ))}
        {started > from && (
          <span
            className={styles.bar}
            data-phase="queue"
            style={{ left: percent(from), width: percent(started - from) }}
          />
        )}
        <span
          className={styles.bar}
          data-phase={row.kind}
          data-tone={status?.tone}
          style={{ left: percent(started), width: percent(to - started) }}
        />
      </span>
      <span className={styles.duration}>{durationText(row.to - row.from)}</span>
    </>
  );
}

function NameLink({ row: { kind, id, name, session_id } }: { row: TraceRow }) {
  if (kind === "call")
    return (
      <RowLink to="/invocations/$id" params={{ id }}>
        {name}
      </RowLink>
    );
  if (session_id === null) return <span>{name}</span>;
  return (
    <RowLink to="/sessions/$id" params={{ id: session_id }}>
      {name}
    </RowLink>
  );
}

function retryText(retries: number): string | null {
  if (retries === 0) return null;
  return `${retries} ${retries === 1 ? "retry" : "retries"}`;
}

function percent(share: number): string {
  return `${Math.max(0, share) * 100}%`;
}

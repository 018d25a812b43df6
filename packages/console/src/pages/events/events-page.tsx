/** The events of the gateway as they happen. */
import { SEMANTIC_EVENTS, type SemanticEvent } from "@backplane/contract";
import { Button, Select } from "@mantine/core";
import { Link, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useEventFeed } from "../../api/events.ts";
import { saveFile } from "../../parts/actions/save-file.ts";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import layout from "../../parts/layout/list-and-detail.module.css";
import { ListAndDetail } from "../../parts/layout/list-and-detail.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { TextFilter } from "../../parts/lists/text-filter.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { JsonView } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";
import { filterEvents, summaryText, toJsonLines } from "./event-text.ts";

const COLUMNS: readonly Column<SemanticEvent>[] = [
  {
    header: "Event",
    cell: ({ seq, type, subject }) => (
      <>
        <RowLink
          to="/events"
          search={((current: object) => ({ ...current, id: String(seq) })) as never}
          replace
        >
          {type}
        </RowLink>
        <span className={parts.rowSub}>{subject.id}</span>
      </>
    ),
  },
  {
    header: "Summary",
    wide_only: true,
    cell: ({ summary }) => (
      <span className={layout.summary} title={summaryText(summary)}>
        {summaryText(summary)}
      </span>
    ),
  },
  { header: "Number", numeric: true, wide_only: true, cell: ({ seq }) => seq },
  { header: "Time", numeric: true, cell: ({ occurred_at }) => <Time at={occurred_at} /> },
];

export function EventsPage() {
  const search = useSearch({ from: "/events" });
  const setFilters = useSetFilters<typeof search>();
  const { events, loaded, error, retry } = useEventFeed();
  /** The events that were shown when the person paused; null while the list is live. */
  const [paused, setPaused] = useState<readonly SemanticEvent[] | null>(null);
  const { type, session, q, id } = search;
  const filtered = type !== undefined || session !== undefined || q !== undefined;
  const rows = useMemo(
    () => filterEvents(paused ?? events, { type, session, q }),
    [paused, events, type, session, q],
  );
  const newer =
    paused === null
      ? 0
      : filterEvents(events, { type, session, q }).filter(({ seq }) => seq > (paused[0]?.seq ?? 0)).length;
  const selected = id === undefined ? undefined : events.find(({ seq }) => String(seq) === id);
  return (
    <>
      <PageHeader
        title="Events"
        lead="The latest changes on this gateway, newest first. Hooks receive the same events."
        actions={
          <>
            <Button
              variant="default"
              leftSection={<Icon name={paused === null ? "pause" : "play"} size={16} />}
              onClick={() => setPaused(paused === null ? events : null)}
            >
              {paused === null ? "Pause" : "Resume"}
            </Button>
            <Button
              variant="default"
              leftSection={<Icon name="download" size={16} />}
              disabled={rows.length === 0}
              onClick={() => saveFile("events.jsonl", "application/jsonl", toJsonLines(rows))}
            >
              Export
            </Button>
          </>
        }
      />
      <search className={parts.filters} aria-label="Filters">
        <Select
          aria-label="Type"
          placeholder="Any type"
          clearable
          data={SEMANTIC_EVENTS}
          value={type ?? null}
          onChange={(value) => setFilters({ type: value ?? undefined })}
        />
        <TextFilter label="Text" value={q} onChange={(value) => setFilters({ q: value })} />
        <TextFilter label="Session" value={session} onChange={(value) => setFilters({ session: value })} />
        {filtered && (
          <Button
            variant="subtle"
            onClick={() => setFilters({ type: undefined, session: undefined, q: undefined })}
          >
            Clear filters
          </Button>
        )}
        <span role="status">{paused !== null && pausedText(newer)}</span>
      </search>
      {error !== null && <ErrorView error={error} onRetry={retry} />}
      <ListAndDetail
        detail={
          selected === undefined ? null : { title: selected.type, content: <EventDetail event={selected} /> }
        }
        onClose={() => setFilters({ id: undefined })}
      >
        <div className={parts.card}>
          {!loaded && error === null && <ListSkeleton />}
          {loaded && rows.length === 0 && <NoEvents filtered={filtered} />}
          {rows.length > 0 && (
            <DataTable label="Events" columns={COLUMNS} rows={rows} rowKey={({ seq }) => String(seq)} />
          )}
        </div>
      </ListAndDetail>
    </>
  );
}

function pausedText(newer: number): string {
  return newer === 0 ? "Paused" : `Paused, ${newer} newer ${newer === 1 ? "event" : "events"}`;
}

function NoEvents({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyView icon="event">No recent event matches these filters.</EmptyView>;
  return (
    <EmptyView icon="event" command="backplane events tail">
      Nothing has happened on this gateway yet.
    </EmptyView>
  );
}

function EventDetail({ event }: { event: SemanticEvent }) {
  const { subject, occurred_at, session_id, run_id, chain_id, trace_id } = event;
  return (
    <div className={layout.content}>
      <Fields
        items={[
          ["Time", <Time key="time" at={occurred_at} />],
          ["Subject", <SubjectLink key="subject" subject={subject} />],
          [
            "Session",
            session_id === undefined ? null : (
              <Link key="session" to="/sessions/$id" params={{ id: session_id }}>
                {session_id}
              </Link>
            ),
          ],
          ["Run", run_id],
          ["Chain", chain_id],
          [
            "Trace",
            trace_id === undefined ? null : (
              <Link key="trace" to="/traces/$id" params={{ id: trace_id }}>
                {trace_id}
              </Link>
            ),
          ],
        ]}
      />
      <JsonView value={event} label="Event" />
    </div>
  );
}

function SubjectLink({ subject: { kind, id } }: Pick<SemanticEvent, "subject">) {
  if (kind === "invocation")
    return (
      <Link to="/invocations/$id" params={{ id }}>
        {id}
      </Link>
    );
  if (kind === "approval")
    return (
      <Link to="/approvals" search={{ id }}>
        {id}
      </Link>
    );
  return `${kind} ${id}`;
}

/** The calls of the gateway, newest first. */
import { INVOCATION_STATUSES, type Invocation, type InvocationStatus } from "@backplane/contract";
import { Button, Select } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { catalogQueries } from "../../api/catalog.ts";
import { invocationQueries } from "../../api/invocations.ts";
import { useClient } from "../../api/services.ts";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { TextFilter } from "../../parts/lists/text-filter.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { durationText } from "../../parts/text/time-text.ts";
import { InvocationBadge } from "../../parts/values/badge.tsx";
import { Time, useNow } from "../../parts/values/time.tsx";

const STATUS_OPTIONS = [
  { value: "waiting_approval", label: "Awaiting approval" },
  { value: "running", label: "Running" },
  { value: "succeeded", label: "Succeeded" },
  { value: "failed", label: "Failed" },
  { value: "retryable_failure", label: "Failed, can be retried" },
  { value: "cancelled", label: "Cancelled" },
] as const satisfies readonly { value: InvocationStatus; label: string }[];

const COLUMNS: readonly Column<Invocation>[] = [
  {
    header: "Call",
    cell: ({ id, export_id, package_id, package_version }) => (
      <>
        <RowLink to="/invocations/$id" params={{ id }}>
          {export_id}
        </RowLink>
        <span className={parts.rowSub}>
          {package_id} {package_version}
        </span>
      </>
    ),
  },
  { header: "Status", cell: ({ status }) => <InvocationBadge status={status} /> },
  {
    header: "Error",
    wide_only: true,
    cell: ({ error }) => error !== null && <code title={error.message}>{error.code}</code>,
  },
  { header: "Requested by", wide_only: true, cell: ({ requested_by }) => requested_by },
  { header: "Duration", numeric: true, wide_only: true, cell: (row) => <Duration {...row} /> },
  { header: "Started", numeric: true, cell: ({ created_at }) => <Time at={created_at} /> },
];

export function InvocationsPage() {
  const client = useClient();
  const search = useSearch({ from: "/invocations" });
  const setFilters = useSetFilters<typeof search>();
  const status = INVOCATION_STATUSES.find((known) => known === search.status);
  const query = useInfiniteQuery(
    invocationQueries.list(client, {
      status,
      export_id: search.export,
      session_id: search.session,
      binding_id: search.binding,
    }),
  );
  const filtered = Object.values(search).some((value) => value !== undefined);
  return (
    <>
      <PageHeader
        title="Invocations"
        lead="Every call to a tool, hook, compactor or harness, with its outcome."
      />
      <search className={parts.filters} aria-label="Filters">
        <Select
          aria-label="Status"
          placeholder="Any status"
          clearable
          data={STATUS_OPTIONS}
          value={status ?? null}
          onChange={(value) => setFilters({ status: value ?? undefined })}
        />
        <ToolFilter value={search.export} onChange={(value) => setFilters({ export: value })} />
        <TextFilter
          label="Session"
          value={search.session}
          onChange={(value) => setFilters({ session: value })}
        />
        <TextFilter
          label="Binding"
          value={search.binding}
          onChange={(value) => setFilters({ binding: value })}
        />
        {filtered && (
          <Button
            variant="subtle"
            onClick={() =>
              setFilters({ status: undefined, export: undefined, session: undefined, binding: undefined })
            }
          >
            Clear filters
          </Button>
        )}
      </search>
      <PagedList
        label="Invocations"
        query={query}
        columns={COLUMNS}
        rowKey={({ id }) => id}
        empty={
          filtered ? (
            <EmptyView icon="invocation">No call matches these filters.</EmptyView>
          ) : (
            <EmptyView icon="invocation" command="backplane invoke EXPORT --input '{}'">
              Nothing has been called yet.
            </EmptyView>
          )
        }
      />
    </>
  );
}

function ToolFilter({ value, onChange }: { value: string | undefined; onChange: (value?: string) => void }) {
  const tools = useQuery(catalogQueries.list(useClient()));
  const names = new Set([
    ...(value === undefined ? [] : [value]),
    ...(tools.data ?? []).map(({ name }) => name),
  ]);
  return (
    <Select
      aria-label="Tool"
      placeholder="Any tool"
      searchable
      clearable
      limit={50}
      data={[...names]}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
    />
  );
}

function Duration({ created_at, ended_at }: Invocation) {
  const now = useNow(1_000);
  const end = ended_at === null ? now : Date.parse(ended_at);
  return durationText(end - Date.parse(created_at));
}

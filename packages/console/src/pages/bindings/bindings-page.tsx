/** The bindings, which make exports callable, with configuration, secrets, rollout and policy. */
import { type Binding, EXPORT_KINDS, WHOLE_PACKAGE } from "@backplane/contract";
import { Button, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { bindingQueries } from "../../api/bindings.ts";
import { useClient } from "../../api/services.ts";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { BindingBadge } from "../../parts/values/plugin-badges.tsx";
import { Time } from "../../parts/values/time.tsx";
import { bindingTitle } from "./binding-title.ts";

const COLUMNS: readonly Column<Binding>[] = [
  {
    header: "Export",
    cell: (binding) => (
      <>
        <RowLink to="/bindings/$id" params={{ id: binding.binding_id }}>
          {bindingTitle(binding)}
        </RowLink>
        <span className={parts.rowSub}>
          {binding.package_id} {binding.package_version}
        </span>
      </>
    ),
  },
  { header: "Kind", cell: ({ kind, export_id }) => (export_id === WHOLE_PACKAGE ? "all tools" : kind) },
  { header: "Scope", cell: ({ scope }) => scope.project_id ?? "Whole organization" },
  {
    header: "Secrets",
    cell: ({ secrets, unbound_slots }) => {
      const bound = Object.keys(secrets).length;
      if (unbound_slots.length > 0) return `${unbound_slots.join(", ")} missing`;
      return bound === 0 ? "–" : `${bound} bound`;
    },
  },
  { header: "Approval", cell: ({ policy }) => policy.approval ?? "By policy" },
  { header: "Calls", numeric: true, cell: ({ rollout }) => `${rollout.traffic_percent}%` },
  { header: "State", cell: (binding) => <BindingBadge binding={binding} /> },
  { header: "Changed", numeric: true, cell: ({ updated_at }) => <Time at={updated_at} /> },
];

export function BindingsPage() {
  const search = useSearch({ from: "/bindings" });
  const setFilters = useSetFilters<typeof search>();
  const kind = EXPORT_KINDS.find((known) => known === search.kind);
  const query = useQuery(bindingQueries.all(useClient(), { kind, package_id: search.package }));
  const text = (search.q ?? "").toLowerCase();
  const rows = (query.data ?? []).filter((binding) =>
    `${bindingTitle(binding)} ${binding.package_id}`.toLowerCase().includes(text),
  );
  const filtered = Object.values(search).some((value) => value !== undefined);
  return (
    <>
      <PageHeader
        title="Bindings"
        lead="An export becomes callable when it is bound. Changes apply to the next call; calls in flight finish as they started."
        actions={
          <Button component={Link} to="/bindings/new" leftSection={<Icon name="plus" size={16} />}>
            New binding
          </Button>
        }
      />
      <search className={parts.filters} aria-label="Filters">
        <TextInput
          aria-label="Search bindings"
          placeholder="Export or package"
          leftSection={<Icon name="search" size={16} />}
          value={search.q ?? ""}
          onChange={({ currentTarget }) => setFilters({ q: currentTarget.value || undefined })}
        />
        <Select
          aria-label="Kind"
          placeholder="Any kind"
          clearable
          data={[...EXPORT_KINDS]}
          value={kind ?? null}
          onChange={(value) => setFilters({ kind: value ?? undefined })}
        />
        {filtered && (
          <Button
            variant="subtle"
            onClick={() => setFilters({ q: undefined, kind: undefined, package: undefined })}
          >
            Clear filters
          </Button>
        )}
      </search>
      {query.isError && query.data === undefined ? (
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <div className={parts.card}>
          {query.isPending && <ListSkeleton />}
          {query.isSuccess && rows.length === 0 && <NoBindings filtered={filtered} />}
          {rows.length > 0 && (
            <DataTable
              label="Bindings"
              columns={COLUMNS}
              rows={rows}
              rowKey={({ binding_id }) => binding_id}
            />
          )}
        </div>
      )}
    </>
  );
}

function NoBindings({ filtered }: { filtered: boolean }) {
  if (filtered) return <EmptyView icon="binding">No binding matches these filters.</EmptyView>;
  return (
    <EmptyView
      icon="binding"
      command="backplane binding create PACKAGE@VERSION EXPORT"
      action={
        <Button component={Link} to="/plugins/install">
          Install a plugin
        </Button>
      }
    >
      Nothing is bound yet, so no plugin can be called.
    </EmptyView>
  );
}

/**
 * The audit log, which shows who changed what. The hash of each entry also covers the hash of the one before it, so
 * tampering with the log is detected.
 */
import type { AuditEntry } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { auditQueries } from "../../api/audit.ts";
import { useClient } from "../../api/services.ts";
import { Fields } from "../../parts/layout/fields.tsx";
import layout from "../../parts/layout/list-and-detail.module.css";
import { ListAndDetail } from "../../parts/layout/list-and-detail.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { PagedList, useRows } from "../../parts/lists/paged-list.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { TextFilter } from "../../parts/lists/text-filter.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { Digest } from "../../parts/values/digest.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";
import { AuditReportCard } from "./audit-report-card.tsx";

const COLUMNS: readonly Column<AuditEntry>[] = [
  {
    header: "Action",
    cell: ({ id, action }) => (
      <RowLink to="/audit" search={((current: object) => ({ ...current, id })) as never} replace>
        {action}
      </RowLink>
    ),
  },
  { header: "Subject", cell: ({ subject }) => <span className={layout.summary}>{subject}</span> },
  { header: "Actor", wide_only: true, cell: ({ actor }) => actor },
  { header: "Entry", numeric: true, wide_only: true, cell: ({ seq }) => seq },
  { header: "Time", numeric: true, cell: ({ at }) => <Time at={at} /> },
];

export function AuditPage() {
  const client = useClient();
  const { action, id } = useSearch({ from: "/audit" });
  const setFilters = useSetFilters<{ action?: string | undefined; id?: string | undefined }>();
  const query = useInfiniteQuery(auditQueries.list(client, { action }));
  const selected = useRows(query).find((entry) => entry.id === id);
  return (
    <>
      <PageHeader title="Audit" lead="Every change on this gateway, and who made it, newest first." />
      <AuditReportCard />
      <search className={parts.filters} aria-label="Filters">
        <TextFilter label="Action" value={action} onChange={(value) => setFilters({ action: value })} />
        {selected !== undefined && action === undefined && (
          <Button variant="subtle" onClick={() => setFilters({ action: selected.action })}>
            Only {selected.action}
          </Button>
        )}
        {action !== undefined && (
          <Button variant="subtle" onClick={() => setFilters({ action: undefined })}>
            Clear filters
          </Button>
        )}
      </search>
      <ListAndDetail
        detail={
          selected === undefined
            ? null
            : { title: selected.action, content: <AuditDetail entry={selected} /> }
        }
        onClose={() => setFilters({ id: undefined })}
      >
        <PagedList
          label="Audit entries"
          query={query}
          columns={COLUMNS}
          rowKey={(entry) => entry.id}
          empty={
            action === undefined ? (
              <EmptyView icon="audit" command="backplane audit list">
                Nothing has been changed yet.
              </EmptyView>
            ) : (
              <EmptyView
                icon="audit"
                command={shellCommand("backplane", "audit", "list", "--action", action)}
              >
                No entry has exactly this action.
              </EmptyView>
            )
          }
        />
      </ListAndDetail>
    </>
  );
}

function AuditDetail({ entry }: { entry: AuditEntry }) {
  return (
    <div className={layout.content}>
      <Fields
        items={[
          ["Time", <Time key="time" at={entry.at} />],
          ["Actor", entry.actor],
          ["Subject", entry.subject],
          ["Project", entry.project_id],
          ["Entry", String(entry.seq)],
          ["Hash", <Digest key="hash" value={entry.hash} />],
        ]}
      />
      <JsonView value={entry.details} label="Details" />
    </div>
  );
}

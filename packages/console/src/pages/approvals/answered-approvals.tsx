import { useInfiniteQuery } from "@tanstack/react-query";
import { type AnsweredApproval, approvalQueries } from "../../api/approvals.ts";
import { useClient } from "../../api/services.ts";
import type { IconName } from "../../parts/layout/icon.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { Badge, RiskBadge, type Tone } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";

const STATUSES: Record<AnsweredApproval["status"], { tone: Tone; icon: IconName; label: string }> = {
  approved: { tone: "good", icon: "check", label: "Approved" },
  rejected: { tone: "bad", icon: "cross", label: "Rejected" },
  expired: { tone: "quiet", icon: "clock", label: "Expired" },
  cancelled: { tone: "quiet", icon: "cross", label: "Cancelled" },
};

const COLUMNS: readonly Column<AnsweredApproval>[] = [
  {
    header: "Tool",
    cell: ({ tool, invocation_id, brief }) => (
      <>
        <RowLink to="/invocations/$id" params={{ id: invocation_id }}>
          {tool}
        </RowLink>
        <span className={parts.rowSub}>{brief}</span>
      </>
    ),
  },
  { header: "Risk", cell: ({ risk }) => <RiskBadge risk={risk} /> },
  {
    header: "Answer",
    cell: ({ status }) => (
      <Badge tone={STATUSES[status].tone} icon={STATUSES[status].icon}>
        {STATUSES[status].label}
      </Badge>
    ),
  },
  { header: "Answered by", cell: ({ answered_by }) => answered_by },
  { header: "Feedback", cell: ({ feedback }) => feedback },
  {
    header: "When",
    numeric: true,
    cell: ({ resolved_at, requested_at }) => <Time at={resolved_at ?? requested_at} />,
  },
];

export function AnsweredApprovals() {
  const query = useInfiniteQuery(approvalQueries.answered(useClient()));
  return (
    <PagedList
      label="Answered approvals"
      query={query}
      columns={COLUMNS}
      rowKey={({ id }) => id}
      empty={
        <EmptyView icon="approval" command="backplane approve list --status all">
          No approval has been answered yet.
        </EmptyView>
      }
    />
  );
}

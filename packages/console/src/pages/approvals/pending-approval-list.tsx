import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { approvalQueries } from "../../api/approvals.ts";
import { useClient } from "../../api/services.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { RiskBadge } from "../../parts/values/badge.tsx";
import { ApprovalCard } from "./approval-card.tsx";
import styles from "./approvals.module.css";
import { Countdown } from "./countdown.tsx";
import { groupApprovals } from "./group-approvals.ts";

export function PendingApprovalList({ selected }: { selected: string | undefined }) {
  const query = useInfiniteQuery(approvalQueries.list(useClient(), { status: "pending" }));
  const rows = useRows(query);
  const groups = useMemo(() => groupApprovals(rows), [rows]);
  if (query.isPending) return <ListSkeleton />;
  if (query.isError && rows.length === 0)
    return <ErrorView error={query.error} onRetry={() => void query.refetch()} />;
  if (groups.length === 0)
    return (
      <div className={parts.card}>
        <EmptyView icon="approval" command="backplane approve list">
          No call awaits approval. Calls whose risk is above your tolerance appear here as soon as they are
          made.
        </EmptyView>
      </div>
    );
  const current = groups.find(({ all }) => all.some(({ id }) => id === selected)) ?? groups[0]!;
  return (
    <div className={styles.columns}>
      <nav className={parts.card} aria-label="Calls that await approval">
        <ul className={styles.list}>
          {groups.map(({ first, all }) => (
            <li key={first.id}>
              <Link
                to="/approvals"
                search={{ id: first.id }}
                className={styles.item}
                data-row-link=""
                aria-current={first.id === current.first.id ? "true" : undefined}
              >
                <span className={styles.itemTitle}>
                  {first.tool}
                  {all.length > 1 && <span className={styles.times}>×{all.length}</span>}
                </span>
                <span className={styles.itemMeta}>
                  <RiskBadge risk={first.risk} />
                  <Countdown until={first.expires_at} />
                </span>
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <ApprovalCard key={current.first.id} group={current} />
    </div>
  );
}

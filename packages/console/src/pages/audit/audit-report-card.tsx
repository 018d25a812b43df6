import type { AuditReport } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { auditQueries } from "../../api/audit.ts";
import { useClient } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { asSentence } from "../../parts/text/sentence.ts";
import { Badge } from "../../parts/values/badge.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { Time } from "../../parts/values/time.tsx";
import styles from "./audit.module.css";

/** Whether the log matches its hashes, its anchor and its export. */
export function AuditReportCard() {
  const query = useQuery(auditQueries.report(useClient()));
  return (
    <div className={styles.report}>
      <Card
        title="Integrity"
        actions={
          <Button
            size="compact-sm"
            variant="default"
            leftSection={<Icon name="refresh" size={14} />}
            loading={query.isFetching}
            onClick={() => void query.refetch()}
          >
            Verify again
          </Button>
        }
      >
        {query.isPending && <ListSkeleton />}
        {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
        {query.data !== undefined && (
          <Report report={query.data} at={new Date(query.dataUpdatedAt).toISOString()} />
        )}
      </Card>
    </div>
  );
}

function Report({ report, at }: { report: AuditReport; at: string }) {
  const { status, entries, hash, anchor, broken } = report;
  return (
    <Fields
      items={[
        [
          "State",
          status === "ok" ? (
            <Badge key="state" tone="good" icon="check">
              Intact
            </Badge>
          ) : (
            <Badge key="state" tone="severe" icon="octagon">
              Not intact
            </Badge>
          ),
        ],
        ["Broken at", broken === null ? null : `Entry ${broken.seq}: ${asSentence(broken.reason)}`],
        ["What to do", broken === null ? null : asSentence(broken.fix)],
        ["Verified", <Time key="verified" at={at} />],
        ["Entries", String(entries)],
        ["Last hash", hash === "" ? null : <Digest key="hash" value={hash} />],
        [
          "Anchor",
          anchor === null ? null : (
            <>
              entry {anchor.seq}, <Time at={anchor.at} />
            </>
          ),
        ],
        ["Exported", report.export === null ? null : `up to entry ${report.export.seq}`],
      ]}
    />
  );
}

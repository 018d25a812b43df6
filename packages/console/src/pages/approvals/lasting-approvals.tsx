/** Approvals that apply to later calls: answers for a session, and allow rules. Each can be revoked. */
import type { AllowRule, ApprovalGrant } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { approvalQueries } from "../../api/approvals.ts";
import { useServices } from "../../api/services.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { Badge, RiskBadge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";
import { AllowRuleDialog } from "./allow-rule-dialog.tsx";
import styles from "./approvals.module.css";

type LastingApproval = { kind: "grant"; grant: ApprovalGrant } | { kind: "rule"; rule: AllowRule };

export function LastingApprovals() {
  const { client } = useServices();
  const grants = useQuery(approvalQueries.grants(client));
  const rules = useInfiniteQuery(approvalQueries.rules(client));
  const rule_rows = useRows(rules);
  const [revoking, setRevoking] = useState<LastingApproval | null>(null);
  const [adding, setAdding] = useState(false);
  const grant_columns = useMemo(() => grantColumns((grant) => setRevoking({ kind: "grant", grant })), []);
  const rule_columns = useMemo(() => ruleColumns((rule) => setRevoking({ kind: "rule", rule })), []);
  return (
    <div className={styles.stack}>
      <Card title="Approved for a session" flush>
        {grants.isPending && <ListSkeleton />}
        {grants.isError && <ErrorView error={grants.error} onRetry={() => void grants.refetch()} />}
        {grants.data?.length === 0 && (
          <EmptyView icon="session" command="backplane approve grants">
            No answer applies to a whole session.
          </EmptyView>
        )}
        {grants.data !== undefined && grants.data.length > 0 && (
          <DataTable
            label="Session approvals"
            columns={grant_columns}
            rows={grants.data}
            rowKey={({ id }) => id}
          />
        )}
      </Card>
      <Card
        title="Allow rules"
        flush
        actions={
          <Button size="xs" leftSection={<Icon name="plus" size={14} />} onClick={() => setAdding(true)}>
            Add a rule
          </Button>
        }
      >
        {rules.isPending && <ListSkeleton />}
        {rules.isError && <ErrorView error={rules.error} onRetry={() => void rules.refetch()} />}
        {rules.isSuccess && rule_rows.length === 0 && (
          <EmptyView
            icon="approval"
            command="backplane allow add TOOL"
            action={<Button onClick={() => setAdding(true)}>Add a rule</Button>}
          >
            No rule lets calls run without asking.
          </EmptyView>
        )}
        {rule_rows.length > 0 && (
          <DataTable label="Allow rules" columns={rule_columns} rows={rule_rows} rowKey={({ id }) => id} />
        )}
      </Card>
      {adding && <AllowRuleDialog onClose={() => setAdding(false)} />}
      <RevokeDialog approval={revoking} onClose={() => setRevoking(null)} />
    </div>
  );
}

function RevokeDialog({ approval, onClose }: { approval: LastingApproval | null; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const revoke = useMutation({
    mutationFn: (one: LastingApproval) =>
      one.kind === "grant"
        ? client.approvals.revokeGrant(one.grant.id)
        : client.allow_rules.remove(one.rule.id),
    onSuccess: () => toast.show({ tone: "good", title: "Revoked. It does not apply to new calls." }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return Promise.all([
        queries.invalidateQueries({ queryKey: ["approvals"] }),
        queries.invalidateQueries({ queryKey: ["allow-rules"] }),
      ]);
    },
  });
  const name =
    approval === null ? "" : approval.kind === "grant" ? approval.grant.tool : subjectOf(approval.rule);
  return (
    <Confirm
      opened={approval !== null}
      title={`Revoke the approval of ${name}?`}
      action="Revoke"
      danger
      busy={revoke.isPending}
      onConfirm={() => {
        if (approval !== null) revoke.mutate(approval);
      }}
      onClose={onClose}
    >
      <p>
        Later calls need a person's answer again, unless another rule allows them. Calls that are already
        running are not affected.
      </p>
    </Confirm>
  );
}

const COVERS = {
  arguments: "Calls with the same arguments",
  tool: "All calls to the tool",
  server: "All tools of the package",
};

function grantColumns(onRevoke: (grant: ApprovalGrant) => void): Column<ApprovalGrant>[] {
  return [
    { header: "Tool", cell: ({ tool }) => <strong>{tool}</strong> },
    { header: "Covers", cell: ({ covers }) => COVERS[covers] },
    { header: "Up to", cell: ({ max_risk }) => <RiskBadge risk={max_risk} /> },
    { header: "Session", cell: ({ session_id }) => session_id },
    { header: "For", cell: ({ granted_to }) => granted_to },
    { header: "Since", cell: ({ granted_at }) => <Time at={granted_at} /> },
    {
      header: "Action",
      numeric: true,
      cell: (grant) => (
        <Button size="compact-sm" variant="default" onClick={() => onRevoke(grant)}>
          Revoke
        </Button>
      ),
    },
  ];
}

function subjectOf({ tool, package_id }: AllowRule): string {
  return tool ?? package_id;
}

function ruleColumns(onRevoke: (rule: AllowRule) => void): Column<AllowRule>[] {
  return [
    {
      header: "Rule",
      cell: (rule) => (
        <>
          <strong>{subjectOf(rule)}</strong>
          <span className={parts.rowSub}>{rule.note ?? COVERS[rule.covers]}</span>
        </>
      ),
    },
    {
      header: "Arguments",
      cell: ({ arguments: conditions }) =>
        conditions === null ? "Any" : <code>{JSON.stringify(conditions)}</code>,
    },
    { header: "Up to", cell: ({ max_risk }) => <RiskBadge risk={max_risk} /> },
    { header: "For", cell: ({ identity }) => identity ?? "Everyone" },
    {
      header: "State",
      cell: ({ ended, suspended }) => {
        if (ended !== null)
          return (
            <span title={ended}>
              <Badge tone="quiet" icon="cross">
                Ended
              </Badge>
            </span>
          );
        return suspended === null ? (
          <Badge tone="good" icon="check">
            In force
          </Badge>
        ) : (
          <span title={suspended}>
            <Badge tone="warn" icon="pause">
              Suspended
            </Badge>
          </span>
        );
      },
    },
    { header: "Since", cell: ({ created_at }) => <Time at={created_at} /> },
    {
      header: "Action",
      numeric: true,
      cell: (rule) => (
        <Button size="compact-sm" variant="default" onClick={() => onRevoke(rule)}>
          Revoke
        </Button>
      ),
    },
  ];
}

/** Upgrades that await a decision, and newer versions of what is installed. */
import type { OutdatedPackage, WaitingUpgrade } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { bindingQueries } from "../../api/bindings.ts";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";
import { originText } from "./package-text.ts";

export function PackageUpdates() {
  const client = useClient();
  const outdated = useQuery(packageQueries.outdated(client));
  return (
    <div className={layout.stack}>
      <WaitingUpgrades />
      <Card
        title="Newer versions"
        flush
        actions={
          <Button
            size="xs"
            variant="default"
            leftSection={<Icon name="refresh" size={14} />}
            loading={outdated.isFetching}
            onClick={() => void outdated.refetch()}
          >
            Check again
          </Button>
        }
      >
        {outdated.isError && outdated.data === undefined && (
          <ErrorView error={outdated.error} onRetry={() => void outdated.refetch()} />
        )}
        {outdated.isPending && <ListSkeleton />}
        {outdated.data?.length === 0 && (
          <EmptyView icon="check" command="backplane plugin outdated">
            No package is installed, so there is nothing to upgrade.
          </EmptyView>
        )}
        {outdated.data !== undefined && outdated.data.length > 0 && (
          <DataTable
            label="Versions in use and the newest ones"
            columns={OUTDATED_COLUMNS}
            rows={outdated.data.toSorted((a, b) => Number(b.outdated) - Number(a.outdated))}
            rowKey={({ package_id }) => package_id}
          />
        )}
      </Card>
    </div>
  );
}

const OUTDATED_COLUMNS: readonly Column<OutdatedPackage>[] = [
  {
    header: "Package",
    cell: (row) => (
      <>
        <RowLink to="/plugins" search={{ q: row.package_id }}>
          {row.package_id}
        </RowLink>
        <span className={parts.rowSub}>{row.note ?? originText(row)}</span>
      </>
    ),
  },
  { header: "In use", cell: ({ in_use }) => in_use.join(", ") || "–" },
  { header: "Newest installed", cell: ({ newest_installed }) => newest_installed },
  { header: "Newest available", cell: ({ newest_available }) => newest_available ?? "Unknown" },
  { header: "State", cell: (row) => <StateBadge row={row} /> },
  { header: "Action", numeric: true, cell: (row) => <ReviewButton row={row} /> },
];

/** A package whose source cannot be queried may be outdated. */
function StateBadge({ row: { outdated, newest_available } }: { row: OutdatedPackage }) {
  if (outdated)
    return (
      <Badge tone="warn" icon="up">
        Outdated
      </Badge>
    );
  return newest_available === null ? (
    <Badge tone="quiet" icon="question">
      Unknown
    </Badge>
  ) : (
    <Badge tone="good" icon="check">
      Current
    </Badge>
  );
}

/** An installed version is reviewed directly; another one is installed first, without bindings. */
function ReviewButton({ row }: { row: OutdatedPackage }) {
  const { package_id, newest_installed, newest_available, outdated, source } = row;
  const packages = useQuery(packageQueries.all(useClient()));
  if (!outdated) return null;
  const target = packages.data?.find(
    (one) => one.package_id === package_id && one.version === newest_installed,
  );
  if (source !== null && newest_available !== null && newest_available !== newest_installed) {
    const entry = /^marketplace:(.+)$/.exec(source)?.[1];
    const link =
      entry === undefined
        ? { to: "/plugins/install", search: { source } as never }
        : { to: "/marketplace/$id", params: { id: entry } as never };
    return (
      <Button component={Link} {...link} size="compact-sm" variant="default">
        Get {newest_available}
      </Button>
    );
  }
  if (target === undefined) return null;
  return (
    <Button
      component={Link}
      to="/upgrades/$id"
      params={{ id: target.id } as never}
      size="compact-sm"
      variant="default"
    >
      Review upgrade
    </Button>
  );
}

/** The upgrades that are held because they add permissions, and the failed trials that could not be rolled back. */
export function WaitingUpgrades({ package_id }: { package_id?: string }) {
  const client = useClient();
  const waiting = useQuery(bindingQueries.waitingUpgrades(client));
  if (waiting.isError && waiting.data === undefined)
    return <ErrorView error={waiting.error} onRetry={() => void waiting.refetch()} />;
  const upgrades = (waiting.data ?? []).filter(
    (one) => package_id === undefined || one.package_id === package_id,
  );
  return upgrades.map((upgrade) => (
    <WaitingUpgradeNotice
      key={`${upgrade.package_id} ${upgrade.other_version} ${upgrade.scope.project_id}`}
      upgrade={upgrade}
    />
  ));
}

function WaitingUpgradeNotice({ upgrade }: { upgrade: WaitingUpgrade }) {
  const {
    waits_for,
    package_id,
    version,
    other_version,
    scope,
    since,
    message,
    fix,
    percent,
    trial_seconds,
  } = upgrade;
  const { client, queries } = useServices();
  const toast = useToast();
  const decide = useMutation({
    mutationFn: async (decision: "grant" | "withhold" | "withdraw"): Promise<unknown> => {
      const org_wide = scope.project_id === null ? { org_wide: true } : {};
      if (decision === "withdraw") return await client.bindings.rollbackPackage({ package_id, ...org_wide });
      return await client.bindings.upgrade({
        package_id,
        package_version: other_version,
        new_permissions: decision,
        ...(percent === undefined ? {} : { percent }),
        ...(trial_seconds === undefined ? {} : { trial: { seconds: trial_seconds } }),
        ...org_wide,
      });
    },
    onSuccess: (_done, decision) =>
      toast.show({
        tone: "good",
        title:
          decision === "withdraw"
            ? `The upgrade was withdrawn; ${package_id} ${version} stays in use.`
            : percent === undefined || percent === 100
              ? `${package_id} ${other_version} is in use.`
              : `${package_id} ${other_version} gets ${percent}% of the calls.`,
      }),
    onError: toast.fail,
    onSettled: () =>
      Promise.all(
        ["bindings", "packages", "catalog"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      ),
  });
  const buttons = [
    ["grant", "Grant and upgrade"],
    ["withhold", "Upgrade without them"],
    ["withdraw", "Withdraw"],
  ] as const;
  return (
    <Notice
      tone={waits_for === "rollback" ? "bad" : "warn"}
      title={
        waits_for === "rollback"
          ? `${package_id} could not be rolled back`
          : `The upgrade of ${package_id} to ${other_version} is awaiting your decision`
      }
      actions={
        waits_for === "permissions" &&
        buttons.map(([decision, label]) => (
          <Button
            key={decision}
            size="xs"
            variant="default"
            loading={decide.isPending && decide.variables === decision}
            onClick={() => decide.mutate(decision)}
          >
            {label}
          </Button>
        ))
      }
    >
      <p>
        {message} {waits_for === "rollback" && fix}
      </p>
      <p>
        {waits_for === "rollback" ? "Failed" : "Requested"} <Time at={since} />.
      </p>
    </Notice>
  );
}

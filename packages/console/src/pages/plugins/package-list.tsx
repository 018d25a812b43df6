/** One row per package, with the version in use. */
import type { GatewayStatus } from "@backplane/client";
import { Button, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { packageQueries } from "../../api/packages.ts";
import { useClient } from "../../api/services.ts";
import { statusQueries } from "../../api/status.ts";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { BindingBadge, bindingState, SignatureBadge } from "../../parts/values/plugin-badges.tsx";
import { groupPackages, matchesText, type PackageGroup } from "./group-packages.ts";
import { kindText, originText } from "./package-text.ts";

export function PackageList({ text, onText }: { text: string; onText: (text: string) => void }) {
  const client = useClient();
  const packages = useQuery(packageQueries.all(client));
  const bindings = useQuery(bindingQueries.all(client));
  const status = useQuery(statusQueries.current(client));
  const groups = useMemo(
    () => groupPackages(packages.data ?? [], bindings.data ?? []),
    [packages.data, bindings.data],
  );
  const columns = useMemo(() => packageColumns(status.data), [status.data]);
  const shown = groups.filter((group) => matchesText(group, text));
  const failed = [packages, bindings].find(({ isError, data }) => isError && data === undefined);
  if (failed !== undefined)
    return (
      <ErrorView
        error={failed.error}
        onRetry={() => void Promise.all([packages, bindings].map((one) => one.refetch()))}
      />
    );
  if (packages.isPending || bindings.isPending) return <ListSkeleton />;
  return (
    <>
      {groups.length > 0 && (
        <search className={parts.filters} aria-label="Filters">
          <TextInput
            aria-label="Search the installed plugins"
            placeholder="Name, id or tool"
            leftSection={<Icon name="search" size={16} />}
            value={text}
            onChange={({ currentTarget }) => onText(currentTarget.value)}
          />
        </search>
      )}
      <div className={parts.card}>
        {groups.length === 0 && (
          <EmptyView
            icon="plugin"
            command="backplane plugin install example:hello-tool"
            action={
              <Button component={Link} to="/plugins/install">
                Install a plugin
              </Button>
            }
          >
            No plugin is installed yet.
          </EmptyView>
        )}
        {groups.length > 0 && shown.length === 0 && (
          <EmptyView icon="search">No installed plugin matches this text.</EmptyView>
        )}
        {shown.length > 0 && (
          <DataTable
            label="Packages"
            columns={columns}
            rows={shown}
            rowKey={({ package_id }) => package_id}
          />
        )}
      </div>
    </>
  );
}

function packageColumns(status: GatewayStatus | undefined): readonly Column<PackageGroup>[] {
  return [
    {
      header: "Plugin",
      cell: ({ shown }) => (
        <>
          <RowLink to="/plugins/$id" params={{ id: shown.id }}>
            {shown.manifest.name}
          </RowLink>
          <span className={parts.rowSub}>{shown.package_id}</span>
        </>
      ),
    },
    {
      header: "Version",
      cell: ({ shown, versions }) => (
        <>
          {shown.version}
          {versions.length > 1 && <span className={parts.rowSub}>{versions.length - 1} more installed</span>}
        </>
      ),
    },
    { header: "Contains", cell: ({ shown }) => kindText(shown) },
    { header: "Source", cell: ({ shown }) => originText(shown) },
    { header: "Trust", cell: ({ shown }) => <SignatureBadge signature={shown.signature} /> },
    { header: "Running digest", cell: (group) => <RunningDigest group={group} /> },
    { header: "State", cell: (group) => <PackageBadge group={group} status={status} /> },
  ];
}

/** The digest of the version that calls run. Without a binding, no code of the package runs. */
function RunningDigest({ group: { shown, bindings } }: { group: PackageGroup }) {
  return bindings.length === 0 ? "–" : <Digest value={shown.digest} />;
}

/** Whether the package is held back or not bound; otherwise the state of the binding that most needs attention. */
export function PackageBadge({
  group: { package_id, bindings },
  status,
}: {
  group: Pick<PackageGroup, "package_id" | "bindings">;
  status: GatewayStatus | undefined;
}) {
  if (status?.runner.held_back.some((held) => held.package_id === package_id) === true)
    return (
      <Badge tone="bad" icon="octagon">
        Held back
      </Badge>
    );
  if (bindings.length === 0)
    return (
      <Badge tone="quiet" icon="dot">
        Not bound
      </Badge>
    );
  const order = ["bad", "severe", "warn", "info", "good", "quiet"];
  const [first] = bindings.toSorted(
    (a, b) => order.indexOf(bindingState(a).tone) - order.indexOf(bindingState(b).tone),
  );
  return <BindingBadge binding={first!} />;
}

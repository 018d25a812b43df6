/** The installed versions of a package, the differences between them, and the rollback. */
import { type Binding, comparePackages, type Package, selectRollback } from "@backplane/contract";
import { Button, Select } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { Sentence } from "../../parts/values/permission-list.tsx";
import { SignatureBadge } from "../../parts/values/plugin-badges.tsx";
import { Time } from "../../parts/values/time.tsx";
import { versionInUse } from "./group-packages.ts";
import { countText } from "./package-text.ts";

export function PackageVersions({ pkg, bindings }: { pkg: Package; bindings: readonly Binding[] }) {
  const packages = useQuery(packageQueries.all(useClient()));
  if (packages.isError && packages.data === undefined)
    return <ErrorView error={packages.error} onRetry={() => void packages.refetch()} />;
  if (packages.isPending) return <ListSkeleton />;
  const versions = packages.data.filter(({ package_id }) => package_id === pkg.package_id);
  return (
    <div className={layout.stack}>
      <Card title="Installed versions" flush actions={<RollbackButton bindings={bindings} />}>
        <DataTable
          label="Installed versions"
          columns={versionColumns(bindings)}
          rows={versions.toSorted((a, b) => b.installed_at.localeCompare(a.installed_at))}
          rowKey={({ id }) => id}
        />
      </Card>
      <VersionComparison pkg={pkg} versions={versions} used={versionInUse(bindings)} />
    </div>
  );
}

function versionColumns(bindings: readonly Binding[]): readonly Column<Package>[] {
  const bindingsOf = ({ version }: Package) =>
    bindings.filter(({ package_version }) => package_version === version);
  return [
    {
      header: "Version",
      cell: ({ id, version }) => (
        <RowLink to="/plugins/$id" params={{ id }} search={{ view: "versions" }}>
          {version}
        </RowLink>
      ),
    },
    { header: "Digest", cell: ({ digest }) => <Digest value={digest} /> },
    { header: "Trust", cell: ({ signature }) => <SignatureBadge signature={signature} /> },
    {
      header: "In use",
      cell: (row) =>
        bindingsOf(row).length === 0 ? (
          "No"
        ) : (
          <Badge tone="good" icon="check">
            {`By ${countText(bindingsOf(row).length, "binding")}`}
          </Badge>
        ),
    },
    { header: "Installed", cell: ({ installed_at }) => <Time at={installed_at} /> },
    {
      header: "Action",
      numeric: true,
      cell: (row) =>
        bindings.length > 0 &&
        bindingsOf(row).length === 0 && (
          <Button
            component={Link}
            to="/upgrades/$id"
            params={{ id: row.id } as never}
            size="compact-sm"
            variant="default"
          >
            Review upgrade
          </Button>
        ),
    },
  ];
}

interface VersionComparisonProps {
  pkg: Package;
  versions: readonly Package[];
  used: string | null;
}

function VersionComparison({ pkg, versions, used }: VersionComparisonProps) {
  const others = versions.filter(({ id }) => id !== pkg.id);
  const [chosen, setChosen] = useState<string | null>(null);
  const before =
    others.find(({ id }) => id === chosen) ?? others.find(({ version }) => version === used) ?? others[0];
  if (before === undefined) return null;
  return (
    <Card
      title={`From ${before.version} to ${pkg.version}`}
      actions={
        <Select
          aria-label="Compare with version"
          size="xs"
          allowDeselect={false}
          data={others.map(({ id, version }) => ({ value: id, label: version }))}
          value={before.id}
          onChange={setChosen}
        />
      }
    >
      <ChangeList before={before} after={pkg} />
    </Card>
  );
}

/** One sentence for each change; riskier changes are marked. */
export function ChangeList({ before, after }: { before: Package; after: Package }) {
  const changes = comparePackages(before, after);
  if (changes.length === 0)
    return <p className={layout.text}>The exports, permissions and configuration do not change.</p>;
  return (
    <ul className={layout.sentences}>
      {changes.map(({ text, riskier }) => (
        <Sentence key={text} tone={riskier ? "warn" : "quiet"} icon={riskier ? "alert" : "dot"}>
          {text}
        </Sentence>
      ))}
    </ul>
  );
}

/** Ends a rollout or withdraws a held upgrade, if there is one; otherwise returns to the previous version. */
function RollbackButton({ bindings }: { bindings: readonly Binding[] }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [asking, setAsking] = useState(false);
  // The gateway rolls back the bindings of one scope together.
  const project_rollback = selectRollback(bindings.filter(({ scope }) => scope.project_id !== null));
  const org_rollback = selectRollback(bindings.filter(({ scope }) => scope.project_id === null));
  const { pending, upgraded } =
    project_rollback.pending.length + project_rollback.upgraded.length > 0 ? project_rollback : org_rollback;
  const [first] = [...pending, ...upgraded];
  /** An upgrade that awaits a decision has no rollout that could end. */
  const only_held = pending.every(({ share_of }) => share_of === undefined);
  const end_label = only_held ? "Withdraw the upgrade" : "End the rollout";
  const rollback = useMutation({
    mutationFn: async ({ package_id, scope }: Binding) =>
      await client.bindings.rollbackPackage({
        package_id,
        ...(scope.project_id === null ? { org_wide: true } : {}),
      }),
    onSuccess: () =>
      toast.show({
        tone: "good",
        title:
          pending.length > 0
            ? only_held
              ? "The upgrade was withdrawn."
              : "The rollout has ended. No call runs the new version."
            : "Rolled back. The next call runs the previous version.",
      }),
    onError: toast.fail,
    onSettled: () => {
      setAsking(false);
      return Promise.all(
        ["bindings", "packages", "catalog"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      );
    },
  });
  if (first === undefined) return null;
  const previous_versions = upgraded.flatMap(({ previous }) => previous?.package_version ?? []);
  const versions = [...new Set(previous_versions)].join(", ");
  return (
    <>
      <Button size="xs" variant="default" onClick={() => setAsking(true)}>
        {pending.length > 0 ? end_label : `Roll back to ${versions}`}
      </Button>
      <Confirm
        opened={asking}
        title={pending.length > 0 ? `${end_label}?` : `Roll back to ${versions}?`}
        action={pending.length > 0 ? (only_held ? "Withdraw" : "End") : "Roll back"}
        busy={rollback.isPending}
        onConfirm={() => rollback.mutate(first)}
        onClose={() => setAsking(false)}
      >
        <p>
          {pending.length > 0
            ? "The new version gets no more calls, and an upgrade that awaits an admin's decision is withdrawn."
            : "Each binding returns to the version and the settings that it had before its last upgrade."}
        </p>
      </Confirm>
    </>
  );
}

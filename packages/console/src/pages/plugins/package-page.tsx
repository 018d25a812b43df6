/** One version of a package: what it contains, may do and has done, and its other versions. */
import { codeOf, type Package } from "@backplane/contract";
import { Button, Tabs } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { statusQueries } from "../../api/status.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { versionInUse } from "./group-packages.ts";
import { PackageExports } from "./package-exports.tsx";
import { PackageFailures } from "./package-failures.tsx";
import { PackageBadge } from "./package-list.tsx";
import { PackageOverview } from "./package-overview.tsx";
import { PackagePermissions } from "./package-permissions.tsx";
import { WaitingUpgrades } from "./package-updates.tsx";
import { PackageVersions } from "./package-versions.tsx";

const VIEWS = {
  overview: "Overview",
  exports: "Exports",
  permissions: "Permissions",
  versions: "Versions",
  failures: "Failures",
} as const;

export function PackagePage() {
  const { id } = useParams({ from: "/plugins/$id" });
  const query = useQuery(packageQueries.detail(useClient(), id));
  if (query.isPending) return <ListSkeleton />;
  if (query.data === undefined)
    return (
      <>
        <PageHeader title={codeOf(query.error) === "package.not_found" ? "No such package" : "Package"} />
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      </>
    );
  return <PackageDetail pkg={query.data} />;
}

function PackageDetail({ pkg }: { pkg: Package }) {
  const client = useClient();
  const search = useSearch({ from: "/plugins/$id" });
  const setFilters = useSetFilters<typeof search>();
  const bindings = useQuery(bindingQueries.all(client, { package_id: pkg.package_id }));
  const status = useQuery(statusQueries.current(client));
  const view = search.view !== undefined && search.view in VIEWS ? search.view : "overview";
  const bound = bindings.data ?? [];
  const used = versionInUse(bound);
  const held = status.data?.runner.held_back.find(({ package_id }) => package_id === pkg.package_id);
  return (
    <>
      <PageHeader
        title={pkg.manifest.name}
        badge={
          bindings.data === undefined ? null : (
            <PackageBadge group={{ package_id: pkg.package_id, bindings: bound }} status={status.data} />
          )
        }
        lead={
          <>
            {pkg.package_id} {pkg.version}
            {pkg.manifest.description !== "" && <> · {pkg.manifest.description}</>}
          </>
        }
        actions={<PackageActions pkg={pkg} used={used} />}
      />
      <div className={layout.stack}>
        {held !== undefined && (
          <Notice tone="bad" title={`Held back after ${held.failures} failures`}>
            <p>{held.last_error}</p>
          </Notice>
        )}
        <WaitingUpgrades package_id={pkg.package_id} />
        {bindings.data !== undefined && used !== null && used !== pkg.version && (
          <Notice tone="info" title={`${used} is in use, not ${pkg.version}`}>
            <p>Calls run the version that the bindings use. Review the upgrade to change them to this one.</p>
          </Notice>
        )}
        <Tabs
          value={view}
          onChange={(next) => setFilters({ view: next === "overview" ? undefined : (next ?? undefined) })}
          keepMounted={false}
        >
          <Tabs.List mb="md">
            {Object.entries(VIEWS).map(([value, label]) => (
              <Tabs.Tab key={value} value={value}>
                {label}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value="overview">
            <PackageOverview pkg={pkg} bindings={bindings} status={status.data} />
          </Tabs.Panel>
          <Tabs.Panel value="exports">
            <PackageExports pkg={pkg} />
          </Tabs.Panel>
          <Tabs.Panel value="permissions">
            <PackagePermissions pkg={pkg} bindings={bound} />
          </Tabs.Panel>
          <Tabs.Panel value="versions">
            <PackageVersions pkg={pkg} bindings={bound} />
          </Tabs.Panel>
          <Tabs.Panel value="failures">
            <PackageFailures bindings={bound} />
          </Tabs.Panel>
        </Tabs>
      </div>
    </>
  );
}

function PackageActions({ pkg, used }: { pkg: Package; used: string | null }) {
  const { client, queries } = useServices();
  const [removing, setRemoving] = useState(false);
  const navigate = useNavigate();
  const toast = useToast();
  const remove = useMutation({
    mutationFn: () => client.packages.remove(pkg.id),
    onSuccess: async () => {
      toast.show({ tone: "good", title: `${pkg.package_id} ${pkg.version} was removed.` });
      await navigate({ to: "/plugins" });
      await queries.invalidateQueries({ queryKey: ["packages"] });
    },
    onError: (error) => {
      setRemoving(false);
      toast.fail(error);
    },
  });
  return (
    <>
      {used !== null && used !== pkg.version && (
        <Button component={Link} to="/upgrades/$id" params={{ id: pkg.id } as never}>
          Review upgrade
        </Button>
      )}
      <Button
        component={Link}
        to="/bindings/new"
        search={{ package: pkg.id } as never}
        variant={used === null ? "filled" : "default"}
        leftSection={<Icon name="binding" size={16} />}
      >
        Bind
      </Button>
      <Button
        variant="default"
        leftSection={<Icon name="trash" size={16} />}
        onClick={() => setRemoving(true)}
      >
        Remove
      </Button>
      <Confirm
        opened={removing}
        danger
        title={`Remove ${pkg.package_id} ${pkg.version}?`}
        action="Remove"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
        onClose={() => setRemoving(false)}
      >
        <p>
          The files of this version are deleted. A version that a binding uses cannot be removed: delete its
          bindings first. Records of its calls are kept.
        </p>
      </Confirm>
    </>
  );
}

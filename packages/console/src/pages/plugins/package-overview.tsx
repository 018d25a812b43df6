/** The bindings of a package, its signature, provenance, digest and source, and its running processes. */
import type { GatewayStatus } from "@backplane/client";
import {
  type Binding,
  describeProvenance,
  isSelfDescribing,
  type Package,
  WHOLE_PACKAGE,
} from "@backplane/contract";
import { Button } from "@mantine/core";
import { type UseQueryResult, useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { bytesText } from "../../parts/text/bytes-text.ts";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { BindingBadge, SignatureBadge } from "../../parts/values/plugin-badges.tsx";
import { Time } from "../../parts/values/time.tsx";
import { kindText, originText, signatureText } from "./package-text.ts";

export interface PackageOverviewProps {
  pkg: Package;
  bindings: UseQueryResult<Binding[]>;
  status: GatewayStatus | undefined;
}

export function PackageOverview({ pkg, bindings, status }: PackageOverviewProps) {
  const { manifest, signature, provenance, oci } = pkg;
  const { runtime, skills = [] } = manifest;
  const processes = status?.runner.servers.filter(({ package_id }) => package_id === pkg.package_id) ?? [];
  return (
    <div className={layout.stack}>
      <Card
        title="Bindings"
        flush
        actions={<ToggleAllButton bindings={bindings.data ?? []} name={manifest.name} />}
      >
        {bindings.isPending && <ListSkeleton />}
        {bindings.isError && bindings.data === undefined && (
          <ErrorView error={bindings.error} onRetry={() => void bindings.refetch()} />
        )}
        {bindings.data?.length === 0 && (
          <EmptyView
            icon="binding"
            action={
              <Button component={Link} to="/bindings/new" search={{ package: pkg.id } as never}>
                Bind it
              </Button>
            }
            command={shellCommand(
              "backplane",
              "binding",
              "create",
              `${pkg.package_id}@${pkg.version}`,
              firstExport(pkg),
            )}
          >
            No export of this package can be called until it is bound.
          </EmptyView>
        )}
        {bindings.data !== undefined && bindings.data.length > 0 && (
          <DataTable
            label="Bindings of the package"
            columns={BOUND_COLUMNS}
            rows={bindings.data}
            rowKey={({ binding_id }) => binding_id}
          />
        )}
      </Card>
      <div className={layout.pair}>
        <Card title="Trust">
          <Fields
            items={[
              ["Signature", <SignatureBadge key="badge" signature={signature} />],
              ["What it proves", signatureText(signature)],
              [
                "Provenance",
                provenance === undefined ? "Not recorded for this source." : describeProvenance(provenance),
              ],
              ["Digest", <Digest key="digest" value={pkg.digest} />],
              ["Source", originText(pkg)],
              ["Reference", oci?.reference ?? null],
              ["OCI manifest", oci === undefined ? null : <Digest key="oci" value={oci.manifest_digest} />],
              [
                "Installed",
                <span key="at">
                  <Time at={pkg.installed_at} /> by {pkg.installed_by}
                </span>,
              ],
            ]}
          />
        </Card>
        <Card title="Package">
          <Fields
            items={[
              ["Contains", kindText(pkg)],
              ["License", manifest.license === "" ? "Not stated" : manifest.license],
              ["Repository", manifest.source === "" ? null : manifest.source],
              ["Protocol", runtime.protocol],
              [
                "Program",
                runtime.protocol === "skills" ? null : <code key="run">{runtime.entrypoint.join(" ")}</code>,
              ],
              ["Size", bytesText(pkg.size_bytes)],
              ["Skills", skills.length === 0 ? null : skills.map(({ name }) => name).join(", ")],
              [
                "Processes",
                processes.length === 0 ? "None is running now." : processes.map(processText).join("; "),
              ],
            ]}
          />
        </Card>
      </div>
      <Card title="The same in a terminal">
        <CliCommand
          command={shellCommand("backplane", "plugin", "info", `${pkg.package_id}@${pkg.version}`)}
        />
      </Card>
    </div>
  );
}

const BOUND_COLUMNS: readonly Column<Binding>[] = [
  {
    header: "Export",
    cell: ({ binding_id, export_id }) => (
      <RowLink to="/bindings/$id" params={{ id: binding_id }}>
        {export_id === WHOLE_PACKAGE ? "All tools" : export_id}
      </RowLink>
    ),
  },
  { header: "Version", cell: ({ package_version }) => package_version },
  { header: "Scope", cell: ({ scope }) => scope.project_id ?? "Whole organization" },
  { header: "Calls", cell: ({ rollout }) => `${rollout.traffic_percent}%` },
  { header: "State", cell: (binding) => <BindingBadge binding={binding} /> },
  { header: "Changed", numeric: true, cell: ({ updated_at }) => <Time at={updated_at} /> },
];

/** Enables or disables all bindings together, from the next call on. */
function ToggleAllButton({ bindings, name }: { bindings: readonly Binding[]; name: string }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const any_enabled = bindings.some(({ status }) => status !== "disabled");
  const toggle = useMutation({
    mutationFn: () =>
      Promise.all(
        bindings.map(({ binding_id }) =>
          client.bindings.patch(binding_id, { status: any_enabled ? "disabled" : "active" }),
        ),
      ),
    onSuccess: () =>
      toast.show({
        tone: "good",
        title: `${name} is ${any_enabled ? "disabled" : "enabled"} from the next call on.`,
      }),
    onError: toast.fail,
    onSettled: () =>
      Promise.all(["bindings", "catalog"].map((noun) => queries.invalidateQueries({ queryKey: [noun] }))),
  });
  if (bindings.length === 0) return null;
  return (
    <Button size="xs" variant="default" loading={toggle.isPending} onClick={() => toggle.mutate()}>
      {any_enabled ? "Disable all" : "Enable all"}
    </Button>
  );
}

function processText({ pid, state, memory_bytes }: GatewayStatus["runner"]["servers"][number]): string {
  return `${pid} (${state}, ${bytesText(memory_bytes)})`;
}

function firstExport({ manifest: { runtime, exports } }: Package): string {
  return isSelfDescribing(runtime.protocol) ? WHOLE_PACKAGE : (exports[0]?.id ?? WHOLE_PACKAGE);
}

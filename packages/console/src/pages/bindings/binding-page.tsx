/** One binding: its settings, a test call, what it may do, and what happened to it. */
import { type Binding, codeOf, isSelfDescribing, type Package } from "@backplane/contract";
import { Anchor, Button, Tabs } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { invocationQueries } from "../../api/invocations.ts";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { GrantList } from "../../parts/values/permission-list.tsx";
import { BindingBadge } from "../../parts/values/plugin-badges.tsx";
import { Time } from "../../parts/values/time.tsx";
import { BindingDeliveries } from "./binding-deliveries.tsx";
import { BindingSettings } from "./binding-settings.tsx";
import { BindingSignIn } from "./binding-sign-in.tsx";
import { BindingTest } from "./binding-test.tsx";
import { bindingTitle } from "./binding-title.ts";
import { BindingTools } from "./binding-tools.tsx";

export function BindingPage() {
  const { id } = useParams({ from: "/bindings/$id" });
  const client = useClient();
  const query = useQuery(bindingQueries.detail(client, id));
  const packages = useQuery(packageQueries.all(client));
  if (query.data === undefined && query.isError)
    return (
      <>
        <PageHeader title={codeOf(query.error) === "binding.not_found" ? "No such binding" : "Binding"} />
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      </>
    );
  if (packages.data === undefined && packages.isError)
    return <ErrorView error={packages.error} onRetry={() => void packages.refetch()} />;
  if (query.data === undefined || packages.data === undefined) return <ListSkeleton />;
  const { package_id, package_version } = query.data;
  const pkg = packages.data.find((one) => one.package_id === package_id && one.version === package_version);
  return <BindingDetail binding={query.data} pkg={pkg} />;
}

function BindingDetail({ binding, pkg }: { binding: Binding; pkg: Package | undefined }) {
  const search = useSearch({ from: "/bindings/$id" });
  const setFilters = useSetFilters<typeof search>();
  const protocol = pkg?.manifest.runtime.protocol;
  const describes_itself = protocol !== undefined && isSelfDescribing(protocol);
  const views = {
    settings: "Settings",
    test: binding.kind === "hook" ? "Test delivery" : "Test call",
    permissions: "Permissions",
    ...(describes_itself ? { tools: "Tools" } : {}),
    ...(binding.kind === "hook" ? { deliveries: "Deliveries" } : {}),
  };
  const view = search.view !== undefined && search.view in views ? search.view : "settings";
  return (
    <>
      <PageHeader
        title={bindingTitle(binding)}
        badge={<BindingBadge binding={binding} />}
        lead={
          <>
            {pkg === undefined ? (
              binding.package_id
            ) : (
              <Anchor component={Link} to="/plugins/$id" params={{ id: pkg.id } as never}>
                {binding.package_id}
              </Anchor>
            )}{" "}
            {binding.package_version}, changed <Time at={binding.updated_at} />
          </>
        }
        actions={<BindingActions binding={binding} />}
      />
      <div className={layout.stack}>
        <BindingNotices binding={binding} />
        {protocol === "mcp.http" && <BindingSignIn binding={binding} />}
        <Tabs
          value={view}
          onChange={(next) => setFilters({ view: next === "settings" ? undefined : (next ?? undefined) })}
          keepMounted={false}
        >
          <Tabs.List mb="md">
            {Object.entries(views).map(([value, label]) => (
              <Tabs.Tab key={value} value={value}>
                {label}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          <Tabs.Panel value="settings">
            <BindingSettings key={binding.binding_id} binding={binding} pkg={pkg} />
          </Tabs.Panel>
          <Tabs.Panel value="test">
            <BindingTest binding={binding} pkg={pkg} />
          </Tabs.Panel>
          <Tabs.Panel value="permissions">
            <BindingPermissions binding={binding} pkg={pkg} />
          </Tabs.Panel>
          {describes_itself && (
            <Tabs.Panel value="tools">
              <BindingTools binding={binding} />
            </Tabs.Panel>
          )}
          {binding.kind === "hook" && (
            <Tabs.Panel value="deliveries">
              <BindingDeliveries binding={binding} />
            </Tabs.Panel>
          )}
        </Tabs>
      </div>
    </>
  );
}

function BindingNotices({ binding }: { binding: Binding }) {
  const { unbound_slots, held_upgrade, rolled_back, rollback_failed, trial, package_version, share_of } =
    binding;
  return (
    <>
      {unbound_slots.length > 0 && (
        <Notice
          tone="warn"
          title={`Inactive: ${unbound_slots.join(", ")} ${unbound_slots.length === 1 ? "has" : "have"} no secret`}
        >
          <p>
            Calls are refused until every slot has a secret. Choose or store the secrets in the tab Settings.
          </p>
        </Notice>
      )}
      {held_upgrade !== undefined && (
        <Notice
          tone="warn"
          title={`An upgrade to ${held_upgrade.package_version} is awaiting an admin's decision`}
        >
          <p>
            That version also requests {held_upgrade.permissions.join(", ")}. {package_version} serves all
            calls until then.{" "}
            <Link to="/plugins" search={{ view: "updates" }}>
              Decide
            </Link>
          </p>
        </Notice>
      )}
      {rollback_failed !== undefined && (
        <Notice tone="bad" title="The failed version could not be rolled back">
          <p>
            {rollback_failed.reason} {rollback_failed.problem} {rollback_failed.fix}
          </p>
        </Notice>
      )}
      {rolled_back !== undefined && (
        <Notice tone="warn" title={`${rolled_back.package_version} was rolled back by the gateway`}>
          <p>
            {rolled_back.reason} <Time at={rolled_back.at} />
            {rolled_back.invocation_id !== undefined && (
              <>
                {" · "}
                <Link to="/invocations/$id" params={{ id: rolled_back.invocation_id }}>
                  Show the call
                </Link>
              </>
            )}
          </p>
        </Notice>
      )}
      {trial !== undefined && (
        <Notice tone="info" title={`${package_version} is on trial`}>
          <p>The gateway returns to {trial.from_version} if this version crashes or fails too often.</p>
        </Notice>
      )}
      {share_of !== undefined && (
        <Notice
          tone="info"
          title={`This binding gets ${binding.rollout.traffic_percent}% of the calls of another binding`}
        >
          <p>
            <Link to="/bindings/$id" params={{ id: share_of }}>
              The binding that gets the other calls
            </Link>
          </p>
        </Notice>
      )}
    </>
  );
}

function BindingActions({ binding }: { binding: Binding }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const navigate = useNavigate();
  const [removing, setRemoving] = useState(false);
  const { binding_id, kind, status, policy } = binding;
  const paused = policy.deliveries?.paused === true;
  const refresh = () =>
    Promise.all(
      ["bindings", "catalog", "packages"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
    );
  const toggle = useMutation({
    mutationFn: () =>
      client.bindings.patch(binding_id, { status: status === "disabled" ? "active" : "disabled" }),
    onSuccess: (changed) =>
      toast.show({
        tone: "good",
        title:
          changed.status === "disabled"
            ? "Disabled. The next call is refused."
            : "Enabled from the next call on.",
        ...((changed.waiting_deliveries ?? 0) === 0
          ? {}
          : {
              detail: `${changed.waiting_deliveries === 1 ? "1 delivery is" : `${changed.waiting_deliveries} deliveries are`} held until the hook is enabled again. New events are not delivered.`,
            }),
      }),
    onError: toast.fail,
    onSettled: refresh,
  });
  const pause = useMutation({
    mutationFn: () => (paused ? client.deliveries.resume(binding_id) : client.deliveries.pause(binding_id)),
    onSuccess: () => toast.show({ tone: "good", title: paused ? "Resumed." : "Paused. Events are kept." }),
    onError: toast.fail,
    onSettled: refresh,
  });
  const remove = useMutation({
    mutationFn: () => client.bindings.remove(binding_id),
    onSuccess: async () => {
      toast.show({ tone: "good", title: "The binding was deleted." });
      await navigate({ to: "/bindings" });
      await refresh();
    },
    onError: (error) => {
      setRemoving(false);
      toast.fail(error);
    },
  });
  return (
    <>
      {kind === "hook" && (
        <Button
          variant="default"
          leftSection={<Icon name={paused ? "play" : "pause"} size={16} />}
          loading={pause.isPending}
          onClick={() => pause.mutate()}
        >
          {paused ? "Resume" : "Pause"}
        </Button>
      )}
      <Button variant="default" loading={toggle.isPending} onClick={() => toggle.mutate()}>
        {status === "disabled" ? "Enable" : "Disable"}
      </Button>
      <Button
        variant="default"
        leftSection={<Icon name="trash" size={16} />}
        onClick={() => setRemoving(true)}
      >
        Delete
      </Button>
      <Confirm
        opened={removing}
        danger
        title={`Delete the binding of ${bindingTitle(binding)}?`}
        action="Delete"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
        onClose={() => setRemoving(false)}
      >
        <p>
          The export can no longer be called through this binding, and the settings of the binding are lost.
          The package, the secrets and the records of the calls are kept.
        </p>
      </Confirm>
    </>
  );
}

/** The grant, the package digests of the binding and of its last call, and the command that shows the binding. */
function BindingPermissions({ binding, pkg }: { binding: Binding; pkg: Package | undefined }) {
  const client = useClient();
  const { binding_id, generation, class_lowered_by } = binding;
  const report = useQuery(bindingQueries.validation(client, binding_id));
  const calls = useRows(useInfiniteQuery(invocationQueries.list(client, { binding_id }, 1)));
  const last = calls[0];
  if (report.isError && report.data === undefined)
    return <ErrorView error={report.error} onRetry={() => void report.refetch()} />;
  if (report.isPending) return <ListSkeleton />;
  return (
    <div className={layout.pair}>
      <Card title="Granted to each call">
        <GrantList grant={report.data.grant} />
      </Card>
      <Card title="What runs">
        <Fields
          items={[
            ["Digest", pkg === undefined ? null : <Digest key="digest" value={pkg.digest} />],
            [
              "Last call ran",
              last === undefined ? (
                "The binding has not been called yet."
              ) : (
                <Digest key="last" value={last.package_digest} />
              ),
            ],
            [
              "",
              last === undefined || pkg === undefined || last.package_digest === pkg.digest
                ? null
                : "The last call ran another digest, for example because it started before the binding changed its version.",
            ],
            ["Lowered isolation", class_lowered_by === null ? null : `By ${class_lowered_by}`],
            ["Generation", String(generation)],
            ["Binding", binding_id],
            [
              "In a terminal",
              <CliCommand key="command" command={shellCommand("backplane", "binding", "show", binding_id)} />,
            ],
          ]}
        />
      </Card>
    </div>
  );
}

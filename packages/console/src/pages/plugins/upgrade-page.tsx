/** Reviews an upgrade before it happens: the changes, the new permissions, and a test on recorded calls. */
import { type Binding, codeOf, type Package, type ReplayReport } from "@backplane/contract";
import { Button, NumberInput, Radio, TagsInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { packageQueries } from "../../api/packages.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { Notice } from "../../parts/notices/notice.tsx";
import { OperationProgress, useOperation } from "../../parts/notices/operation-progress.tsx";
import layout from "../../parts/styles/layout.module.css";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { durationText } from "../../parts/text/time-text.ts";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Sentence } from "../../parts/values/permission-list.tsx";
import { countText } from "./package-text.ts";
import { ChangeList } from "./package-versions.tsx";
import { DEFAULT_UPGRADE, type UpgradeChoices, upgradeCommand, upgradeRequest } from "./upgrade-request.ts";

export function UpgradePage() {
  const { id } = useParams({ from: "/upgrades/$id" });
  const client = useClient();
  const target = useQuery(packageQueries.detail(client, id));
  const packages = useQuery(packageQueries.all(client));
  const bindings = useQuery({
    ...bindingQueries.all(client, { package_id: target.data?.package_id }),
    enabled: target.data !== undefined,
  });
  const failed = [target, packages, bindings].find(({ isError, data }) => isError && data === undefined);
  if (failed !== undefined)
    return (
      <>
        <PageHeader title={codeOf(failed.error) === "package.not_found" ? "No such package" : "Upgrade"} />
        <ErrorView error={failed.error} onRetry={() => void failed.refetch()} />
      </>
    );
  if (target.data === undefined || packages.data === undefined || bindings.data === undefined)
    return <ListSkeleton />;
  const { package_id, version } = target.data;
  const outdated = bindings.data.filter(
    ({ share_of, package_version }) => share_of === undefined && package_version !== version,
  );
  const from = [...new Set(outdated.map(({ package_version }) => package_version))]
    .map((used) => packages.data.find((pkg) => pkg.package_id === package_id && pkg.version === used))
    .filter((pkg) => pkg !== undefined);
  return (
    <>
      <PageHeader
        title={`Upgrade ${target.data.manifest.name} to ${version}`}
        lead={`${countText(outdated.length, "binding")} of ${package_id} would be upgraded. Settings and secrets are kept.`}
      />
      {outdated.length === 0 ? (
        <EmptyView
          icon="check"
          action={
            <Button component={Link} to="/plugins/$id" params={{ id } as never}>
              Show the package
            </Button>
          }
        >
          Every binding already uses {version}.
        </EmptyView>
      ) : (
        <UpgradeReview target={target.data} from={from} outdated={outdated} />
      )}
    </>
  );
}

type NewPermissions = UpgradeChoices["new_permissions"];

const CHOICES: { value: NewPermissions; label: string; description: string }[] = [
  {
    value: "hold",
    label: "Wait for an admin",
    description:
      "If the new version requests more permissions than the version in use, no binding is upgraded until an admin decides.",
  },
  {
    value: "withhold",
    label: "Upgrade without new permissions",
    description: "The new version runs with the permissions of the old one.",
  },
  {
    value: "grant",
    label: "Grant new permissions",
    description: "For admins: the new version gets all permissions that it requests.",
  },
];

interface UpgradeReviewProps {
  target: Package;
  from: readonly Package[];
  outdated: readonly Binding[];
}

function UpgradeReview({ target, from, outdated }: UpgradeReviewProps) {
  const { queries } = useServices();
  const toast = useToast();
  const navigate = useNavigate();
  const [permissions, setPermissions] = useState<NewPermissions>(DEFAULT_UPGRADE.new_permissions);
  const [percent, setPercent] = useState<number | string>(DEFAULT_UPGRADE.percent);
  const [trial, setTrial] = useState<number | string>(DEFAULT_UPGRADE.trial_seconds);
  const { client } = useServices();
  const { package_id, version: package_version } = target;
  const org_wide = outdated.every(({ scope }) => scope.project_id === null);
  const choices: UpgradeChoices = {
    package_id,
    package_version,
    percent: Number(percent),
    new_permissions: permissions,
    trial_seconds: Number(trial),
    org_wide,
  };
  const upgrade = useMutation({
    mutationFn: () => client.bindings.upgrade(upgradeRequest(choices)),
    onSuccess: async (upgraded) => {
      const held = upgraded.some(({ held_upgrade }) => held_upgrade?.package_version === package_version);
      toast.show({
        tone: "good",
        title: held
          ? `The upgrade is awaiting an admin's decision; ${outdated[0]!.package_version} stays in use.`
          : Number(percent) < 100
            ? `${package_version} gets ${percent}% of the calls.`
            : `${package_id} ${package_version} is in use.`,
      });
      await Promise.all(
        ["bindings", "packages", "catalog"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })),
      );
      await navigate({ to: "/plugins/$id", params: { id: target.id } });
    },
    onError: toast.fail,
  });
  return (
    <div className={layout.stack}>
      {from.map((before) => (
        <Card key={before.id} title={`What changes from ${before.version}`}>
          <ChangeList before={before} after={target} />
        </Card>
      ))}
      <ReplayCard target={target} org_wide={org_wide} />
      <Card title="How to upgrade">
        <div className={layout.form}>
          <Radio.Group
            label="If the version requests more permissions"
            value={permissions}
            onChange={(value) => setPermissions(value as NewPermissions)}
          >
            <div className={layout.tight} style={{ marginTop: "0.5rem" }}>
              {CHOICES.map((choice) => (
                <Radio key={choice.value} {...choice} />
              ))}
            </div>
          </Radio.Group>
          <div className={layout.columns}>
            <NumberInput
              label="Share of the calls"
              description="Below 100, the bindings keep their version, and the new version gets this share of the calls."
              suffix="%"
              min={1}
              max={100}
              value={percent}
              onChange={setPercent}
            />
            <NumberInput
              label="Trial"
              description="The gateway rolls back a version that fails in this time."
              suffix=" s"
              min={0}
              max={86_400}
              value={trial}
              onChange={setTrial}
            />
          </div>
          <div className={layout.row}>
            <Button loading={upgrade.isPending} onClick={() => upgrade.mutate()}>
              Upgrade
            </Button>
            <Button component={Link} to="/plugins/$id" params={{ id: target.id } as never} variant="default">
              Cancel
            </Button>
          </div>
        </div>
      </Card>
      <Card title="The same in a terminal">
        <CliCommand command={shellCommand(...upgradeCommand(choices))} />
      </Card>
    </div>
  );
}

/** Runs recorded read-only calls against both versions, in the sandbox without network access or secrets. */
function ReplayCard({ target, org_wide }: { target: Package; org_wide: boolean }) {
  const [limit, setLimit] = useState<number | string>(50);
  const [tools, setTools] = useState<string[]>([]);
  const replay = useOperation((client) =>
    client.packages.replay(target.id, {
      limit: Number(limit),
      ...(tools.length === 0 ? {} : { tools }),
      ...(org_wide ? { org_wide: true } : {}),
    }),
  );
  return (
    <Card title="Try the new version on recorded calls">
      <div className={layout.tight}>
        <p className={layout.text}>
          Recorded read-only calls run again with both versions, in the sandbox without network access or
          secrets, and the results are compared. The bindings do not change.
        </p>
        <div className={layout.columns}>
          <NumberInput
            label="Calls"
            description="Newest first."
            min={1}
            max={500}
            value={limit}
            onChange={setLimit}
          />
          <TagsInput
            label="Only these tools"
            description="If empty, calls of all tools are replayed."
            data={target.manifest.exports.filter(({ kind }) => kind === "tool").map(({ id }) => id)}
            value={tools}
            onChange={setTools}
          />
        </div>
        {replay.running ? (
          <OperationProgress label="Replaying calls" progress={replay.progress} onCancel={replay.cancel} />
        ) : (
          <div>
            <Button
              size="xs"
              variant="default"
              leftSection={<Icon name="rerun" size={14} />}
              onClick={() => replay.run()}
            >
              Replay
            </Button>
          </div>
        )}
        {replay.error !== null && <ErrorView error={replay.error} />}
        {replay.data !== undefined && <ReplayResult report={replay.data} />}
      </div>
    </Card>
  );
}

const VERDICTS: Record<ReplayReport["verdict"], { tone: "good" | "warn" | "bad" | "info"; title: string }> = {
  same: { tone: "good", title: "Both versions give the same results" },
  changed: { tone: "warn", title: "Some results differ" },
  held: { tone: "bad", title: "The new version needs a permission that the version in use does not have" },
  nothing_replayed: { tone: "info", title: "No recorded call could be replayed" },
};

function ReplayResult({ report }: { report: ReplayReport }) {
  const { verdict, counts, latency, calls, permissions } = report;
  const different = calls.filter(({ result }) => result === "changed" || result === "failed");
  return (
    <>
      <Notice {...VERDICTS[verdict]}>
        <p>
          {counts.same} the same, {counts.changed} changed, {counts.failed} failed, {counts.not_comparable}{" "}
          not comparable, {counts.skipped} skipped
          {latency === null
            ? "."
            : `; median ${durationText(latency.candidate_ms)} instead of ${durationText(latency.current_ms)}.`}
        </p>
      </Notice>
      <ul className={layout.sentences}>
        {permissions.attempted.map(({ host, port }) => (
          <Sentence key={`${host}:${port}`} tone="bad" icon="octagon">
            Only the new version tried to connect to {host}:{port}.
          </Sentence>
        ))}
        {different.map(({ invocation_id, export_id, reason }) => (
          <Sentence key={invocation_id} tone="warn" icon="alert">
            <Link to="/invocations/$id" params={{ id: invocation_id }}>
              {export_id}
            </Link>
            : {reason}
          </Sentence>
        ))}
      </ul>
    </>
  );
}

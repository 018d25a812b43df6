/** Whether everything works, and how to fix what does not. */
import type { GatewayStatus } from "@backplane/client";
import { ERROR_CODES, type Invocation, isErrorCode } from "@backplane/contract";
import { Anchor, Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { FAILURE_STATUSES, invocationQueries } from "../../api/invocations.ts";
import { useClient } from "../../api/services.ts";
import { statusQueries } from "../../api/status.ts";
import { type HealthCheck, NOT_RUNNING, worstStatus } from "../../parts/health/health-checks.ts";
import { useHealthChecks } from "../../parts/health/use-health-checks.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon, type IconName } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { bytesText } from "../../parts/text/bytes-text.ts";
import { asSentence } from "../../parts/text/sentence.ts";
import { durationText } from "../../parts/text/time-text.ts";
import { Badge, type Tone } from "../../parts/values/badge.tsx";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Time } from "../../parts/values/time.tsx";
import styles from "./health.module.css";

const STATUSES: Record<HealthCheck["status"], { tone: Tone; icon: IconName; label: string }> = {
  ok: { tone: "good", icon: "check", label: "OK" },
  degraded: { tone: "warn", icon: "alert", label: "Degraded" },
  failed: { tone: "bad", icon: "cross", label: "Failed" },
};
const SHOWN_PROBLEMS = 10;

export function HealthPage() {
  const client = useClient();
  const status = useQuery(statusQueries.current(client));
  const [probe, setProbe] = useState(false);
  const { checks, pending, refresh } = useHealthChecks({ probe });
  const stopped = checks.some(
    ({ name, message }) => name.startsWith("instrument ") && message === NOT_RUNNING,
  );
  return (
    <>
      <PageHeader
        title="Health"
        badge={pending ? null : <StatusBadge status={worstStatus(checks)} />}
        lead="The checks of this gateway, its plugins and its queues, with a fix for each problem."
        actions={
          <>
            {(stopped || probe) && (
              <Button variant="default" disabled={probe} onClick={() => setProbe(true)}>
                Start and check the instruments
              </Button>
            )}
            <Button variant="default" leftSection={<Icon name="refresh" size={16} />} onClick={refresh}>
              Check again
            </Button>
          </>
        }
      />
      <div className={styles.stack}>
        <Card title="Checks" flush>
          {pending ? <ListSkeleton /> : <Checks checks={checks} />}
        </Card>
        {status.isError && <ErrorView error={status.error} onRetry={() => void status.refetch()} />}
        {status.data !== undefined && <StatusCards status={status.data} />}
        <RecentProblems />
        <MaintenanceCard />
        <Card title="The same in a terminal">
          <p className={styles.hint}>The command also checks the files and settings of the machine.</p>
          <CliCommand command="backplane doctor" />
        </Card>
      </div>
    </>
  );
}

/** A backup contains the data of every organization, so the console only shows the commands. */
function MaintenanceCard() {
  return (
    <Card title="Backups and repairs">
      <div className={layout.tight}>
        <p className={styles.hint}>
          These commands read and replace the files of the gateway. They run on its machine: a backup contains
          the data of every organization and is not sent to a browser, and a restore needs a stopped gateway.
        </p>
        <Fields
          items={MAINTENANCE.map(([what, command]) => [what, <CliCommand key={what} command={command} />])}
        />
      </div>
    </Card>
  );
}

const MAINTENANCE = [
  ["Back up everything", "backplane backup /backups/backplane.tar.gz"],
  ["Check the store", "backplane store check"],
  ["Repair the store", "backplane down && backplane store repair"],
  ["Restore a backup", "backplane down && backplane restore /backups/backplane.tar.gz"],
] as const;

function StatusBadge({ status }: { status: HealthCheck["status"] }) {
  const { tone, icon, label } = STATUSES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}

function Checks({ checks }: { checks: readonly HealthCheck[] }) {
  return (
    <ul className={styles.list}>
      {checks.map(({ name, status, message, fix }) => (
        <li key={`${name} ${message}`} className={styles.check}>
          <StatusBadge status={status} />
          <div className={styles.checkText}>
            <p className={styles.checkName}>{name}</p>
            <p className={styles.checkMessage}>{asSentence(message)}</p>
            {fix !== undefined && <Fix text={fix} />}
          </div>
        </li>
      ))}
    </ul>
  );
}

function Fix({ text }: { text: string }) {
  if (text.startsWith("backplane ")) return <CliCommand command={text} />;
  return <p className={styles.checkMessage}>{asSentence(text)}</p>;
}

function StatusCards({ status }: { status: GatewayStatus }) {
  const { version, node, uptime_s, store, caller, invocations, runner, sandbox } = status;
  return (
    <>
      <div className={styles.columns}>
        <Card title="Gateway">
          <Fields
            items={[
              ["Version", version],
              ["Node", node],
              ["Running for", durationText(uptime_s * 1_000)],
              ["You are", `${caller.actor} (${caller.role})`],
              ["Project", caller.project_id ?? "all"],
            ]}
          />
        </Card>
        <Card title="Store">
          <Fields
            items={[
              ["State", store.ok ? "responds" : "does not respond"],
              ["Kind", store.kind],
              ["Schema", store.schema_version === null ? null : `version ${store.schema_version}`],
              ["Size", store.bytes === null ? null : bytesText(store.bytes)],
              [
                "Last backup",
                store.last_backup_at === null ? "none" : <Time key="at" at={store.last_backup_at} />,
              ],
            ]}
          />
        </Card>
        <Card title="Sandbox">
          <Fields
            items={[
              ["Enabled", sandbox.enabled ? "yes" : "no"],
              ["Available", sandbox.available ? "yes" : "no"],
              ["Details", sandbox.reason],
            ]}
          />
        </Card>
        <Card title="Queues">
          <Fields
            items={[
              ["Running calls", String(invocations.running)],
              ["Queued calls", String(invocations.queued)],
              [
                "Awaiting approval",
                <Anchor key="approvals" component={Link} to="/approvals">
                  {invocations.waiting_approval}
                </Anchor>,
              ],
              ["Plugin processes", `${runner.processes}, of which ${runner.prewarmed} prewarmed`],
            ]}
          />
        </Card>
      </div>
      {runner.servers.length > 0 && <Servers servers={runner.servers} />}
    </>
  );
}

function Servers({ servers }: { servers: GatewayStatus["runner"]["servers"] }) {
  return (
    <Card title="Running servers" flush>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a wide table must scroll with the keyboard too */}
      <div className={styles.scroll} tabIndex={0}>
        <table className={parts.table} aria-label="Running servers">
          <thead>
            <tr>
              <th scope="col">Package</th>
              <th scope="col">State</th>
              <th scope="col" className={parts.numeric}>
                Process
              </th>
              <th scope="col" className={parts.numeric}>
                Calls
              </th>
              <th scope="col" className={parts.numeric}>
                Idle
              </th>
              <th scope="col" className={parts.numeric}>
                Memory
              </th>
            </tr>
          </thead>
          <tbody>
            {servers.map(({ pid, package_id, state, calls, idle_ms, memory_bytes }) => (
              <tr key={pid}>
                <td>{package_id}</td>
                <td>{state}</td>
                <td className={parts.numeric}>{pid}</td>
                <td className={parts.numeric}>{calls}</td>
                <td className={parts.numeric}>{durationText(idle_ms)}</td>
                <td className={parts.numeric}>{bytesText(memory_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function RecentProblems() {
  const query = useInfiniteQuery(
    invocationQueries.list(useClient(), { status: FAILURE_STATUSES }, SHOWN_PROBLEMS),
  );
  const rows = useRows(query).slice(0, SHOWN_PROBLEMS);
  return (
    <Card title="Recent problems" flush>
      {query.isPending && <ListSkeleton />}
      {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && rows.length === 0 && <EmptyView icon="check">No call has failed.</EmptyView>}
      <ul className={styles.list}>
        {rows.map((call) => (
          <li key={call.id} className={styles.problem}>
            <Problem call={call} />
            <Time at={call.created_at} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Problem({ call: { id, export_id, error } }: { call: Invocation }) {
  const own_fix = error?.details?.fix;
  const code = error?.code ?? "internal";
  const fix = typeof own_fix === "string" ? own_fix : isErrorCode(code) ? ERROR_CODES[code].remedy : null;
  return (
    <div className={styles.checkText}>
      <p className={styles.checkName}>
        <Link to="/invocations/$id" params={{ id }} className={parts.rowLink} data-row-link="">
          {export_id}
        </Link>{" "}
        <code>{code}</code>
      </p>
      <p className={styles.checkMessage}>{error === null ? "" : asSentence(error.message)}</p>
      {fix !== null && <p className={styles.hint}>{asSentence(fix)}</p>}
    </div>
  );
}

/** The first page: whether the gateway is healthy, what awaits approval, what failed, and what to do next. */
import type { GatewayStatus } from "@backplane/client";
import type { Invocation } from "@backplane/contract";
import { Button } from "@mantine/core";
import { type UseInfiniteQueryResult, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, type LinkProps } from "@tanstack/react-router";
import { approvalQueries } from "../../api/approvals.ts";
import { catalogQueries } from "../../api/catalog.ts";
import { healthQueries } from "../../api/health.ts";
import { FAILURE_STATUSES, invocationQueries } from "../../api/invocations.ts";
import { useClient } from "../../api/services.ts";
import { statusQueries } from "../../api/status.ts";
import { type HealthCheck, worstStatus } from "../../parts/health/health-checks.ts";
import { useHealthChecks } from "../../parts/health/use-health-checks.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Icon, type IconName } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { useRows } from "../../parts/lists/paged-list.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { durationText } from "../../parts/text/time-text.ts";
import { Badge, InvocationBadge, RiskBadge } from "../../parts/values/badge.tsx";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Time } from "../../parts/values/time.tsx";
import { groupApprovals } from "../approvals/group-approvals.ts";
import styles from "./home.module.css";

const SHOWN = 5;
const LATEST = 10;

export function HomePage() {
  const client = useClient();
  const status = useQuery(statusQueries.current(client));
  const tools = useQuery(catalogQueries.list(client));
  const health = useHealthChecks();
  const own_tools = tools.data?.filter(({ origin }) => origin !== "core" && origin !== "bundled");
  return (
    <>
      <PageHeader
        title="Home"
        badge={health.pending ? null : <HealthBadge checks={health.checks} />}
        lead={
          status.data === undefined ? "The state of this gateway." : summarize(status.data, health.checks)
        }
      />
      {status.isError && <ErrorView error={status.error} onRetry={() => void status.refetch()} />}
      {status.data !== undefined && (
        <Tiles status={status.data} tools={own_tools === undefined ? null : own_tools.length} />
      )}
      <div className={styles.columns}>
        <div className={styles.column}>
          {own_tools?.length === 0 && <FirstSteps />}
          <PendingApprovalsCard />
          <RecentFailures />
          <DeadDeliveries />
        </div>
        <div className={styles.column}>
          <RecentInvocations />
        </div>
      </div>
    </>
  );
}

/** The worst status of the checks that the health page lists. */
function HealthBadge({ checks }: { checks: readonly HealthCheck[] }) {
  const { tone, label } = HEALTH[worstStatus(checks)];
  return (
    <Badge tone={tone} icon={tone === "good" ? "check" : "alert"}>
      {label}
    </Badge>
  );
}

const HEALTH = {
  ok: { tone: "good", label: "Healthy" },
  degraded: { tone: "warn", label: "Degraded" },
  failed: { tone: "bad", label: "Failed" },
} as const;

function summarize(status: GatewayStatus, checks: readonly HealthCheck[]): string {
  const problems = checks.filter((check) => check.status !== "ok");
  return problems.length === 0
    ? `Running for ${durationText(status.uptime_s * 1_000)}; isolated plugins can run.`
    : problems.map(({ name, message }) => `${name}: ${message}.`).join(" ");
}

function Tiles({ status, tools }: { status: GatewayStatus; tools: number | null }) {
  const { invocations, runner } = status;
  return (
    <div className={styles.tiles}>
      <Tile
        label="Awaiting approval"
        icon="approval"
        figure={invocations.waiting_approval}
        tone={invocations.waiting_approval > 0 ? "warn" : undefined}
        linkTo={{ to: "/approvals" }}
      />
      <Tile
        label="Running calls"
        icon="play"
        figure={invocations.running}
        note={`${invocations.queued} queued`}
        linkTo={{ to: "/invocations", search: { status: "running" } }}
      />
      <Tile
        label="Plugin processes"
        icon="plugin"
        figure={runner.processes}
        note={`${runner.prewarmed} prewarmed`}
      />
      <Tile label="Plugin tools" icon="terminal" figure={tools ?? "…"} />
    </div>
  );
}

interface TileProps {
  label: string;
  icon: IconName;
  figure: number | string;
  note?: string;
  tone?: "bad" | "warn" | undefined;
  linkTo?: LinkProps;
}

function Tile({ label, icon, figure, note, tone, linkTo }: TileProps) {
  const content = (
    <>
      <span className={styles.tileLabel}>
        <Icon name={icon} size={15} />
        {label}
      </span>
      <span className={styles.tileFigure} data-tone={tone}>
        {figure}
      </span>
      <span className={styles.tileNote}>{note ?? " "}</span>
    </>
  );
  const className = `${parts.card} ${styles.tile}`;
  if (linkTo === undefined) return <div className={className}>{content}</div>;
  return (
    <Link {...linkTo} className={className}>
      {content}
    </Link>
  );
}

/** The next steps on a gateway without tools from installed plugins. */
function FirstSteps() {
  return (
    <Card title="Get started">
      <ol className={styles.steps}>
        <li className={styles.step}>
          <div>
            <p className={styles.stepTitle}>Install a plugin</p>
            <p className={styles.stepText}>
              From a folder, an archive, npm, PyPI, an OCI registry or the marketplace. You can review its
              permissions first.
            </p>
            <CliCommand command="backplane plugin install example:hello-tool" />
          </div>
        </li>
        <li className={styles.step}>
          <div>
            <p className={styles.stepTitle}>Bind one of its tools</p>
            <p className={styles.stepText}>
              A binding makes a tool usable, with its settings, secrets and limits.
            </p>
            <CliCommand command="backplane binding create acme/hello hello" />
          </div>
        </li>
        <li className={styles.step}>
          <div>
            <p className={styles.stepTitle}>Call it</p>
            <p className={styles.stepText}>Each call runs with only the rights that it was granted.</p>
            <CliCommand command={`backplane invoke hello --input '{"name":"Ada"}'`} />
          </div>
        </li>
        <li className={styles.step}>
          <div>
            <p className={styles.stepTitle}>Connect your assistant</p>
            <p className={styles.stepText}>Any MCP client gets the whole catalog from one URL.</p>
            <CliCommand command="backplane client connect claude" />
          </div>
        </li>
      </ol>
    </Card>
  );
}

function PendingApprovalsCard() {
  const query = useInfiniteQuery(approvalQueries.list(useClient(), { status: "pending" }));
  const rows = useRows(query);
  return (
    <Card
      title="Awaiting approval"
      flush
      actions={
        rows.length > 0 && (
          <Button component={Link} to="/approvals" size="compact-xs" variant="subtle">
            Review all
          </Button>
        )
      }
    >
      {query.isPending && <ListSkeleton />}
      {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && rows.length === 0 && <EmptyText>No call awaits approval.</EmptyText>}
      <ul className={styles.list}>
        {groupApprovals(rows)
          .slice(0, SHOWN)
          .map(({ first, all }) => (
            <li key={first.id} className={styles.item}>
              <div className={styles.itemText}>
                <Link to="/approvals" search={{ id: first.id }} className={parts.rowLink}>
                  {first.tool}
                  {all.length > 1 && ` ×${all.length}`}
                </Link>
                <span className={styles.itemSub}>{first.brief}</span>
              </div>
              <RiskBadge risk={first.risk} />
            </li>
          ))}
      </ul>
    </Card>
  );
}

function RecentInvocations() {
  const query = useInfiniteQuery(invocationQueries.list(useClient(), {}, LATEST));
  return (
    <InvocationCard title="Latest calls" query={query} empty="Nothing has been called yet." shown={LATEST} />
  );
}

function RecentFailures() {
  const query = useInfiniteQuery(invocationQueries.list(useClient(), { status: FAILURE_STATUSES }, 10));
  return <InvocationCard title="Recent failures" query={query} empty="No call has failed." />;
}

/** Events that a hook did not accept in any attempt. Shows nothing if there are none. */
function DeadDeliveries() {
  const rows = useQuery(healthQueries.deadDeliveries(useClient())).data ?? [];
  if (rows.length === 0) return null;
  return (
    <Card title="Dead deliveries" flush>
      <ul className={styles.list}>
        {rows.slice(0, SHOWN).map(({ id, binding_id, event, error, attempt, ended_at }) => (
          <li key={id} className={styles.item}>
            <div className={styles.itemText}>
              <Link
                to="/bindings/$id"
                params={{ id: binding_id }}
                search={{ view: "deliveries" }}
                className={parts.rowLink}
              >
                {typeof event.type === "string" ? event.type : "event"}
              </Link>
              <span className={styles.itemSub} title={error ?? undefined}>
                {attempt} attempts{error === null ? "" : `: ${error}`}
              </span>
            </div>
            <div className={styles.itemEnd}>{ended_at !== null && <Time at={ended_at} />}</div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

interface InvocationCardProps {
  title: string;
  query: Parameters<typeof useRows<Invocation>>[0] &
    Pick<UseInfiniteQueryResult, "isPending" | "isError" | "isSuccess" | "error" | "refetch">;
  empty: string;
  shown?: number;
}

function InvocationCard({ title, query, empty, shown = SHOWN }: InvocationCardProps) {
  const rows = useRows(query);
  return (
    <Card title={title} flush>
      {query.isPending && <ListSkeleton />}
      {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
      {query.isSuccess && rows.length === 0 && <EmptyText>{empty}</EmptyText>}
      <ul className={styles.list}>
        {rows.slice(0, shown).map(({ id, export_id, package_id, status, error, created_at }) => (
          <li key={id} className={styles.item}>
            <div className={styles.itemText}>
              <Link to="/invocations/$id" params={{ id }} className={parts.rowLink}>
                {export_id}
              </Link>
              <span className={styles.itemSub} title={error?.message}>
                {error === null ? package_id : `${error.code}: ${error.message}`}
              </span>
            </div>
            <div className={styles.itemEnd}>
              <InvocationBadge status={status} />
              <Time at={created_at} />
            </div>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function EmptyText({ children }: { children: string }) {
  return <p className={styles.nothing}>{children}</p>;
}

/** One call: its phases, its input and result, and why it failed. */
import {
  type Approval,
  codeOf,
  type EgressRecord,
  ERROR_CODES,
  type Invocation,
  isErrorCode,
  isId,
  isTerminal,
} from "@backplane/contract";
import { Anchor, Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { approvalQueries } from "../../api/approvals.ts";
import { invocationQueries } from "../../api/invocations.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { shellCommand } from "../../parts/text/shell-command.ts";
import { durationText } from "../../parts/text/time-text.ts";
import { ArtifactLinks } from "../../parts/values/artifact-links.tsx";
import { InvocationBadge } from "../../parts/values/badge.tsx";
import { CliCommand } from "../../parts/values/cli-command.tsx";
import { Digest } from "../../parts/values/digest.tsx";
import { CodeBlock, JsonView } from "../../parts/values/json-view.tsx";
import { Time, useNow } from "../../parts/values/time.tsx";
import { CallDelivery, isDeliveryCall } from "./call-delivery.tsx";
import { CallEvents } from "./call-events.tsx";
import { CallFrames } from "./call-frames.tsx";
import { CallTrace } from "./call-trace.tsx";
import { EditAndRun } from "./edit-and-run.tsx";
import styles from "./invocations.module.css";
import { splitPhases } from "./phases.ts";
import { useRerun } from "./rerun.ts";
import { Waterfall } from "./waterfall.tsx";

export function InvocationPage() {
  const { id } = useParams({ from: "/invocations/$id" });
  const client = useClient();
  const query = useQuery(invocationQueries.detail(client, id));
  const approval_id = query.data?.approval_id ?? null;
  const approval = useQuery({
    ...approvalQueries.detail(client, approval_id ?? ""),
    enabled: approval_id !== null,
  });
  if (query.isPending) return <ListSkeleton />;
  if (query.data === undefined)
    return (
      <>
        <PageHeader title={codeOf(query.error) === "invocation.not_found" ? "No such call" : "Call"} />
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      </>
    );
  return <InvocationDetail call={query.data} approval={approval.data ?? null} />;
}

function InvocationDetail({ call, approval }: { call: Invocation; approval: Approval | null }) {
  return (
    <>
      <PageHeader
        title={call.export_id}
        badge={<InvocationBadge status={call.status} />}
        lead={
          <>
            {call.package_id} {call.package_version}, requested by <Requester id={call.requested_by} />{" "}
            <Time at={call.created_at} />
          </>
        }
        actions={<Actions call={call} />}
      />
      <div className={styles.stack}>
        {call.error !== null && <Failure call={call} />}
        <Card title="Timeline">
          <Timeline call={call} approval={approval} />
        </Card>
        {isDeliveryCall(call) && <CallDelivery call={call} />}
        <CallTrace call={call} />
        <div className={styles.pair}>
          <Card title="Input">
            <JsonView value={call.input} label="Input" />
          </Card>
          <Card title="Output">
            {call.result === null ? <p>{noOutput(call)}</p> : <JsonView value={call.result} label="Output" />}
            <ArtifactLinks call={call} />
          </Card>
        </div>
        {call.stderr_tail !== null && call.stderr_tail !== "" && (
          <Card title="stderr">
            <CodeBlock text={call.stderr_tail} label="The end of the plugin's stderr" />
          </Card>
        )}
        {call.fallback_from !== undefined && (
          <Card title={`First attempt with version ${call.fallback_from.package_version}`}>
            <Fields
              items={[
                ["Code", <code key="code">{call.fallback_from.error.code}</code>],
                ["Message", call.fallback_from.error.message],
                ["Package digest", <Digest key="digest" value={call.fallback_from.package_digest} />],
              ]}
            />
            {call.fallback_from.stderr_tail !== null && (
              <CodeBlock text={call.fallback_from.stderr_tail} label="stderr of the first attempt" />
            )}
          </Card>
        )}
        {call.egress !== null && <RefusedConnections egress={call.egress} />}
        <CallEvents call={call} />
        <CallFrames call={call} />
        <div className={styles.pair}>
          <Card title="Details">
            <Fields items={detailsOf(call)} />
          </Card>
          <Card title="Grant">
            {call.grant === null ? (
              <p>The call was refused before rights were granted.</p>
            ) : (
              <JsonView value={call.grant} label="Grant" />
            )}
          </Card>
        </div>
        <Card title="The same call in a terminal">
          <CliCommand command={commandOf(call)} />
        </Card>
      </div>
    </>
  );
}

/** Links to the call that made this one, if it was made by a call. */
function Requester({ id }: { id: string }) {
  if (!isId("invocation", id)) return id;
  return (
    <Anchor component={Link} to="/invocations/$id" params={{ id } as never}>
      the call {id}
    </Anchor>
  );
}

function RefusedConnections({ egress: { refused, refusals } }: { egress: EgressRecord }) {
  return (
    <Card title={`Refused connections (${refused})`} flush>
      <ul className={styles.events}>
        {refusals.map(({ host, port, reason, message, at, count = 1 }) => (
          <li key={`${at}/${host}/${port}/${reason}`} className={styles.event}>
            <Time at={at} />
            <code>{`${host === "" ? "no host" : host}:${port}`}</code>
            <span>
              {message}
              {count > 1 && ` ×${count}`}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Timeline({ call, approval }: { call: Invocation; approval: Approval | null }) {
  const now = useNow(isTerminal(call.status) ? 60_000 : 500);
  const end = call.ended_at === null ? now : Date.parse(call.ended_at);
  const retries =
    call.retry_count === 0 ? "" : `, ${call.retry_count} ${call.retry_count === 1 ? "retry" : "retries"}`;
  return (
    <>
      <Waterfall phases={splitPhases(call, approval, now)} failed={call.error !== null} />
      <p className={styles.total}>
        {durationText(end - Date.parse(call.created_at))} in total{retries}.
      </p>
    </>
  );
}

function Failure({ call: { error, retry_count } }: { call: Invocation }) {
  const { code, message, details } = error!;
  const own_fix = details?.fix;
  const fix = typeof own_fix === "string" ? own_fix : isErrorCode(code) ? ERROR_CODES[code].remedy : null;
  return (
    <div className={styles.failure}>
      <Card title="Why it failed">
        <Fields
          items={[
            [
              "Code",
              <a key="code" href={`/docs/errors#${code}`}>
                <code>{code}</code>
              </a>,
            ],
            ["Message", message],
            ["What to do", fix],
            ["Attempt", String(retry_count + 1)],
            [
              "Details",
              details === undefined || Object.keys(details).length === 0 ? null : (
                <JsonView key="details" value={details} label="Error details" />
              ),
            ],
          ]}
        />
      </Card>
    </div>
  );
}

function Actions({ call }: { call: Invocation }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const rerun = useRerun(call);
  const [editing, setEditing] = useState(false);
  const cancel = useMutation({
    mutationFn: () => client.invocations.cancel(call.id),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["invocations"] }),
    onError: toast.fail,
  });
  if (!isTerminal(call.status))
    return (
      <>
        {call.status === "waiting_approval" && call.approval_id !== null && (
          <Button component={Link} to="/approvals" search={{ id: call.approval_id } as never}>
            Review
          </Button>
        )}
        <Button variant="default" loading={cancel.isPending} onClick={() => cancel.mutate()}>
          Cancel the call
        </Button>
      </>
    );
  return (
    <>
      <Button variant="default" onClick={() => setEditing(true)}>
        Edit and run
      </Button>
      <Button
        leftSection={<Icon name="rerun" size={16} />}
        loading={rerun.isPending}
        onClick={() => rerun.mutate(call.input)}
      >
        Run again
      </Button>
      {editing && <EditAndRun call={call} onClose={() => setEditing(false)} />}
    </>
  );
}

function detailsOf(call: Invocation) {
  return [
    ["Kind", call.export_kind],
    ["Isolation", call.class],
    ["Effect", call.effect_class.replaceAll("_", " ")],
    [
      "Binding",
      <Anchor key="binding" component={Link} to="/bindings/$id" params={{ id: call.binding_id } as never}>
        {call.binding_id}
      </Anchor>,
    ],
    [
      "Session",
      call.session_id === null ? null : (
        <Anchor key="session" component={Link} to="/sessions/$id" params={{ id: call.session_id } as never}>
          {call.session_id}
        </Anchor>
      ),
    ],
    ["Allowed by", call.allowed_by],
    ["Timeout", durationText(call.timeout_ms)],
    ["Package digest", <Digest key="digest" value={call.package_digest} />],
    ["Protocol violations", call.violations === 0 ? null : String(call.violations)],
    [
      "Trace",
      <Anchor key="trace" component={Link} to="/traces/$id" params={{ id: call.trace_id } as never}>
        {call.trace_id}
      </Anchor>,
    ],
    ["Invocation", call.id],
  ] as const;
}

function noOutput({ status }: Invocation): string {
  return isTerminal(status) ? "The call returned nothing." : "The call has not ended yet.";
}

/** The command that does the same as Run again. */
function commandOf({ export_id, binding_id, input, session_id }: Invocation): string {
  const session = session_id === null ? [] : ["--session", session_id];
  return shellCommand(
    "backplane",
    "invoke",
    export_id,
    "--binding",
    binding_id,
    ...session,
    "--input",
    JSON.stringify(input),
  );
}

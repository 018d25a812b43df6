/** Lists runs, newest first: turns of the agent and requests to harnesses. Starts, resumes and cancels them. */
import type { Run } from "@backplane/contract";
import { Button, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { runQueries } from "../../api/runs.ts";
import { useClient, useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon, type IconName } from "../../parts/layout/icon.tsx";
import { ListAndDetail } from "../../parts/layout/list-and-detail.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { TextFilter } from "../../parts/lists/text-filter.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { Badge, type Tone } from "../../parts/values/badge.tsx";
import { CodeBlock, JsonView } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";
import { StartRunDialog } from "./start-run-dialog.tsx";

const STATUSES: Record<Run["status"], { tone: Tone; icon: IconName; label: string }> = {
  running: { tone: "info", icon: "play", label: "Running" },
  completed: { tone: "good", icon: "check", label: "Completed" },
  failed: { tone: "bad", icon: "octagon", label: "Failed" },
  cancelled: { tone: "quiet", icon: "cross", label: "Cancelled" },
};

const COLUMNS: readonly Column<Run>[] = [
  {
    header: "Run",
    cell: ({ id, input, harness, trigger }) => (
      <>
        <RowLink to="/runs" search={((current: object) => ({ ...current, id })) as never}>
          {input.text === "" ? id : shorten(input.text)}
        </RowLink>
        <span className={parts.rowSub}>
          {harness === undefined ? `Turn, started by ${trigger}` : `Harness ${harness.export_id}`}
        </span>
      </>
    ),
  },
  { header: "Status", cell: ({ status }) => <RunBadge status={status} /> },
  { header: "Error", cell: ({ error }) => error !== null && <code title={error.message}>{error.code}</code> },
  { header: "Session", cell: ({ session_id }) => session_id },
  { header: "Started", numeric: true, cell: ({ started_at }) => <Time at={started_at} /> },
];

const SHOWN = 60;

function shorten(text: string): string {
  const line = text.split("\n", 1)[0]!;
  return line.length <= SHOWN ? line : `${line.slice(0, SHOWN - 1)}…`;
}

export function RunsPage() {
  const search = useSearch({ from: "/runs" });
  const setFilters = useSetFilters<typeof search>();
  const { session, workspace } = search;
  const query = useInfiniteQuery(runQueries.list(useClient(), { session_id: session, workspace }));
  const [starting, setStarting] = useState(false);
  const filtered = session !== undefined || workspace !== undefined;
  return (
    <>
      <PageHeader
        title="Runs"
        lead="Turns of the agent, and requests to harnesses."
        actions={
          <Button leftSection={<Icon name="play" size={16} />} onClick={() => setStarting(true)}>
            Start a run
          </Button>
        }
      />
      <search className={parts.filters} aria-label="Filters">
        <TextFilter label="Session" value={session} onChange={(value) => setFilters({ session: value })} />
        <TextFilter
          label="Workspace"
          value={workspace}
          onChange={(value) => setFilters({ workspace: value })}
        />
      </search>
      <ListAndDetail
        detail={
          search.id === undefined
            ? null
            : { title: "Run", content: <RunDetail key={search.id} id={search.id} /> }
        }
        onClose={() => setFilters({ id: undefined })}
      >
        <PagedList
          label="Runs"
          query={query}
          columns={COLUMNS}
          rowKey={({ id }) => id}
          empty={
            filtered ? (
              <EmptyView icon="play">No run matches these filters.</EmptyView>
            ) : (
              <EmptyView
                icon="play"
                command="backplane run start --input TEXT"
                action={<Button onClick={() => setStarting(true)}>Start a run</Button>}
              >
                No run has been started yet.
              </EmptyView>
            )
          }
        />
      </ListAndDetail>
      {starting && (
        <StartRunDialog
          onClose={() => setStarting(false)}
          onStarted={(id) => {
            setStarting(false);
            setFilters({ id });
          }}
        />
      )}
    </>
  );
}

function RunBadge({ status }: { status: Run["status"] }) {
  const { tone, icon, label } = STATUSES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}

function RunDetail({ id }: { id: string }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const query = useQuery(runQueries.detail(client, id));
  const cancel = useMutation({
    mutationFn: () => client.runs.cancel(id),
    onSuccess: () => toast.show({ tone: "good", title: "The run was cancelled." }),
    onError: toast.fail,
    onSettled: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  if (query.data === undefined)
    return query.isError ? (
      <ErrorView error={query.error} onRetry={() => void query.refetch()} />
    ) : (
      <ListSkeleton />
    );
  const run = query.data;
  return (
    <div className={layout.tight}>
      {run.status === "running" && (
        <div>
          <Button size="xs" variant="default" loading={cancel.isPending} onClick={() => cancel.mutate()}>
            Cancel the run
          </Button>
        </div>
      )}
      <Fields items={runFields(run)} />
      {run.input.text !== "" && <Text title="Input" text={run.input.text} />}
      {run.output !== null && <Text title="Answer" text={run.output.content} />}
      {run.harness !== undefined && <ExecutionDetail run={run} execution_id={run.harness.execution_id} />}
    </div>
  );
}

function Text({ title, text }: { title: string; text: string }) {
  return (
    <div className={layout.tight}>
      <h3 className={layout.subtitle}>{title}</h3>
      <CodeBlock label={title} text={text} />
    </div>
  );
}

export function runFields(run: Run) {
  const { session_id, workspace, usage, error, harness } = run;
  const search = workspace === "default" ? {} : { workspace };
  return [
    ["Status", <RunBadge key="status" status={run.status} />],
    ["Error", error === null ? null : `${error.code}: ${error.message}`],
    [
      "Session",
      <Link key="session" to="/sessions/$id" params={{ id: session_id }} search={search}>
        {session_id}
      </Link>,
    ],
    ["Started by", `${run.requested_by} (${run.trigger})`],
    ["Strategy", harness === undefined ? run.strategy : null],
    ["Model calls", String(run.iterations)],
    ["Tokens", `${usage.input} in, ${usage.output} out`],
    [
      "Harness call",
      harness === undefined ? null : (
        <Link key="call" to="/invocations/$id" params={{ id: harness.invocation_id }}>
          {harness.invocation_id}
        </Link>
      ),
    ],
    ["Resumed", run.resumed === undefined ? null : `${run.resumed}× after a crash`],
    [
      "Parent",
      run.parent_run_id === null ? null : (
        <Link key="parent" to="/runs" search={{ id: run.parent_run_id }}>
          {run.parent_run_id}
        </Link>
      ),
    ],
    ["Started", <Time key="started" at={run.started_at} />],
    ["Ended", run.ended_at === null ? null : <Time key="ended" at={run.ended_at} />],
    [
      "Model records",
      <Link key="records" to="/model-calls" search={{ run: run.id }}>
        Calls to the model endpoints
      </Link>,
    ],
    ["Id", run.id],
  ] as const;
}

/** Shows how much of its limits a harness has used, and the checkpoint from which it would resume. */
function ExecutionDetail({ run, execution_id }: { run: Run; execution_id: string }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const setFilters = useSetFilters<{ id?: string }>();
  const query = useQuery(runQueries.execution(client, execution_id));
  const [text, setText] = useState("");
  const resume = useMutation({
    mutationFn: async () => {
      const { binding_id, export_id } = await client.runs.execution(execution_id);
      return await client.runs.start({
        session_id: run.session_id,
        workspace: run.workspace,
        input: text === "" ? run.input : { text },
        harness: { binding_id, export_id, mode: "resume", execution_id },
      });
    },
    onSuccess: ({ id }) => {
      toast.show({ tone: "good", title: "The harness continues at its last checkpoint." });
      setFilters({ id });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  if (query.data === undefined)
    return query.isError ? <ErrorView error={query.error} onRetry={() => void query.refetch()} /> : null;
  const { policy, used, checkpoint, checkpoints, deadline_at } = query.data;
  const limitText = (limit: number | undefined) => (limit === undefined ? "" : ` of ${limit}`);
  return (
    <section className={layout.tight} aria-label="Execution">
      <h3 className={layout.subtitle}>Execution</h3>
      <Fields
        items={[
          ["Child runs", `${used.child_runs}${limitText(policy.max_child_runs)}`],
          ["Model calls", `${used.steps}${limitText(policy.max_steps)}`],
          ["Compactions", `${used.compactions}${limitText(policy.max_compactions)}`],
          ["Depth", policy.max_depth === undefined ? null : `At most ${policy.max_depth}`],
          ["Deadline", deadline_at === null ? null : <Time key="deadline" at={deadline_at} />],
          ["Checkpoints", String(checkpoints)],
        ]}
      />
      {checkpoint !== null && (
        <details>
          <summary>The last checkpoint: {checkpoint.kind}</summary>
          <JsonView value={checkpoint.data} label="Checkpoint" />
        </details>
      )}
      {run.status !== "running" && (
        <>
          <TextInput
            label="Input of the resumed run"
            placeholder="The same input"
            value={text}
            onChange={({ currentTarget }) => setText(currentTarget.value)}
          />
          <div>
            <Button
              size="xs"
              variant="default"
              leftSection={<Icon name="rerun" size={14} />}
              loading={resume.isPending}
              onClick={() => resume.mutate()}
            >
              Resume
            </Button>
          </div>
          {resume.error !== null && <ErrorView error={resume.error} />}
        </>
      )}
    </section>
  );
}

/** The model endpoints: which models they offer, and every call to them. */
import type { LlmCall } from "@backplane/contract";
import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { llmQueries } from "../../api/llm.ts";
import { useClient } from "../../api/services.ts";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import type { IconName } from "../../parts/layout/icon.tsx";
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
import { durationText } from "../../parts/text/time-text.ts";
import { Badge, type Tone } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";

const STATUSES: Record<LlmCall["status"], { tone: Tone; icon: IconName; label: string }> = {
  running: { tone: "info", icon: "play", label: "Running" },
  succeeded: { tone: "good", icon: "check", label: "Succeeded" },
  failed: { tone: "bad", icon: "octagon", label: "Failed" },
  cancelled: { tone: "quiet", icon: "cross", label: "Cancelled" },
  lost: { tone: "warn", icon: "question", label: "Lost" },
};

const COLUMNS: readonly Column<LlmCall>[] = [
  {
    header: "Model",
    cell: ({ id, provider, model, protocol, stream }) => (
      <>
        <RowLink to="/model-calls" search={((current: object) => ({ ...current, id })) as never}>
          {provider}/{model}
        </RowLink>
        <span className={parts.rowSub}>{stream ? `${protocol}, streamed` : protocol}</span>
      </>
    ),
  },
  { header: "Status", cell: ({ status }) => <CallBadge status={status} /> },
  { header: "Requested by", cell: ({ actor }) => actor },
  { header: "Tokens", numeric: true, cell: (call) => tokensText(call) },
  {
    header: "Duration",
    numeric: true,
    cell: ({ duration_ms }) => duration_ms !== null && durationText(duration_ms),
  },
  { header: "Started", numeric: true, cell: ({ started_at }) => <Time at={started_at} /> },
];

export function ModelCallsPage() {
  const client = useClient();
  const search = useSearch({ from: "/model-calls" });
  const setFilters = useSetFilters<typeof search>();
  const query = useInfiniteQuery(
    llmQueries.calls(client, { run_id: search.run, invocation_id: search.invocation }),
  );
  const filtered = search.run !== undefined || search.invocation !== undefined;
  return (
    <>
      <PageHeader
        title="Model calls"
        lead="Calls to the model endpoints, which Codex, OpenCode, Claude Code and harnesses use with a key of the gateway."
      />
      <div className={layout.stack}>
        <Models />
        <div>
          <search className={parts.filters} aria-label="Filters">
            <TextFilter label="Run" value={search.run} onChange={(value) => setFilters({ run: value })} />
            <TextFilter
              label="Invocation"
              value={search.invocation}
              onChange={(value) => setFilters({ invocation: value })}
            />
            {filtered && (
              <Button variant="subtle" onClick={() => setFilters({ run: undefined, invocation: undefined })}>
                Clear filters
              </Button>
            )}
          </search>
          <ListAndDetail
            detail={
              search.id === undefined
                ? null
                : { title: "Model call", content: <CallDetail key={search.id} id={search.id} /> }
            }
            onClose={() => setFilters({ id: undefined })}
          >
            <PagedList
              label="Model calls"
              query={query}
              columns={COLUMNS}
              rowKey={({ id }) => id}
              empty={
                filtered ? (
                  <EmptyView icon="invocation">No call matches these filters.</EmptyView>
                ) : (
                  <EmptyView icon="invocation" command="backplane llm calls">
                    No program has called a model through the gateway yet.
                  </EmptyView>
                )
              }
            />
          </ListAndDetail>
        </div>
      </div>
    </>
  );
}

function CallBadge({ status }: { status: LlmCall["status"] }) {
  const { tone, icon, label } = STATUSES[status];
  return (
    <Badge tone={tone} icon={icon}>
      {label}
    </Badge>
  );
}

function Models() {
  const query = useQuery(llmQueries.models(useClient()));
  return (
    <Card title="Models that you may use">
      {query.isPending && <ListSkeleton />}
      {query.isError && <ErrorView error={query.error} onRetry={() => void query.refetch()} />}
      {query.data?.length === 0 && (
        <p className={layout.dimmed}>
          No model is available. <Link to="/settings">Add a model provider</Link> first.
        </p>
      )}
      {query.data !== undefined && query.data.length > 0 && (
        <ul className={layout.sentences}>
          {query.data.map(({ id, display_name }) => (
            <li key={id}>
              <code>{id}</code> {display_name !== id && <span className={layout.dimmed}>{display_name}</span>}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function CallDetail({ id }: { id: string }) {
  const query = useQuery(llmQueries.call(useClient(), id));
  if (query.data === undefined)
    return query.isError ? (
      <ErrorView error={query.error} onRetry={() => void query.refetch()} />
    ) : (
      <ListSkeleton />
    );
  const call = query.data;
  const { session_id, run_id, invocation_id, error } = call;
  return (
    <Fields
      items={[
        ["Status", <CallBadge key="status" status={call.status} />],
        ["Model", `${call.provider}/${call.model}`],
        ["Requested as", call.requested_model],
        ["Protocol", call.stream ? `${call.protocol}, streamed` : call.protocol],
        ["Operation", call.operation === "generate" ? null : "Counts tokens"],
        ["Requested by", call.actor],
        ["Key", call.key_id],
        ["Started", <Time key="started" at={call.started_at} />],
        ["First part after", call.first_part_ms === null ? null : durationText(call.first_part_ms)],
        ["Duration", call.duration_ms === null ? null : durationText(call.duration_ms)],
        ["Tokens", tokensText(call)],
        ["Stop reason", call.stop_reason],
        ["Error", error === null ? null : `${error.code}: ${error.message}`],
        [
          "Session",
          session_id === null ? null : (
            <Link key="session" to="/sessions/$id" params={{ id: session_id }}>
              {session_id}
            </Link>
          ),
        ],
        [
          "Run",
          run_id === null ? null : (
            <Link key="run" to="/runs" search={{ id: run_id }}>
              {run_id}
            </Link>
          ),
        ],
        [
          "Invocation",
          invocation_id === null ? null : (
            <Link key="invocation" to="/invocations/$id" params={{ id: invocation_id }}>
              {invocation_id}
            </Link>
          ),
        ],
        ["Record", call.id],
      ]}
    />
  );
}

function tokensText({ usage }: LlmCall): string | null {
  if (usage === null) return null;
  const cached = usage.input_cache_read === 0 ? "" : ` (${usage.input_cache_read} cached)`;
  return `${usage.input}${cached} in, ${usage.output} out`;
}

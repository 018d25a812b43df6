/** The catalog: every tool that models and clients can call, and why other tools are not offered. */
import type { CatalogEntry } from "@backplane/contract";
import { Button, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { catalogQueries } from "../../api/catalog.ts";
import { useClient } from "../../api/services.ts";
import { Fields } from "../../parts/layout/fields.tsx";
import { ListAndDetail } from "../../parts/layout/list-and-detail.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { TextFilter } from "../../parts/lists/text-filter.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import { ReasonNotice } from "../../parts/notices/reason-notice.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { RiskBadge } from "../../parts/values/badge.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { CatalogBadge } from "../../parts/values/plugin-badges.tsx";

const COLUMNS: readonly Column<CatalogEntry>[] = [
  {
    header: "Tool",
    cell: ({ name, package_id, origin }) => (
      <>
        <RowLink to="/tools" search={((current: object) => ({ ...current, name })) as never} replace>
          {name}
        </RowLink>
        <span className={parts.rowSub}>{origin === "core" ? "The gateway itself" : package_id}</span>
      </>
    ),
  },
  { header: "Status", cell: ({ status }) => <CatalogBadge status={status} /> },
  { header: "Risk", cell: ({ risk }) => <RiskBadge risk={risk} /> },
  { header: "Category", cell: ({ category }) => category },
  {
    header: "Tokens",
    numeric: true,
    cell: ({ token_cost, deferred_by }) =>
      deferred_by === null ? token_cost : <span title={DEFERRALS[deferred_by]}>{token_cost}, deferred</span>,
  },
];

const DEFERRALS: Record<NonNullable<CatalogEntry["deferred_by"]>, string> = {
  author: "Its author deferred it. To always list it, add it to pinned_tools of the policy.",
  policy: "The policy lists it in deferred_tools.",
  profile: "The tools of this key do not include it.",
  budget:
    "The tools cost more than tool_token_budget of the policy. To always list it, add it to pinned_tools.",
};

export function ToolsPage() {
  const search = useSearch({ from: "/tools" });
  const setFilters = useSetFilters<typeof search>();
  const all = search.view === "all";
  const { q = "", channel, name } = search;
  const query = useQuery(
    catalogQueries.list(useClient(), { all, ...(channel === undefined ? {} : { channel }) }),
  );
  const rows = useMemo(() => filterTools(query.data ?? [], q), [query.data, q]);
  return (
    <>
      <PageHeader title="Tools" lead={query.data === undefined ? "The catalog." : costText(query.data)} />
      <search className={parts.filters} aria-label="Filters">
        <SegmentedControl
          aria-label="Which tools"
          data={[
            { value: "offered", label: "Offered" },
            { value: "all", label: "All, with the reason" },
          ]}
          value={all ? "all" : "offered"}
          onChange={(next) => setFilters({ view: next === "all" ? "all" : undefined })}
        />
        <TextFilter label="Name or package" value={search.q} onChange={(value) => setFilters({ q: value })} />
        <TextFilter label="Channel" value={channel} onChange={(value) => setFilters({ channel: value })} />
      </search>
      <ListAndDetail
        detail={name === undefined ? null : { title: name, content: <ToolDetail key={name} name={name} /> }}
        onClose={() => setFilters({ name: undefined })}
      >
        {query.isError && query.data === undefined ? (
          <ErrorView error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <div className={parts.card}>
            {query.isPending && <ListSkeleton />}
            {query.isSuccess && rows.length === 0 && (
              <EmptyView icon="terminal" command="backplane tool list --all">
                {q === "" ? "No tool is available to you." : "No tool matches this text."}
              </EmptyView>
            )}
            {rows.length > 0 && (
              <DataTable
                label="Tools"
                columns={COLUMNS}
                rows={rows}
                rowKey={({ name: tool, binding_id }) => `${tool} ${binding_id}`}
              />
            )}
          </div>
        )}
      </ListAndDetail>
    </>
  );
}

export function filterTools(tools: readonly CatalogEntry[], text: string): CatalogEntry[] {
  const searched_text = text.toLowerCase();
  return tools.filter(({ name, package_id }) =>
    `${name} ${package_id}`.toLowerCase().includes(searched_text),
  );
}

/** Deferred tools cost nothing until a model finds them. */
function costText(tools: readonly CatalogEntry[]): string {
  const offered = tools.filter(({ status }) => status === "offered");
  const sent = offered.filter(({ deferred }) => !deferred);
  const tokens = sent.reduce((sum, { token_cost }) => sum + token_cost, 0);
  const deferred_count = offered.length - sent.length;
  const rest = deferred_count === 0 ? "" : ` ${deferred_count} are deferred until a model searches for them.`;
  return `${offered.length} tools are offered and cost about ${tokens} tokens in every request to the model.${rest}`;
}

/** All tools that claim the name; the one that callers get comes first. */
function ToolDetail({ name }: { name: string }) {
  const query = useQuery(catalogQueries.named(useClient(), name));
  if (query.data === undefined)
    return query.isError ? (
      <ErrorView error={query.error} onRetry={() => void query.refetch()} />
    ) : (
      <ListSkeleton />
    );
  return (
    <div className={layout.stack}>
      {query.data.map((tool) => (
        <ToolFields key={tool.binding_id} tool={tool} />
      ))}
    </div>
  );
}

function ToolFields({ tool }: { tool: CatalogEntry }) {
  const { name, description, status, reason, fix, origin, package_id, package_version } = tool;
  const is_built_in = origin === "core" || origin === "bundled";
  return (
    <section className={layout.tight} aria-label={`${name} of ${package_id}`}>
      {reason !== null && <ReasonNotice tone="warn" reason={reason} fix={fix} />}
      <p className={layout.text}>{description}</p>
      <Fields
        items={[
          ["Status", <CatalogBadge key="status" status={status} />],
          ["Package", `${package_id} ${package_version}`],
          ["Risk", <RiskBadge key="risk" risk={tool.risk} />],
          ["Effect", tool.effect_class.replaceAll("_", " ")],
          ["Approval", tool.requires_approval ? "Required by the author" : "As the policy decides"],
          ["Cost", `About ${tool.token_cost} tokens in every request that lists the tool`],
          ["Deferred", tool.deferred_by === null ? null : DEFERRALS[tool.deferred_by]],
          ["Hidden characters removed", tool.taken_out.length === 0 ? null : tool.taken_out.join("; ")],
        ]}
      />
      {!is_built_in && (
        <div>
          <Button
            component={Link}
            to="/bindings/$id"
            params={{ id: tool.binding_id } as never}
            search={{ view: "test" } as never}
            size="xs"
            variant="default"
          >
            Try it
          </Button>
        </div>
      )}
      <JsonView label="As the model sees it" value={{ name, description, input_schema: tool.input_schema }} />
    </section>
  );
}

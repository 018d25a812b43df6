/** The conversations of the gateway, newest first. */
import type { ListOf } from "@backplane/client";
import type { Session } from "@backplane/contract";
import { Button } from "@mantine/core";
import {
  type InfiniteData,
  type UseInfiniteQueryResult,
  useInfiniteQuery,
  useQuery,
} from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo } from "react";
import { useClient } from "../../api/services.ts";
import { runningKey, sessionQueries } from "../../api/sessions.ts";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import type { Column } from "../../parts/lists/data-table.tsx";
import { useSetFilters } from "../../parts/lists/filters.ts";
import { PagedList } from "../../parts/lists/paged-list.tsx";
import { RowLink } from "../../parts/lists/row-link.tsx";
import { TextFilter } from "../../parts/lists/text-filter.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import parts from "../../parts/styles/parts.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";
import { isSubAgent, matchesSession, newSessionId, sessionTitle } from "./session-text.ts";

function columnsOf(running: ReadonlySet<string>): Column<Session>[] {
  return [
    {
      header: "Session",
      cell: (session) => {
        const { id, workspace } = session;
        const title = sessionTitle(session);
        return (
          <>
            <RowLink to="/sessions/$id" params={{ id }} search={workspace === "default" ? {} : { workspace }}>
              {title}
            </RowLink>
            {title !== id && <span className={parts.rowSub}>{id}</span>}
          </>
        );
      },
    },
    {
      header: "State",
      cell: ({ id, workspace }) =>
        running.has(runningKey({ session_id: id, workspace })) && (
          <Badge tone="info" icon="play">
            Running
          </Badge>
        ),
    },
    { header: "Origin", cell: (session) => <Origin session={session} /> },
    { header: "Workspace", cell: ({ workspace }) => workspace },
    { header: "Entries", numeric: true, cell: ({ last_entry_id }) => last_entry_id },
    { header: "Created", numeric: true, cell: ({ created_at }) => <Time at={created_at} /> },
  ];
}

/** A search loads this many pages of 100 sessions at most. */
const MAX_SEARCHED_PAGES = 20;

export function SessionsPage() {
  const { workspace, q } = useSearch({ from: "/sessions" });
  const setFilters = useSetFilters<{ workspace?: string | undefined; q?: string | undefined }>();
  const client = useClient();
  const query = useInfiniteQuery(sessionQueries.list(client, { workspace }));
  const sessions = useFilteredSessions(query, q);
  const running = useQuery(sessionQueries.running(client)).data;
  const columns = useMemo(() => columnsOf(new Set(running)), [running]);
  const filtered = workspace !== undefined || q !== undefined;
  return (
    <>
      <PageHeader
        title="Sessions"
        lead="Every conversation with an agent, with its forks and sub-agents."
        actions={<NewChatButton workspace={workspace} />}
      />
      <search className={parts.filters} aria-label="Filters">
        <TextFilter label="Title or id" value={q} onChange={(value) => setFilters({ q: value })} />
        <TextFilter
          label="Workspace"
          value={workspace}
          onChange={(value) => setFilters({ workspace: value })}
        />
        {filtered && (
          <Button variant="subtle" onClick={() => setFilters({ workspace: undefined, q: undefined })}>
            Clear filters
          </Button>
        )}
      </search>
      <PagedList
        label="Sessions"
        query={sessions}
        columns={columns}
        rowKey={({ id, workspace: session_workspace }) => `${session_workspace} ${id}`}
        empty={
          filtered ? (
            <EmptyView icon="session">
              {sessions.isFetching ? "Searching older sessions…" : "No session matches the filters."}
            </EmptyView>
          ) : (
            <EmptyView
              icon="session"
              action={<NewChatButton workspace={workspace} />}
              command="backplane session chat"
            >
              No session has been started yet.
            </EmptyView>
          )
        }
      />
    </>
  );
}

function NewChatButton({ workspace }: { workspace: string | undefined }) {
  const navigate = useNavigate();
  const start = () =>
    void navigate({
      to: "/sessions/$id",
      params: { id: newSessionId() },
      search: { new: "1", ...(workspace === undefined || workspace === "default" ? {} : { workspace }) },
    });
  return (
    <Button leftSection={<Icon name="plus" size={16} />} onClick={start}>
      New chat
    </Button>
  );
}

type Sessions = UseInfiniteQueryResult<InfiniteData<ListOf<Session>>>;

/** The API has no search by title, so the pages are loaded and filtered here. */
function useFilteredSessions(query: Sessions, q: string | undefined): Sessions {
  const { data, hasNextPage, isFetching, fetchNextPage } = query;
  const filtered = useMemo(() => {
    if (q === undefined || data === undefined) return data;
    const pages = data.pages.map(({ items, next }) => ({
      items: items.filter((session) => matchesSession(session, q)),
      next,
    }));
    return { ...data, pages };
  }, [data, q]);
  const count = filtered?.pages.reduce((sum, { items }) => sum + items.length, 0) ?? 0;
  const searched = data?.pages.length ?? 0;
  useEffect(() => {
    if (q !== undefined && count < 50 && hasNextPage && !isFetching && searched < MAX_SEARCHED_PAGES)
      void fetchNextPage();
  }, [q, count, hasNextPage, isFetching, searched, fetchNextPage]);
  return { ...query, data: filtered } as Sessions;
}

function Origin({ session }: { session: Session }) {
  if (session.parent_session_id === null) return null;
  if (isSubAgent(session))
    return (
      <Badge tone="info" icon="plugin">
        Sub-agent
      </Badge>
    );
  return (
    <Badge tone="quiet" icon="chevron">
      Fork
    </Badge>
  );
}

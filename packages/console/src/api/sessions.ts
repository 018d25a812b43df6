import type { Client } from "@backplane/client";
import { AGENT_SEPARATOR, BRIDGE_PREFIX, definedFields, type Entry } from "@backplane/contract";
import { type QueryClient, type QueryKey, queryOptions } from "@tanstack/react-query";
import { listAllPages, pagedQuery } from "./paged-query.ts";

/** Sessions of different workspaces may have the same id. */
export interface SessionAddress {
  session_id: string;
  workspace: string;
}

/** The loaded part of a tape. The person loads earlier entries on demand. */
export interface LoadedTape {
  entries: readonly Entry[];
  /** Entries up to this id are not loaded; 0 if the tape is complete. */
  missing_to: number;
}

const PAGE_SIZE = 1_000;
/** The number of entries that are loaded first: about ten to fifty messages. */
const INITIAL_ENTRIES = 300;
const EARLIER_PAGE_SIZE = 600;
/** The API has no filter by parent; the children of an older session may be on later pages. */
const CHILDREN_PAGE_SIZE = 200;

/** How often the tape of a session that cannot be followed is read. */
const POLL_MS = 2_000;

export const sessionQueries = {
  list: (client: Client, filter: { workspace?: string | undefined } = {}) =>
    pagedQuery(["sessions", "list", filter], (page) =>
      client.sessions.list({ ...definedFields(filter), ...page, limit: 100 }),
    ),
  detail: (client: Client, { session_id, workspace }: SessionAddress) =>
    queryOptions({
      queryKey: ["sessions", "detail", workspace, session_id],
      queryFn: () => client.sessions.get(session_id, { workspace }),
    }),
  /** The forks and sub-agents of a session, among the newest sessions of its workspace. */
  children: (client: Client, { session_id, workspace }: SessionAddress) =>
    queryOptions({
      queryKey: ["sessions", "children", workspace, session_id],
      queryFn: async () => {
        const { items } = await client.sessions.list({ workspace, limit: CHILDREN_PAGE_SIZE });
        return items.filter(({ parent_session_id }) => parent_session_id === session_id);
      },
    }),
  /** The 20 newest runs of a session, newest first. */
  runs: (client: Client, key: SessionAddress) =>
    queryOptions({
      queryKey: ["sessions", "runs", key.workspace, key.session_id],
      queryFn: async () => (await client.runs.list({ ...key, limit: 20 })).items,
    }),
  /** Sessions with a run that is running now, among the 200 newest runs, as `workspace id`. */
  running: (client: Client) =>
    queryOptions({
      queryKey: ["sessions", "running"],
      queryFn: async () => {
        const { items } = await client.runs.list({ limit: 200 });
        return items.filter(({ status }) => status === "running").map(runningKey);
      },
    }),
  chains: (client: Client, key: SessionAddress) =>
    queryOptions({
      queryKey: ["sessions", "chains", key.workspace, key.session_id],
      queryFn: () => listAllPages((page) => client.chains.list({ ...key, ...page, limit: 200 })),
    }),
  pins: (client: Client, { session_id, workspace }: SessionAddress) =>
    queryOptions({
      queryKey: ["sessions", "pins", workspace, session_id],
      queryFn: () => client.sessions.pins(session_id, { workspace }),
    }),
  /** The newest entries in order. A tape only grows, so a refresh loads what was appended. */
  tape: (client: Client, key: SessionAddress, last_entry_id: number, newest = INITIAL_ENTRIES) =>
    queryOptions({
      queryKey: tapeKey(key),
      queryFn: async ({ client: queries, queryKey }): Promise<LoadedTape> => {
        const cached = queries.getQueryData<LoadedTape>(queryKey);
        const missing_to = cached?.missing_to ?? Math.max(0, last_entry_id - newest);
        const added = await loadEntries(client, key, cached?.entries.at(-1)?.id ?? missing_to);
        // Earlier entries may have been loaded during the request.
        const current = queries.getQueryData<LoadedTape>(queryKey);
        if (current !== undefined && added.length === 0) return current;
        const entries = [...(current?.entries ?? []), ...added];
        return { entries, missing_to: current?.missing_to ?? missing_to };
      },
      structuralSharing: false,
      refetchInterval: canFollow(key) ? false : POLL_MS,
    }),
};

/** Adds the page of entries before those that are loaded. */
export async function loadEarlierEntries(
  client: Client,
  queries: QueryClient,
  key: SessionAddress,
): Promise<void> {
  const { session_id, workspace } = key;
  const { missing_to = 0 } = queries.getQueryData<LoadedTape>(tapeKey(key)) ?? {};
  if (missing_to === 0) return;
  // Ids increase by at least one, so one page reaches the loaded entries without a gap.
  const after = Math.max(0, missing_to - EARLIER_PAGE_SIZE);
  const { items } = await client.sessions.entries(session_id, { workspace, after, limit: EARLIER_PAGE_SIZE });
  queries.setQueryData<LoadedTape>(tapeKey(key), (current) => {
    if (current === undefined || current.missing_to !== missing_to) return current;
    const earlier = items.filter(({ id }) => id <= missing_to);
    return { entries: [...earlier, ...current.entries], missing_to: after };
  });
}

export function runningKey({ workspace, session_id }: SessionAddress): string {
  return `${workspace} ${session_id}`;
}

/** Clients cannot follow the sessions of sub-agents and plugins. */
export function canFollow({ session_id }: SessionAddress): boolean {
  return !session_id.includes(AGENT_SEPARATOR) && !session_id.startsWith(BRIDGE_PREFIX);
}

export function tapeKey({ workspace, session_id }: SessionAddress): QueryKey {
  return ["sessions", "tape", workspace, session_id];
}

async function loadEntries(
  client: Client,
  { session_id, workspace }: SessionAddress,
  after: number,
): Promise<Entry[]> {
  const loaded: Entry[] = [];
  for (;;) {
    const { items, next } = await client.sessions.entries(session_id, { workspace, after, limit: PAGE_SIZE });
    loaded.push(...items);
    if (next === null) return loaded;
    after = items.at(-1)!.id;
  }
}

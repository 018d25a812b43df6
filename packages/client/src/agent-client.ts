/** The agent's half of the client: sessions, chains, runs, compactions, and what the web adapter serves. */
import type {
  Block,
  Chain,
  Entry,
  JsonObject,
  PluginEntry,
  PluginHealth,
  PluginRow,
  ProviderRow,
  ProviderTested,
  Run,
  Session,
} from "@backplane/contract";
import type {
  Accepted,
  Compaction,
  MessageBody,
  PluginInstalled,
  PluginSwitched,
  RunBody,
  RunUpdate,
  SessionUpdate,
  SessionWhere,
  WatchOptions,
} from "./agent-types.ts";
import { type FollowOptions, follow } from "./follow.ts";
import type { Http, HttpRequest } from "./http.ts";
import { creating, part } from "./operations.ts";
import type { SseMessage } from "./sse.ts";
import type { CallOptions, InvokeOptions, ListOf, PageOptions } from "./types.ts";

type Query = HttpRequest["query"];
type Entries = { after?: number; limit?: number };

export function createAgentClient(http: Http) {
  const get = <T>(path: string, query: Query = {}) => http.json<T>({ method: "GET", path, query });
  const send = <T>(
    method: "POST" | "PATCH" | "DELETE",
    path: string,
    json?: unknown,
    query: Query = {},
    call: CallOptions = {},
  ) =>
    http.json<T>({
      method,
      path,
      json,
      query,
      headers: creating(call),
      signal: call.signal,
    });
  const session = (id: string) => `/v1/sessions/${part(id)}`;
  const chain = (id: string) => `/v1/chains/${part(id)}`;

  async function* watchRun(id: string, how: FollowOptions = {}): AsyncGenerator<RunUpdate> {
    const path = `/v1/runs/${part(id)}/events`;
    for await (const message of follow(http, path, how, ({ event }) => event === "run")) {
      if (message.event === "run") yield { ended: JSON.parse(message.data) as Run };
      else if (message.event === "run.started") yield { started: JSON.parse(message.data) as Run };
      else yield updateOf(message);
    }
  }

  return {
    sessions: {
      create: (
        body: { session_id?: string; workspace?: string; metadata?: JsonObject; strategy?: string } = {},
        call?: CallOptions,
      ) => send<Session>("POST", "/v1/sessions", body, {}, call),
      get: (id: string, where: SessionWhere = {}) => get<Session>(session(id), { ...where }),
      list: (query: PageOptions & SessionWhere = {}) => get<ListOf<Session>>("/v1/sessions", { ...query }),
      /** Keys are merged; null removes one. */
      patch: (id: string, metadata: JsonObject, where: SessionWhere = {}) =>
        send<Session>("PATCH", session(id), { metadata }, { ...where }),
      branch: (
        id: string,
        body: { child_id?: string; at?: number } = {},
        where: SessionWhere = {},
        call?: CallOptions,
      ) => send<Session>("POST", `${session(id)}:branch`, body, { ...where }, call),
      /** On disk when this is answered; the session is made when it is not there. */
      message: (id: string, body: MessageBody, where: SessionWhere = {}, call?: CallOptions) =>
        send<Accepted>("POST", `${session(id)}/messages`, body, { ...where }, call),
      interrupt: async (id: string, where: SessionWhere = {}) =>
        (await send<{ interrupted: boolean }>("POST", `${session(id)}:interrupt`, undefined, { ...where }))
          .interrupted,
      reset: (id: string, where: SessionWhere = {}) =>
        send<Session>("POST", `${session(id)}:reset`, undefined, { ...where }),
      entries: (id: string, query: Entries & SessionWhere = {}) =>
        get<ListOf<Entry>>(`${session(id)}/entries`, { ...query }),
    },
    chains: {
      create: (
        body: { session_id: string; workspace?: string; from_chain_id?: string; at?: number },
        call?: CallOptions,
      ) => send<Chain>("POST", "/v1/chains", body, {}, call),
      get: (id: string) => get<Chain>(chain(id)),
      list: (query: { session_id: string } & SessionWhere & PageOptions) =>
        get<ListOf<Chain>>("/v1/chains", { ...query }),
      fork: (id: string, body: { at?: number; child_id?: string } = {}, call?: CallOptions) =>
        send<Chain>("POST", `${chain(id)}:fork`, body, {}, call),
      blocks: (id: string, query: Entries = {}) => get<ListOf<Block>>(`${chain(id)}/blocks`, { ...query }),
      addBlocks: async (id: string, blocks: Block[], call?: CallOptions) =>
        (await send<{ items: Block[] }>("POST", `${chain(id)}/blocks`, { blocks }, {}, call)).items,
      runs: (id: string, page: PageOptions = {}) => get<ListOf<Run>>(`${chain(id)}/runs`, { ...page }),
      verify: (id: string) =>
        get<{ valid: boolean; broken: { chain_id: string; entry_id: number } | null }>(`${chain(id)}:verify`),
    },
    runs: {
      /** Resolves with the run: ended when `wait` was long enough, else running. */
      start: (body: RunBody, call: InvokeOptions = {}) =>
        send<Run>("POST", "/v1/runs", body, { wait: call.wait }, call),
      /** Holds the line until it has ended, however long that takes. */
      async wait(id: string, how: FollowOptions = {}): Promise<Run> {
        for await (const update of watchRun(id, how)) if ("ended" in update) return update.ended;
        return await get<Run>(`/v1/runs/${part(id)}`);
      },
      /** Starts it, then everything that happens; a lost line is taken up again. */
      async *stream(
        body: RunBody,
        how: Omit<FollowOptions, "after"> & CallOptions = {},
      ): AsyncGenerator<RunUpdate> {
        const { id } = await send<Run>("POST", "/v1/runs", body, {}, how);
        yield* watchRun(id, how);
      },
      watch: watchRun,
      list: (query: { session_id?: string } & SessionWhere & PageOptions = {}) =>
        get<ListOf<Run>>("/v1/runs", { ...query }),
      get: (id: string) => get<Run>(`/v1/runs/${part(id)}`),
      /** Answers the ended run. */
      cancel: (id: string) => send<Run>("POST", `/v1/runs/${part(id)}:cancel`),
    },
    compactions: {
      create: (body: { session_id: string } & SessionWhere, call?: CallOptions) =>
        send<Compaction>("POST", "/v1/compactions", body, {}, call),
      list: (query: { session_id: string } & SessionWhere & PageOptions) =>
        get<ListOf<Compaction>>("/v1/compactions", { ...query }),
      undo: (chain_id: string) => send<Chain>("POST", `/v1/compactions/${part(chain_id)}:undo`),
    },
    plugins: {
      // Listing and switching do not go through the web adapter: it may be the one that is off.
      list: async () => (await get<{ items: PluginRow[] }>("/v1/plugins")).items,
      /** What installing it would add; changes and runs nothing. */
      inspect: async (source: string) =>
        (await send<{ plugins: PluginEntry[] }>("POST", "/api/plugins/inspect", { source })).plugins,
      /** Applies at once. */
      setEnabled: (name: string, enabled: boolean) =>
        send<PluginSwitched>("PATCH", `/v1/plugins/${part(name)}`, { enabled }),
      setTrusted: (name: string, trusted: boolean) =>
        send<PluginSwitched>("PATCH", `/api/plugins/${part(name)}`, { trusted }),
      install: (source: string, how: { editable?: boolean } = {}) =>
        send<PluginInstalled>("POST", "/api/plugins/install", { source, ...how }),
      remove: (name: string) => send<{ name: string; removed: true }>("DELETE", `/api/plugins/${part(name)}`),
      reload: (name: string) => send<PluginRow>("POST", `/api/plugins/${part(name)}/reload`),
      health: async (how: { timeout_ms?: number } = {}) =>
        (await get<{ plugins: PluginHealth[] }>("/api/plugins/health", { ...how })).plugins,
    },
    providers: {
      /** `show` answers their secrets too: admin only, and recorded. */
      list: (how: { show?: boolean } = {}) =>
        get<ProviderRow[]>("/api/llm-providers", how.show === true ? { show: 1 } : {}),
      create: (body: { id?: string; plugin: string; label?: string; config?: JsonObject }) =>
        send<ProviderRow>("POST", "/api/llm-providers", body),
      patch: (id: string, body: { label?: string; config?: JsonObject }) =>
        send<ProviderRow>("PATCH", `/api/llm-providers/${part(id)}`, body),
      remove: (id: string) => http.empty({ method: "DELETE", path: `/api/llm-providers/${part(id)}` }),
      setActive: (id: string) =>
        send<{ active: string; ok: true }>("PATCH", "/api/llm-providers/active", { name: id }),
      test: (id: string) => send<ProviderTested>("POST", `/api/llm-providers/${part(id)}/test`),
    },
    /** Everything that happens in a session, each entry once and in order, over any number of lost lines. */
    async *watchSession(
      ref: { session_id: string } & SessionWhere,
      { since_entry, ...how }: WatchOptions = {},
    ): AsyncGenerator<SessionUpdate> {
      const where: Record<string, string> = ref.workspace === undefined ? {} : { workspace: ref.workspace };
      // From a cursor that is known here, so that a line lost before the first entry loses none either.
      const since = since_entry ?? (await get<Session>(session(ref.session_id), { ...where })).last_entry_id;
      const query = new URLSearchParams({ ...where, since_entry: String(since) });
      const path = `${session(ref.session_id)}/events?${query.toString()}`;
      for await (const message of follow(http, path, { ...how, after: since }, () => false))
        yield updateOf(message);
    },
  };
}

function updateOf({ data }: SseMessage): SessionUpdate {
  const { event, entry_id } = JSON.parse(data) as { event: SessionUpdate["event"]; entry_id?: number };
  return { event, entry_id: entry_id ?? null };
}

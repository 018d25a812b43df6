/** Operations on sessions, chains, runs, model calls and compactions, and on kernel plugins and providers. */
import type {
  Block,
  Chain,
  CompactedEntry,
  Compaction,
  Entry,
  Execution,
  JsonObject,
  LlmCall,
  Pin,
  PluginEntry,
  PluginHealth,
  PluginView,
  ProviderTestResult,
  ProviderView,
  Run,
  Session,
} from "@backplane/contract";
import { type FollowOptions, follow } from "../transport/follow.ts";
import type { Http, HttpRequest } from "../transport/http.ts";
import { type CallOptions, createRequests, idempotencyHeader, pathSegment } from "../transport/requests.ts";
import type { SseMessage } from "../transport/sse.ts";
import type {
  CompactionBody,
  InvokeOptions,
  ListOf,
  MessageBody,
  MessageReceipt,
  PageOptions,
  PluginSwitchResult,
  RunBody,
  RunUpdate,
  SessionUpdate,
  WatchOptions,
  WorkspaceOption,
} from "./types.ts";

type Query = HttpRequest["query"];
type EntryRange = { after?: number; limit?: number };

export function createAgentClient(http: Http) {
  const get = <T>(path: string, query: Query = {}) => http.json<T>({ method: "GET", path, query });
  const { postWithProgress } = createRequests(http);
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
      headers: idempotencyHeader(call),
      signal: call.signal,
    });
  const sessionPath = (id: string) => `/v1/sessions/${pathSegment(id)}`;
  const chainPath = (id: string) => `/v1/chains/${pathSegment(id)}`;

  async function* watchRun(id: string, options: FollowOptions = {}): AsyncGenerator<RunUpdate> {
    const path = `/v1/runs/${pathSegment(id)}/events`;
    for await (const message of follow(http, path, options, ({ event }) => event === "run")) {
      if (message.event === "run") yield { ended: JSON.parse(message.data) as Run };
      else if (message.event === "run.started") yield { started: JSON.parse(message.data) as Run };
      else yield toSessionUpdate(message);
    }
  }

  return {
    sessions: {
      create: (
        body: { session_id?: string; workspace?: string; metadata?: JsonObject; strategy?: string } = {},
        call?: CallOptions,
      ) => send<Session>("POST", "/v1/sessions", body, {}, call),
      get: (id: string, where: WorkspaceOption = {}) => get<Session>(sessionPath(id), { ...where }),
      list: (query: PageOptions & WorkspaceOption = {}) => get<ListOf<Session>>("/v1/sessions", { ...query }),
      /** Merges `metadata` into that of the session; a null value removes its key. */
      patch: (id: string, metadata: JsonObject, where: WorkspaceOption = {}) =>
        send<Session>("PATCH", sessionPath(id), { metadata }, { ...where }),
      branch: (
        id: string,
        body: { child_id?: string; at?: number } = {},
        where: WorkspaceOption = {},
        call?: CallOptions,
      ) => send<Session>("POST", `${sessionPath(id)}:branch`, body, { ...where }, call),
      /** The message is on disk when this resolves. A missing session is created. */
      message: (id: string, body: MessageBody, where: WorkspaceOption = {}, call?: CallOptions) =>
        send<MessageReceipt>("POST", `${sessionPath(id)}/messages`, body, { ...where }, call),
      interrupt: async (id: string, where: WorkspaceOption = {}) =>
        (
          await send<{ interrupted: boolean }>("POST", `${sessionPath(id)}:interrupt`, undefined, {
            ...where,
          })
        ).interrupted,
      reset: (id: string, where: WorkspaceOption = {}, body?: { archive?: boolean }) =>
        send<Session & { archive_path: string | null }>("POST", `${sessionPath(id)}:reset`, body, {
          ...where,
        }),
      handoff: (id: string, body: { name: string; state: JsonObject }, where: WorkspaceOption = {}) =>
        send<Entry>("POST", `${sessionPath(id)}:handoff`, body, { ...where }),
      entries: (id: string, query: EntryRange & WorkspaceOption = {}) =>
        get<ListOf<Entry>>(`${sessionPath(id)}/entries`, { ...query }),
      pins: async (id: string, where: WorkspaceOption = {}) =>
        (await get<ListOf<Pin>>(`${sessionPath(id)}/pins`, { ...where })).items,
      pin: (id: string, entry_id: number, where: WorkspaceOption = {}) =>
        send<Pin>("POST", `${sessionPath(id)}/pins`, { entry_id }, { ...where }),
      unpin: (id: string, entry_id: number, where: WorkspaceOption = {}) =>
        http.empty({ method: "DELETE", path: `${sessionPath(id)}/pins/${entry_id}`, query: { ...where } }),
    },
    chains: {
      create: (
        body: { session_id: string; workspace?: string; from_chain_id?: string; at?: number },
        call?: CallOptions,
      ) => send<Chain>("POST", "/v1/chains", body, {}, call),
      get: (id: string) => get<Chain>(chainPath(id)),
      list: (query: { session_id: string } & WorkspaceOption & PageOptions) =>
        get<ListOf<Chain>>("/v1/chains", { ...query }),
      fork: (id: string, body: { at?: number; child_id?: string } = {}, call?: CallOptions) =>
        send<Chain>("POST", `${chainPath(id)}:fork`, body, {}, call),
      blocks: (id: string, query: EntryRange = {}) =>
        get<ListOf<Block>>(`${chainPath(id)}/blocks`, { ...query }),
      addBlocks: async (id: string, blocks: Block[], call?: CallOptions) =>
        (await send<{ items: Block[] }>("POST", `${chainPath(id)}/blocks`, { blocks }, {}, call)).items,
      runs: (id: string, page: PageOptions = {}) => get<ListOf<Run>>(`${chainPath(id)}/runs`, { ...page }),
      verify: (id: string) =>
        get<{ valid: boolean; broken: { chain_id: string; entry_id: number } | null }>(
          `${chainPath(id)}:verify`,
        ),
    },
    runs: {
      /** Resolves with the run, which has ended if `wait` was long enough. */
      start: (body: RunBody, call: InvokeOptions = {}) =>
        send<Run>("POST", "/v1/runs", body, { wait: call.wait }, call),
      /** Resolves when the run has ended, or with its current state when the signal is aborted. */
      async wait(id: string, options: FollowOptions = {}): Promise<Run> {
        for await (const update of watchRun(id, options)) if ("ended" in update) return update.ended;
        return await get<Run>(`/v1/runs/${pathSegment(id)}`);
      },
      /** Starts a run and yields its events; reconnects after a lost connection. */
      async *stream(
        body: RunBody,
        options: Omit<FollowOptions, "after"> & CallOptions = {},
      ): AsyncGenerator<RunUpdate> {
        const { id } = await send<Run>("POST", "/v1/runs", body, {}, options);
        yield* watchRun(id, options);
      },
      watch: watchRun,
      list: (query: { session_id?: string } & WorkspaceOption & PageOptions = {}) =>
        get<ListOf<Run>>("/v1/runs", { ...query }),
      get: (id: string) => get<Run>(`/v1/runs/${pathSegment(id)}`),
      /** The execution of a harness: its limits and its last checkpoint. */
      execution: (id: string) => get<Execution>(`/v1/executions/${pathSegment(id)}`),
      /** Resolves with the ended run. */
      cancel: (id: string) => send<Run>("POST", `/v1/runs/${pathSegment(id)}:cancel`),
    },
    /** Models and call records of the model endpoints. The endpoints themselves are for OpenAI and Anthropic clients. */
    llm: {
      models: async () => (await get<{ data: { id: string; display_name: string }[] }>("/v1/models")).data,
      calls: (query: PageOptions & { run_id?: string; invocation_id?: string } = {}) =>
        get<ListOf<LlmCall>>("/v1/llm-calls", { ...query }),
      call: (id: string) => get<LlmCall>(`/v1/llm-calls/${pathSegment(id)}`),
    },
    compactions: {
      create: (body: CompactionBody, call?: CallOptions) =>
        send<Compaction>("POST", "/v1/compactions", body, {}, call),
      list: (query: { session_id: string } & WorkspaceOption & PageOptions) =>
        get<ListOf<Compaction>>("/v1/compactions", { ...query }),
      get: (chain_id: string) => get<Compaction>(`/v1/compactions/${pathSegment(chain_id)}`),
      /** The outcome of the compaction for each entry of its source. */
      entries: (chain_id: string, query: EntryRange = {}) =>
        get<ListOf<CompactedEntry>>(`/v1/compactions/${pathSegment(chain_id)}/entries`, { ...query }),
      undo: (chain_id: string) => send<Chain>("POST", `/v1/compactions/${pathSegment(chain_id)}:undo`),
    },
    plugins: {
      // Listing and enabling do not use routes of the web adapter, because it may be the plugin that is disabled.
      list: async () => (await get<{ items: PluginView[] }>("/v1/plugins")).items,
      /** Lists the plugins that an installation would add, without installing or running them. */
      inspect: async (source: string) =>
        (await postWithProgress<{ items: PluginEntry[] }>("/v1/plugins:inspect", { source })).items,
      /** Takes effect immediately. */
      setEnabled: (name: string, enabled: boolean) =>
        send<PluginSwitchResult>("PATCH", `/v1/plugins/${pathSegment(name)}`, { enabled }),
      setTrusted: (name: string, trusted: boolean) =>
        send<PluginSwitchResult>("PATCH", `/api/plugins/${pathSegment(name)}`, { trusted }),
      install: async (source: string, options: { editable?: boolean } = {}, call?: CallOptions) =>
        (await postWithProgress<{ items: PluginView[] }>("/v1/plugins:install", { source, ...options }, call))
          .items,
      remove: (name: string) =>
        send<{ name: string; removed: true }>("DELETE", `/api/plugins/${pathSegment(name)}`),
      reload: (name: string) => send<PluginView>("POST", `/api/plugins/${pathSegment(name)}/reload`),
      health: async (options: { timeout_ms?: number } = {}) =>
        (await get<{ plugins: PluginHealth[] }>("/api/plugins/health", { ...options })).plugins,
    },
    providers: {
      /** `show` includes secrets: only for admins, and recorded in the audit log. */
      list: (options: { show?: boolean } = {}) =>
        get<ProviderView[]>("/api/llm-providers", options.show === true ? { show: 1 } : {}),
      create: (body: { id?: string; plugin: string; label?: string; config?: JsonObject }) =>
        send<ProviderView>("POST", "/api/llm-providers", body),
      patch: (id: string, body: { label?: string; config?: JsonObject }) =>
        send<ProviderView>("PATCH", `/api/llm-providers/${pathSegment(id)}`, body),
      remove: (id: string) => http.empty({ method: "DELETE", path: `/api/llm-providers/${pathSegment(id)}` }),
      setActive: (id: string) =>
        send<{ active: string; ok: true }>("PATCH", "/api/llm-providers/active", { name: id }),
      test: (id: string) => send<ProviderTestResult>("POST", `/api/llm-providers/${pathSegment(id)}/test`),
    },
    /** The events of a session, each entry once and in order, across reconnects. */
    async *watchSession(
      ref: { session_id: string } & WorkspaceOption,
      { since_entry, ...options }: WatchOptions = {},
    ): AsyncGenerator<SessionUpdate> {
      const workspace_query: Record<string, string> =
        ref.workspace === undefined ? {} : { workspace: ref.workspace };
      // Starts from a known cursor, so that nothing is missed even if the connection is lost before the first entry.
      const since =
        since_entry ??
        (await get<Session>(sessionPath(ref.session_id), { ...workspace_query })).last_entry_id;
      const query = new URLSearchParams({ ...workspace_query, since_entry: String(since) });
      const path = `${sessionPath(ref.session_id)}/events?${query.toString()}`;
      for await (const message of follow(http, path, { ...options, after: since }, () => false))
        yield toSessionUpdate(message);
    },
  };
}

function toSessionUpdate({ data }: SseMessage): SessionUpdate {
  const { event, entry_id } = JSON.parse(data) as { event: SessionUpdate["event"]; entry_id?: number };
  return { event, entry_id: entry_id ?? null };
}

/** The typed HTTP client: one method per operation, grouped by noun. */
import type {
  AgentPluginInstalled,
  ApiKey,
  Approval,
  ApprovalAnswer,
  ApprovalGrant,
  ApprovalStatus,
  AuditEntry,
  Binding,
  BindingCreate,
  BindingPatch,
  CallContext,
  CatalogEntry,
  ConfigEntry,
  ConfigMap,
  ConfigRemoved,
  ConfigWritten,
  Definitions,
  DiscoveredExport,
  ExportKind,
  InstrumentHealthReport,
  Invocation,
  InvocationEvent,
  InvocationStatus,
  Json,
  KeyScope,
  Package,
  Policy,
  PolicyAnswer,
  PolicyExplanation,
  PolicyLevel,
  PolicyPatch,
  Role,
  Secret,
  SecretKeyRotation,
  SemanticEvent,
  SignIn,
  SignInBegin,
  SignInStarted,
  ValidationReport,
  WorkspaceFolder,
  WorkspaceReview,
  WorkspaceTrust,
} from "@backplane/contract";
import { createAgentClient } from "./agent-client.ts";
import { type FollowOptions, follow } from "./follow.ts";
import { createHttp, type HttpOptions, type HttpRequest } from "./http.ts";
import type {
  CallOptions,
  CreatedKey,
  GatewayStatus,
  InvocationUpdate,
  InvokeOptions,
  InvokeRequest,
  ListOf,
  PageOptions,
} from "./types.ts";

export type ClientOptions = HttpOptions;
export type Client = ReturnType<typeof createClient>;

const LISTS: Record<ExportKind, string> = {
  tool: "/v1/plugin-tools",
  hook: "/v1/plugin-hooks",
  compactor: "/v1/plugin-compactors",
  harness: "/v1/plugin-harnesses",
};

export interface NewKey {
  name: string;
  scopes: KeyScope[];
  role?: Role;
  org_id?: string;
  project_id?: string | null;
  expires_at?: string;
}

export interface PolicyWrite {
  level?: PolicyLevel;
  generation?: number;
}

export function createClient(options: ClientOptions) {
  const http = createHttp(options);
  const get = <T>(path: string, query?: HttpRequest["query"], call: CallOptions = {}) =>
    http.json<T>({ method: "GET", path, ...(query && { query }), signal: call.signal });
  const remove = (path: string, headers?: HttpRequest["headers"]) =>
    http.empty({ method: "DELETE", path, ...(headers && { headers }) });
  const post = <T>(path: string, json: unknown, call: CallOptions = {}, query?: HttpRequest["query"]) =>
    http.json<T>({
      method: "POST",
      path,
      json,
      headers: creating(call),
      signal: call.signal,
      ...(query && { query }),
    });

  const writePolicy = (method: "PUT" | "PATCH", json: PolicyPatch, { level, generation }: PolicyWrite) =>
    http.json<PolicyAnswer>({
      method,
      path: "/v1/policy",
      json,
      query: { level },
      headers: { "if-match": generation === undefined ? undefined : `"${generation}"` },
    });

  return {
    ...createAgentClient(http),
    packages: {
      installArchive: (
        bytes: Uint8Array<ArrayBuffer> | ReadableStream | AsyncIterable<Uint8Array>,
        call: CallOptions = {},
        /** Of the folder that was packed: its name and when it was made, which an archive cannot tell. */
        from: { name?: string; born_at?: string } = {},
      ) =>
        http.json<Package>({
          method: "POST",
          path: "/v1/plugin-packages",
          query: from,
          upload: bytes,
          headers: creating(call),
          signal: call.signal,
        }),
      /** A folder of the gateway's host; admin credential only. */
      installFolder: (folder: string, call?: CallOptions) =>
        post<Package>("/v1/plugin-packages", { source: { folder } }, call),
      /** An Agent Plugins folder, packed: several packages, each with the body that binds it. */
      installAgentPlugin: (
        bytes: Uint8Array<ArrayBuffer> | ReadableStream | AsyncIterable<Uint8Array>,
        { strict }: { strict: boolean },
        call: CallOptions = {},
      ) =>
        http.json<AgentPluginInstalled>({
          method: "POST",
          path: "/v1/agent-plugins",
          query: { strict: strict ? 1 : 0 },
          upload: bytes,
          headers: creating(call),
          signal: call.signal,
        }),
      /** An MCP server of the npm registry, with its whole dependency tree. */
      installNpm: (npm: string, secret_slots: readonly string[] = [], call?: CallOptions) =>
        post<Package>("/v1/plugin-packages", { source: { npm, secret_slots } }, call),
      list: (page: PageOptions = {}) => get<ListOf<Package>>("/v1/plugin-packages", { ...page }),
      get: (id: string) => get<Package>(`/v1/plugin-packages/${part(id)}`),
      remove: (id: string) => remove(`/v1/plugin-packages/${part(id)}`),
    },
    bindings: {
      create: (body: BindingCreate, call?: CallOptions) => post<Binding>("/v1/plugin-bindings", body, call),
      list: (query: PageOptions & { kind?: ExportKind; package_id?: string } = {}) =>
        get<ListOf<Binding>>("/v1/plugin-bindings", { ...query }),
      get: (id: string) => get<Binding>(`/v1/plugin-bindings/${part(id)}`),
      /** With `generation` the change is refused (request.precondition) when someone else was first. */
      patch: (id: string, body: BindingPatch, when: { generation?: number } = {}) =>
        http.json<Binding>({
          method: "PATCH",
          path: `/v1/plugin-bindings/${part(id)}`,
          json: body,
          headers: { "if-match": when.generation === undefined ? undefined : `"${when.generation}"` },
        }),
      validate: (id: string) => post<ValidationReport>(`/v1/plugin-bindings/${part(id)}:validate`, undefined),
      remove: (id: string) => remove(`/v1/plugin-bindings/${part(id)}`),
      /** What its tools are, as it described them. */
      definitions: (id: string) => get<Definitions>(`/v1/plugin-bindings/${part(id)}/definitions`),
      /** Asks it again. */
      describe: (id: string) => post<Definitions>(`/v1/plugin-bindings/${part(id)}:describe`, undefined),
      /** Whether the gateway is signed in to its server. */
      signIn: (id: string) => get<SignIn>(`/v1/plugin-bindings/${part(id)}/sign-in`),
      /** Begins a sign-in; admin credential only, as the two below. */
      login: (id: string, given: SignInBegin = {}) =>
        post<SignInStarted>(`/v1/plugin-bindings/${part(id)}:login`, given),
      /** The address that the browser was sent to. */
      completeLogin: (redirect: string) => post<SignIn>("/v1/sign-ins:complete", { redirect }),
      logout: (id: string) => http.empty({ method: "POST", path: `/v1/plugin-bindings/${part(id)}:logout` }),
      /** Offers tools whose definition changed: one, or all of them. `revision`: the definitions that were looked at. */
      accept: (id: string, export_id = "*", revision?: number) =>
        post<Definitions>(`/v1/plugin-bindings/${part(id)}:accept`, {
          export_id,
          ...(revision === undefined ? {} : { revision }),
        }),
    },
    /** Instrument plugins; admin credential only. */
    instruments: {
      /** `probe` starts those that do not run, to ask them too. */
      health: async (timeout_ms: number, { probe }: { probe: boolean }) =>
        (
          await get<ListOf<InstrumentHealthReport>>("/v1/instrument-plugins/health", {
            timeout_ms,
            probe: probe ? 1 : 0,
          })
        ).items,
    },
    /** Folders of the gateway's machine; admin token only. */
    workspaces: {
      list: async () => (await get<{ items: WorkspaceFolder[] }>("/v1/workspaces")).items,
      review: (path: string, kind: WorkspaceFolder["kind"] = "workspace") =>
        post<WorkspaceReview>("/v1/workspaces:review", { path, kind }),
      trust: (wanted: Partial<WorkspaceTrust> & { path: string }) =>
        post<WorkspaceFolder>("/v1/workspaces", wanted),
      untrust: (id: string) => remove(`/v1/workspaces/${part(id)}`),
    },
    exports: {
      list: async (kind: ExportKind) => (await get<ListOf<DiscoveredExport>>(LISTS[kind])).items,
    },
    invocations: {
      /** Resolves with the record: ended when `wait` was long enough, else running or waiting for approval. */
      invoke: (body: InvokeRequest, call: InvokeOptions = {}) =>
        post<Invocation>("/v1/invocations", body, call, { wait: call.wait }),
      get: (id: string) => get<Invocation>(`/v1/invocations/${part(id)}`),
      list: (
        query: PageOptions & {
          status?: InvocationStatus;
          export_id?: string;
          session_id?: string;
          binding_id?: string;
        } = {},
      ) => get<ListOf<Invocation>>("/v1/invocations", { ...query }),
      /** The open response; its body is the file that the result refers to by this hash. */
      artifact: (id: string, sha256: string, call: CallOptions = {}) =>
        http.open({
          method: "GET",
          path: `/v1/invocations/${part(id)}/artifacts/${part(sha256)}`,
          headers: { accept: "application/octet-stream" },
          signal: call.signal,
        }),
      cancel: (id: string) => post<Invocation>(`/v1/invocations/${part(id)}:cancel`, undefined),
      /** Events so far and to come, then `{settled}`. */
      async *watch(id: string, how: FollowOptions = {}): AsyncGenerator<InvocationUpdate> {
        const path = `/v1/invocations/${part(id)}/events`;
        for await (const message of follow(http, path, how, ({ event }) => event === "settled"))
          yield message.event === "settled"
            ? { settled: JSON.parse(message.data) as Invocation }
            : (JSON.parse(message.data) as InvocationEvent);
      },
    },
    catalog: {
      /** `all` also lists what is not offered, and why. */
      list: async (how: { all?: boolean } = {}) =>
        (await get<ListOf<CatalogEntry>>("/v1/catalog", how.all === true ? { all: 1 } : undefined)).items,
      /** All that goes by this name, the one that has it first. */
      get: async (name: string) => (await get<ListOf<CatalogEntry>>(`/v1/catalog/${part(name)}`)).items,
    },
    policy: {
      get: (level: PolicyLevel = "org") => get<PolicyAnswer>("/v1/policy", { level }),
      /** With `generation` the change is refused (request.precondition) when someone else was first. */
      put: (policy: Policy, how: PolicyWrite = {}) => writePolicy("PUT", policy, how),
      /** null takes a field back to its default. */
      patch: (patch: PolicyPatch, how: PolicyWrite = {}) => writePolicy("PATCH", patch, how),
      explain: (tool: string, about: { context?: CallContext; role?: Role; input?: Json } = {}) =>
        get<PolicyExplanation>("/v1/policy:explain", {
          tool,
          context: about.context,
          role: about.role,
          input: about.input === undefined ? undefined : JSON.stringify(about.input),
        }),
    },
    approvals: {
      get: (id: string) => get<Approval>(`/v1/approvals/${part(id)}`),
      list: (query: PageOptions & { status?: ApprovalStatus } = {}) =>
        get<ListOf<Approval>>("/v1/approvals", { ...query }),
      answer: (id: string, answer: ApprovalAnswer, call?: CallOptions) =>
        post<Approval>(`/v1/approvals/${part(id)}:answer`, answer, call),
      grants: async () => (await get<ListOf<ApprovalGrant>>("/v1/approval-grants")).items,
      revokeGrant: (id: string) => remove(`/v1/approval-grants/${part(id)}`),
    },
    secrets: {
      put: (name: string, value: string) =>
        http.json<Secret>({ method: "PUT", path: `/v1/secrets/${part(name)}`, json: { value } }),
      get: (name: string) => get<Secret>(`/v1/secrets/${part(name)}`),
      list: (page: PageOptions = {}) => get<ListOf<Secret>>("/v1/secrets", { ...page }),
      remove: (name: string) => remove(`/v1/secrets/${part(name)}`),
      /** Everything that is sealed, with a new master key or with the newest there is. */
      rotateKey: (options: { new_key?: boolean } = {}) =>
        http.json<SecretKeyRotation>({ method: "POST", path: "/v1/secret-keys", json: options }),
    },
    keys: {
      create: (body: NewKey, call?: CallOptions) => post<CreatedKey>("/v1/keys", body, call),
      /** `project`: another one in reach, or `*` for all of them. */
      list: (page: PageOptions & { project?: string } = {}) => get<ListOf<ApiKey>>("/v1/keys", { ...page }),
      revoke: (id: string, { project }: { project?: string } = {}) =>
        remove(`/v1/keys/${part(id)}${project === undefined ? "" : `?project=${part(project)}`}`),
    },
    config: {
      /** Every key with its value or mask. */
      list: () => get<ConfigMap>("/api/config"),
      /** `show` answers the value itself: admin only, and recorded. */
      get: (key: string, how: { show?: boolean } = {}) =>
        get<ConfigEntry>(`/api/config/${part(key)}`, how.show === true ? { show: 1 } : undefined),
      set: (key: string, value: Json) =>
        http.json<ConfigWritten>({ method: "PATCH", path: `/api/config/${part(key)}`, json: { value } }),
      /** One key, or `a.b.*`. */
      unset: (key: string) =>
        http.json<ConfigRemoved>({ method: "DELETE", path: `/api/config/${part(key)}` }),
    },
    audit: {
      list: (query: PageOptions & { action?: string } = {}) =>
        get<ListOf<AuditEntry>>("/v1/audit", { ...query }),
    },
    events: {
      /** Every fact of the scope after `after`, then live, until the signal says stop. */
      async *watch(how: FollowOptions = {}): AsyncGenerator<SemanticEvent> {
        for await (const message of follow(http, "/v1/events", how, () => false))
          yield JSON.parse(message.data) as SemanticEvent;
      },
    },
    /** A one-time link that signs a browser in; admin token only. */
    loginLink: () => post<{ path: string; expires_at: string }>("/v1/login-links", undefined),
    status: (call?: CallOptions) => get<GatewayStatus>("/v1/status", undefined, call),
  };
}

function creating(call: CallOptions): HttpRequest["headers"] {
  return { "idempotency-key": call.idempotency_key };
}

function part(id: string): string {
  return encodeURIComponent(id);
}

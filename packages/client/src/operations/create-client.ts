/** The typed HTTP client: methods for the operations of the API, grouped by noun. */
import type {
  AllowRule,
  AllowRuleCreate,
  ApiKey,
  Approval,
  ApprovalAnswer,
  ApprovalGrant,
  ApprovalStatus,
  AuditEntry,
  AuditReport,
  Binding,
  CallContext,
  CatalogEntry,
  ConfigEntry,
  ConfigMap,
  ConfigRemoved,
  ConfigWritten,
  Delivery,
  DeliveryStatus,
  FrameRecording,
  HookTest,
  Invocation,
  InvocationEvent,
  InvocationStatus,
  Json,
  KeyScope,
  LlmKeyLimits,
  Policy,
  PolicyExplanation,
  PolicyLevel,
  PolicyPatch,
  PolicyView,
  Role,
  Secret,
  SecretKeyRotation,
  SemanticEvent,
  TraceSpan,
  TrustedKey,
  TrustedKeyCreate,
} from "@backplane/contract";
import { type FollowOptions, follow } from "../transport/follow.ts";
import { createHttp, type HttpOptions } from "../transport/http.ts";
import { type CallOptions, createRequests, ifMatchHeader, pathSegment } from "../transport/requests.ts";
import { createAgentClient } from "./agent-client.ts";
import { createPluginClient } from "./plugin-client.ts";
import type {
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

export interface NewKey {
  name: string;
  scopes: KeyScope[];
  role?: Role;
  org_id?: string;
  project_id?: string | null;
  expires_at?: string;
  /** Patterns of the tools that are listed for the key, or `@PROFILE`; the others are found by search. */
  tools?: string[];
  /** Limits of the key at the model endpoints. */
  llm?: LlmKeyLimits;
}

export interface PolicyWrite {
  level?: PolicyLevel;
  generation?: number;
}

export function createClient(options: ClientOptions) {
  const http = createHttp(options);
  const { get, post, remove } = createRequests(http);

  const writePolicy = (method: "PUT" | "PATCH", json: PolicyPatch, { level, generation }: PolicyWrite) =>
    http.json<PolicyView>({
      method,
      path: "/v1/policy",
      json,
      query: { level },
      headers: ifMatchHeader(generation),
    });

  return {
    ...createAgentClient(http),
    ...createPluginClient(http),
    invocations: {
      /** Resolves with the record, which has ended if `wait` was long enough, or is running or awaiting approval. */
      invoke: (body: InvokeRequest, call: InvokeOptions = {}) =>
        post<Invocation>("/v1/invocations", body, call, { wait: call.wait }),
      get: (id: string) => get<Invocation>(`/v1/invocations/${pathSegment(id)}`),
      list: (
        query: PageOptions & {
          /** With several statuses, invocations that have any of them are listed. */
          status?: InvocationStatus | readonly InvocationStatus[];
          export_id?: string;
          session_id?: string;
          binding_id?: string;
        } = {},
      ) =>
        get<ListOf<Invocation>>("/v1/invocations", {
          ...query,
          status: query.status === undefined ? undefined : [query.status].flat().join(","),
        }),
      /** The recorded frames of a call, and whether frames of its binding are recorded now. */
      frames: (id: string) => get<FrameRecording>(`/v1/invocations/${pathSegment(id)}/frames`),
      /** Replaces the processes of the binding; 0 seconds ends the recording. */
      recordFrames: (binding_id: string, seconds: number) =>
        post<Omit<FrameRecording, "items">>(`/v1/plugin-bindings/${pathSegment(binding_id)}:record-frames`, {
          seconds,
        }),
      /** The calls of a trace, oldest first. */
      trace: (trace_id: string, page: PageOptions = {}, call: CallOptions = {}) =>
        get<ListOf<TraceSpan>>(`/v1/traces/${pathSegment(trace_id)}`, { ...page }, call),
      /** Resolves with the response, whose body is the file that the result refers to by this hash. */
      artifact: (id: string, sha256: string, call: CallOptions = {}) =>
        http.open({
          method: "GET",
          path: `/v1/invocations/${pathSegment(id)}/artifacts/${pathSegment(sha256)}`,
          headers: { accept: "application/octet-stream" },
          signal: call.signal,
        }),
      cancel: (id: string) => post<Invocation>(`/v1/invocations/${pathSegment(id)}:cancel`, undefined),
      /** All events, or those after `after`, then `{settled}`. */
      async *watch(id: string, options: FollowOptions = {}): AsyncGenerator<InvocationUpdate> {
        const path = `/v1/invocations/${pathSegment(id)}/events`;
        for await (const message of follow(http, path, options, ({ event }) => event === "settled"))
          yield message.event === "settled"
            ? { settled: JSON.parse(message.data) as Invocation }
            : (JSON.parse(message.data) as InvocationEvent);
      },
    },
    catalog: {
      /** `all` also lists tools that are not offered, with the reason. */
      list: async ({ all, channel }: { all?: boolean; channel?: string } = {}) =>
        (await get<ListOf<CatalogEntry>>("/v1/catalog", { all: all === true ? 1 : undefined, channel }))
          .items,
      /** All tools that claim this name; the one that callers get comes first. */
      get: async (name: string) =>
        (await get<ListOf<CatalogEntry>>(`/v1/catalog/${pathSegment(name)}`)).items,
    },
    policy: {
      get: (level: PolicyLevel = "org") => get<PolicyView>("/v1/policy", { level }),
      /** With `generation`, fails with request.precondition if the policy has changed since. */
      put: (policy: Policy, options: PolicyWrite = {}) => writePolicy("PUT", policy, options),
      /** A null field is reset to its default. */
      patch: (patch: PolicyPatch, options: PolicyWrite = {}) => writePolicy("PATCH", patch, options),
      explain: (
        tool: string,
        call: { context?: CallContext; role?: Role; channel?: string; input?: Json } = {},
      ) =>
        get<PolicyExplanation>("/v1/policy:explain", {
          tool,
          context: call.context,
          role: call.role,
          channel: call.channel,
          input: call.input === undefined ? undefined : JSON.stringify(call.input),
        }),
    },
    approvals: {
      get: (id: string) => get<Approval>(`/v1/approvals/${pathSegment(id)}`),
      list: (query: PageOptions & { status?: ApprovalStatus } = {}) =>
        get<ListOf<Approval>>("/v1/approvals", { ...query }),
      answer: (id: string, answer: ApprovalAnswer, call?: CallOptions) =>
        post<Approval>(`/v1/approvals/${pathSegment(id)}:answer`, answer, call),
      grants: async () => (await get<ListOf<ApprovalGrant>>("/v1/approval-grants")).items,
      revokeGrant: (id: string) => remove(`/v1/approval-grants/${pathSegment(id)}`),
    },
    deliveries: {
      list: (query: PageOptions & { status?: DeliveryStatus; binding_id?: string } = {}) =>
        get<ListOf<Delivery>>("/v1/deliveries", { ...query }),
      get: (id: string) => get<Delivery>(`/v1/deliveries/${pathSegment(id)}`),
      /** Only a dead delivery can be replayed. */
      replay: (id: string) => post<Delivery>(`/v1/deliveries/${pathSegment(id)}:replay`, undefined),
      discard: (id: string) => post<Delivery>(`/v1/deliveries/${pathSegment(id)}:discard`, undefined),
      /** Delivers an example event to a hook. */
      test: (binding_id: string, event: HookTest = {}, call?: CallOptions) =>
        post<Delivery>(`/v1/plugin-bindings/${pathSegment(binding_id)}:test`, event, call),
      pause: (binding_id: string) =>
        post<Binding>(`/v1/plugin-bindings/${pathSegment(binding_id)}:pause`, undefined),
      resume: (binding_id: string) =>
        post<Binding>(`/v1/plugin-bindings/${pathSegment(binding_id)}:resume`, undefined),
    },
    allow_rules: {
      list: (page: PageOptions = {}) => get<ListOf<AllowRule>>("/v1/allow-rules", { ...page }),
      create: (rule: AllowRuleCreate, call?: CallOptions) => post<AllowRule>("/v1/allow-rules", rule, call),
      remove: (id: string) => remove(`/v1/allow-rules/${pathSegment(id)}`),
    },
    secrets: {
      put: (name: string, value: string) =>
        http.json<Secret>({ method: "PUT", path: `/v1/secrets/${pathSegment(name)}`, json: { value } }),
      get: (name: string) => get<Secret>(`/v1/secrets/${pathSegment(name)}`),
      list: (page: PageOptions = {}) => get<ListOf<Secret>>("/v1/secrets", { ...page }),
      remove: (name: string) => remove(`/v1/secrets/${pathSegment(name)}`),
      /** Seals all stored secrets again, under a new master key or the newest existing one. */
      rotateKey: (options: { new_key?: boolean } = {}) =>
        http.json<SecretKeyRotation>({ method: "POST", path: "/v1/secret-keys", json: options }),
    },
    keys: {
      create: (body: NewKey, call?: CallOptions) => post<CreatedKey>("/v1/keys", body, call),
      /** `project` selects another project that the caller may read; `*` selects all of them. */
      list: (page: PageOptions & { project?: string } = {}) => get<ListOf<ApiKey>>("/v1/keys", { ...page }),
      revoke: (id: string, { project }: { project?: string } = {}) =>
        remove(
          `/v1/keys/${pathSegment(id)}${project === undefined ? "" : `?project=${pathSegment(project)}`}`,
        ),
    },
    trusted_keys: {
      list: (page: PageOptions = {}) => get<ListOf<TrustedKey>>("/v1/trusted-keys", { ...page }),
      trust: (body: TrustedKeyCreate, call?: CallOptions) => post<TrustedKey>("/v1/trusted-keys", body, call),
      revoke: (id: string, body: { reason?: string } = {}) =>
        post<TrustedKey>(`/v1/trusted-keys/${pathSegment(id)}:revoke`, body),
    },
    config: {
      /** Every key with its value or mask. */
      list: () => get<ConfigMap>("/api/config"),
      /** `show` returns the value instead of its mask: only for admins, and recorded in the audit log. */
      get: (key: string, options: { show?: boolean } = {}) =>
        get<ConfigEntry>(`/api/config/${pathSegment(key)}`, options.show === true ? { show: 1 } : undefined),
      set: (key: string, value: Json) =>
        http.json<ConfigWritten>({
          method: "PATCH",
          path: `/api/config/${pathSegment(key)}`,
          json: { value },
        }),
      /** `key` is one key, or a prefix such as `a.b.*`. */
      unset: (key: string) =>
        http.json<ConfigRemoved>({ method: "DELETE", path: `/api/config/${pathSegment(key)}` }),
    },
    audit: {
      list: (query: PageOptions & { action?: string } = {}) =>
        get<ListOf<AuditEntry>>("/v1/audit", { ...query }),
      verify: () => get<AuditReport>("/v1/audit/verify"),
    },
    events: {
      /** Resolves to the current position in the stream. `watch` with it as `after` yields all later events and no others. */
      async position({ signal }: Pick<CallOptions, "signal"> = {}): Promise<number> {
        const options = signal === undefined ? {} : { signal };
        for await (const { id } of follow(http, "/v1/events?after=latest", options, () => true))
          return Number(id);
        throw signal?.reason;
      },
      /** Stored events of the scope after `after`, then live ones, until the signal is aborted. */
      async *watch(options: FollowOptions = {}): AsyncGenerator<SemanticEvent> {
        for await (const message of follow(http, "/v1/events", options, () => false))
          yield JSON.parse(message.data) as SemanticEvent;
      },
    },
    /** Creates a one-time link that signs a browser in; admin token only. */
    createLoginLink: () => post<{ path: string; expires_at: string }>("/v1/login-links", undefined),
    status: (call?: CallOptions) => get<GatewayStatus>("/v1/status", undefined, call),
  };
}

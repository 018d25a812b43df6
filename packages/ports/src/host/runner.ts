/** The runner port. Requests and outcomes are plain data, so a runner could be on another machine. */
import type {
  EgressRecord,
  ExecutionClass,
  ExportOp,
  Grant,
  InvocationContext,
  InvocationError,
  Json,
  JsonObject,
  ManifestToolExport,
  Runtime,
  TerminalStatus,
} from "@backplane/contract";
import type { Operation } from "./operation.ts";

export interface RunRequest {
  invocation_id: string;
  attempt: number;
  package: { package_id: string; version: string; digest: string; runtime: Runtime };
  export_id: string;
  /** The tool's name in its own dialect, if it differs. */
  native_name?: string;
  /** Arguments that the server requires as HTTP headers. */
  param_headers?: ManifestToolExport["tool"]["param_headers"];
  op: ExportOp;
  /** The model's id for the call, if a turn made it. */
  tool_call_id?: string;
  /** The request body without export_id and context, e.g. {tool_execution_id, input}. */
  body: JsonObject;
  /** Includes secrets, so it is only sent over the pipe. The runner adds scratch_dir. */
  context: InvocationContext;
  grant: Grant;
  class: ExecutionClass;
  /** Time left when the request is submitted, on the monotonic clock. */
  timeout_ms: number;
  /**
   * Contains the package digest, binding, generation, project and grant digest. Requests share a process only if they
   * have the same key.
   */
  pool_key: string;
  binding_id: string;
}

export interface RunOutcome {
  status: TerminalStatus;
  result: Json | null;
  error: InvocationError | null;
  violations: number;
  /** Redacted by the runner, which knows the secrets of the request. */
  stderr_tail: string | null;
  /** Connections denied during the call, redacted; null if none. */
  egress: EgressRecord | null;
  /** False if the plugin's code did not receive the call, so that any effect class may be retried. */
  dispatched: boolean;
}

export interface RunListener {
  /** Plugin events in order, redacted, before the outcome. */
  event(event: JsonObject & { type: string }): void;
  /**
   * Answers the plugin's requests during the call (MCP sampling, elicitation, roots); `key` is the plugin's id for the
   * request, if any. Absent if the caller cannot be asked.
   */
  answerRequest?: (method: string, params: JsonObject, key?: string) => Promise<Json>;
}

/** A request to a binding's process outside any call. */
export interface DescribeRequest
  extends Pick<RunRequest, "package" | "binding_id" | "pool_key" | "grant" | "class" | "timeout_ms"> {
  context: Pick<InvocationContext, "org_id" | "project_id" | "config" | "secrets" | "grant">;
}

/** Selects the process of a binding: for a call, or for a request outside any call. */
export type ProcessRequest = Omit<DescribeRequest, "timeout_ms">;

export interface Description {
  exports: ManifestToolExport[];
  /** Keyed by the paths in the exports. */
  schemas: Record<string, Json>;
  warnings: string[];
  /** Further information of the dialect, such as a server's name and capabilities. */
  info: JsonObject;
}

/**
 * A request other than a tool call: MCP resources, prompts, completion and logging, or an instrument's health check.
 */
export interface McpRequest extends DescribeRequest {
  method: string;
  params: JsonObject;
}

export interface RequestListener {
  notify(method: string, params: JsonObject): void;
  answerRequest(method: string, params: JsonObject, key?: string): Promise<Json>;
}

/**
 * A notification from a binding's process outside any call, such as a changed tool list. The method
 * `backplane/server.gone` reports that a long-lived process has ended.
 */
export interface RunnerNotification {
  binding_id: string;
  /** The project of the process; calls of another project use their own process. */
  project_id: string | null;
  method: string;
  params: JsonObject;
}

/** A frame or other output of a process of an observed binding, without secrets. */
export interface ObservedOutput {
  binding_id: string;
  at: string;
  from: "host" | "plugin";
  /** stray_output: text on stdout that is not a frame, which ends the connection. */
  kind: "frame" | "stray_output" | "stderr";
  text: string;
  /** The call that the output belongs to, if it is known. */
  call_id?: string;
}

export interface RunnerHealth {
  processes: number;
  /** Started processes that wait for their single call. */
  prewarmed: number;
  running: number;
  /** Plugins that are not started for a while after repeated crashes at launch. */
  held_back: {
    pool_key: string;
    binding_id: string;
    package_id: string;
    failures: number;
    retry_at: number;
    last_error: string;
  }[];
  /** With `enabled` false the operator has turned the sandbox off, and workers are plain processes. */
  sandbox: { enabled: boolean; available: boolean; reason: string };
}

/** A server process that keeps running between calls. */
export interface ServerProcess {
  binding_id: string;
  package_id: string;
  pid: number;
  state: "launching" | "ready" | "stopping";
  /** Calls in flight. */
  calls: number;
  /** Time since its last call; 0 while it is in use. */
  idle_ms: number;
  /** Private memory of the process and its descendants; 0 where the system does not report it. */
  memory_bytes: number;
}

/** The WWW-Authenticate challenge of a remote server, in `details.challenge` of `sign_in.needed`. */
export interface ServerChallenge {
  status: 401 | 403;
  /** An OAuth error code such as `invalid_token` or `insufficient_scope`. */
  error: string | null;
  scope: string | null;
  /** URL of the server's protected-resource metadata. */
  resource_metadata: string | null;
  /** SHA-256 in hex of the Authorization header that was sent, which may be outdated; null if none was sent. */
  shown: string | null;
}

/** An HTTP request of code inside the gateway, limited to the domains that the operator allows. */
export interface HostRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string | null;
  encoding: "utf8" | "base64";
  timeout_ms: number;
  allowed_domains: readonly string[];
  /** Maximum size of the response; defaults to the runner's limit. */
  max_response_bytes?: number;
}

export interface HostResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** base64 if the body is not text. */
  encoding: "utf8" | "base64";
}

export interface Runner {
  /** Never rejects because of a plugin: every failure is an outcome with an error code. */
  run(request: RunRequest, listener: RunListener): Promise<RunOutcome>;
  /** Returns false if the invocation does not run here. */
  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean;
  /** Stops the processes of a binding, except those for `keep_pool_key`, after their calls in flight have finished. */
  retire(binding_id: string, keep_pool_key?: string): void;
  /**
   * Asks the process of a described package for its tools. Rejects with a BackplaneError. Reports the steps of a launch
   * to `operation`; cancelling it aborts the launch, unless another request waits for the same process.
   */
  describe?: (request: DescribeRequest, operation?: Operation) => Promise<Description>;
  /**
   * Starts the process, or uses the running one, and completes its handshake; instruments are also asked for their
   * health. Rejects with a BackplaneError.
   */
  probe?: (request: DescribeRequest, operation?: Operation) => Promise<void>;
  /** Rejects with a BackplaneError. Cancelling `operation` cancels the request to the server too. */
  request?: (request: McpRequest, listener: RequestListener, operation?: Operation) => Promise<Json>;
  /** Whether a process for this request is already running, so that the request would not start one. */
  serves?: (request: ProcessRequest) => boolean;
  /** The servers that are running. */
  listServers?: () => Promise<ServerProcess[]>;
  /**
   * Observes the processes of these bindings that start from now on and speak vai.rpc.v1 or rterm.plugin.v1; running ones
   * are replaced. Returns a function that ends the observation.
   */
  observe?: (binding_ids: readonly string[], observer: (output: ObservedOutput) => void) => () => void;
  onNotification?: (listener: (notification: RunnerNotification) => void) => () => void;
  /** Rejects with a BackplaneError; for a forbidden host its details contain the denial. */
  fetch?: (request: HostRequest) => Promise<HostResponse>;
  /**
   * The proof that requests to the gateway carry when they come through the listeners of this call's process; null if
   * the process is not sandboxed and therefore has no listeners.
   */
  listenerProof?: (invocation_id: string) => string | null;
  /** Whether packages of this protocol can run here; a runner without this method supports all protocols. */
  runs?(protocol: string): boolean;
  health(): RunnerHealth;
  /** Cancels running calls, shuts all processes down, and kills those that do not exit within `grace_ms`. */
  close(grace_ms: number): Promise<void>;
}

/** The runner: takes plain data, so that a runner on another machine is the same port. */
import type {
  EgressRecord,
  ExecutionClass,
  Grant,
  InvocationContext,
  InvocationError,
  Json,
  JsonObject,
  Op,
  Runtime,
  TerminalStatus,
  ToolExport,
} from "@backplane/contract";

export interface RunOrder {
  invocation_id: string;
  attempt: number;
  package: { package_id: string; version: string; digest: string; runtime: Runtime };
  export_id: string;
  /** What the tool is called in its own dialect, where that differs. */
  native_name?: string;
  /** Arguments that its server wants repeated as headers. */
  param_headers?: ToolExport["tool"]["param_headers"];
  op: Op;
  /** The model's id of the call, where a turn made it. */
  tool_call_id?: string;
  /** The request's body but for export_id and context, e.g. {tool_execution_id, input}. */
  body: JsonObject;
  /** Complete, secrets included; it goes over the pipe and nowhere else. scratch_dir is the runner's to add. */
  context: InvocationContext;
  grant: Grant;
  class: ExecutionClass;
  /** Time left on the monotonic clock at hand-over. */
  timeout_ms: number;
  /** Processes are shared only inside one key: package digest, binding generation, project, grant digest. */
  pool_key: string;
  binding_id: string;
}

export interface RunOutcome {
  status: TerminalStatus;
  result: Json | null;
  error: InvocationError | null;
  violations: number;
  /** Redacted by the runner, which knows the order's secrets. */
  stderr_tail: string | null;
  /** Connections that were refused while it ran, redacted likewise; null: none. */
  egress: EgressRecord | null;
  /** False when nothing reached the plugin's code: safe to run again whatever the effect class. */
  dispatched: boolean;
}

export interface RunListener {
  /** Plugin events in order, redacted, before the outcome. */
  event(event: JsonObject & { type: string }): void;
  /**
   * What the plugin asks back during the call (MCP: sampling, elicitation, roots), under its own name of the question
   * where it has one. Absent: nobody is there to ask.
   */
  ask?: (method: string, params: JsonObject, key?: string) => Promise<Json>;
}

/** What a binding's process is asked outside of any call. */
export interface DescribeOrder
  extends Pick<RunOrder, "package" | "binding_id" | "pool_key" | "grant" | "class" | "timeout_ms"> {
  context: Pick<InvocationContext, "org_id" | "project_id" | "config" | "secrets" | "grant">;
}

export interface Description {
  exports: ToolExport[];
  /** By the paths that the exports name. */
  schemas: Record<string, Json>;
  warnings: string[];
  /** What the dialect learned besides, such as a server's name and capabilities. */
  info: JsonObject;
}

/** One request of MCP that is no tool call: resources, prompts, completion, logging. */
export interface RequestOrder extends DescribeOrder {
  method: string;
  params: JsonObject;
}

export interface RequestListener {
  notify(method: string, params: JsonObject): void;
  ask(method: string, params: JsonObject, key?: string): Promise<Json>;
}

/**
 * What a binding's process says by itself, such as that its list of tools has changed; and, as `backplane/server.gone`,
 * that one which stays between calls has ended.
 */
export interface RunnerNotice {
  binding_id: string;
  /** Whose process it is: another project's calls of the same binding have one of their own. */
  project_id: string | null;
  method: string;
  params: JsonObject;
}

export interface RunnerHealth {
  processes: number;
  /** Those of them that wait for their one call. */
  prewarmed: number;
  running: number;
  /** Plugins held back after dying at launch too often. */
  held_back: {
    pool_key: string;
    binding_id: string;
    package_id: string;
    failures: number;
    retry_at: number;
    last_error: string;
  }[];
  /** Not `enabled`: the operator wants none, so a worker is a plain process. */
  sandbox: { enabled: boolean; available: boolean; reason: string };
}

/** In `details.challenge` of `sign_in.needed`: what a server at an address asks for (WWW-Authenticate). */
export interface ServerChallenge {
  status: 401 | 403;
  /** Such as `invalid_token` or `insufficient_scope`. */
  error: string | null;
  scope: string | null;
  /** Where the server's protected-resource metadata is. */
  resource_metadata: string | null;
  /** SHA-256 of the Authorization header that it was shown, in hex; null: none. A process may still hold an older one. */
  shown: string | null;
}

/** One request of code inside the gateway, to what the operator allows that code. */
export interface HostRequest {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: string | null;
  encoding: "utf8" | "base64";
  timeout_ms: number;
  allowed_domains: readonly string[];
  /** A larger answer is refused; without it the runner's own limit holds. */
  answer_bytes?: number;
}

export interface HostAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** base64 where the bytes are no text. */
  encoding: "utf8" | "base64";
}

export interface Runner {
  /** Never rejects for what a plugin does: every failure is an outcome with a code. */
  run(order: RunOrder, listener: RunListener): Promise<RunOutcome>;
  /** False: no such invocation runs here. */
  cancel(invocation_id: string, reason: "user" | "shutdown"): boolean;
  /** Stops the processes of a binding whose generation is gone; calls in flight finish first. */
  retire(binding_id: string, keep_pool_key?: string): void;
  /** Asks what the tools of a described package are. Rejects with a BackplaneError. */
  describe?: (order: DescribeOrder) => Promise<Description>;
  /** Rejects with a BackplaneError. */
  request?: (order: RequestOrder, listener: RequestListener) => Promise<Json>;
  /** Whether a process that serves this is up: asking it then starts nothing. */
  serves?: (order: Omit<DescribeOrder, "timeout_ms">) => boolean;
  onNotice?: (listener: (notice: RunnerNotice) => void) => () => void;
  /** Rejects with a BackplaneError; one that is not allowed has the refusal in its details. */
  fetch?: (request: HostRequest) => Promise<HostAnswer>;
  /**
   * What requests to the gateway carry when they came by the listeners of the process that serves this call; null: the
   * process has none, because it is not confined.
   */
  listenerProof?: (invocation_id: string) => string | null;
  /** Whether packages of this protocol can run here; a runner that does not say takes them all. */
  runs?(protocol: string): boolean;
  health(): RunnerHealth;
  /** Cancels what still runs, shuts all processes down, kills what ignores it. */
  close(grace_ms: number): Promise<void>;
}

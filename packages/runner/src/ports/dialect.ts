/**
 * A dialect translates one plugin protocol into exports and calls, and its failures into our error codes. It does not
 * depend on pools, deadlines, policy or storage. To add a dialect, write a file in dialects/ and add it to the list in
 * create-dialects.ts.
 */
import type {
  BackplaneError,
  InvocationContext,
  Json,
  JsonObject,
  Permissions,
  Protocol,
} from "@backplane/contract";
import type { Description, ProcessRequest, RequestListener, RunRequest } from "@backplane/ports";
import type { Transport } from "@backplane/wire";
import type { PluginAnswer } from "./answer.ts";
import type { RunnerLimits, RunnerTimeouts } from "./settings.ts";

export interface Dialect {
  readonly protocol: Protocol;
  /** `pooled`: one process serves many concurrent calls. `call`: one process per call. */
  readonly lifetime: "pooled" | "call";
  /** One process per pool key even if isolated, for servers that would lose their state with a process per call. */
  readonly resident?: boolean;
  /** How long a resident server may be idle before it is stopped. If absent or null, it is never stopped. */
  idleTimeout?(request: ProcessRequest, limits: RunnerLimits): number | null;
  /** The name of the timeout for starting the program; start_ms if absent. */
  readonly launch_timeout?: keyof RunnerTimeouts;
  /** False if the protocol cannot name a scratch folder per call; then only the process has one. */
  readonly call_scratch?: false;
  /** True if a plugin has a persistent data folder per organization and project, used by one process at a time. */
  readonly keeps_data?: boolean;
  /** Why this dialect cannot run the request; null if it can. */
  unsupportedReason(request: RunRequest): string | null;
  /** The program to start, if it differs from the manifest's entrypoint. Rejects with a BackplaneError. */
  launch?(request: ProcessRequest, context: LaunchContext): Promise<DialectLaunch>;
  connect(link: ProcessLink): DialectSession;
  /** True if secrets are passed to the process at its start and not with each call. */
  readonly secrets_at_start?: boolean;
  /** True for a remote server: no process is started and there is no transport. */
  readonly remote?: boolean;
}

/** The permissions of a package that declares none. */
export const NO_PERMISSIONS: Permissions = {
  network: "none",
  filesystem: "none",
  gateway_api_scopes: [],
  secret_slots: [],
};

interface LaunchContext {
  /** The verified package folder on the host. */
  folder: string;
  /** In the sandbox the package is at /plugin and the binds are at their targets; a plain process sees host paths. */
  confined: boolean;
  programs: HostPrograms;
  /** Returns the data folder on the host and creates it if needed. */
  dataDir: () => Promise<string>;
}

/** Our programs that load the code of plugins. A program that this build does not contain is absent. */
export interface HostPrograms {
  instruments?: string;
  tool_files?: string;
  /** The Java host as source, which is compiled when a Java plugin first needs it. */
  java_instruments?: JavaHostPaths;
  /** Returns a private copy of a program, which is started instead of the file itself. */
  privateCopy?: (file: string) => string;
}

export interface JavaHostPaths {
  /** The folder with the Java packages of the host. */
  sources: string;
  /** The folder that keeps the compiled jar. */
  cache: string;
}

export interface DialectLaunch {
  entrypoint: string[];
  env: Record<string, string>;
  /** Additional files and folders in the sandbox: host programs and the plugin's data folder. */
  binds: { source: string; target: string; writable: boolean }[];
  /** The data folder, as the process sees it. */
  data_dir?: string;
}

/** The process as a session sees it. */
export interface ProcessLink {
  transport: Transport;
  package: { package_id: string; version: string };
  host: { name: string; version: string };
  timeouts: RunnerTimeouts;
  limits: RunnerLimits;
  /** Reports a protocol violation that does not change an outcome. */
  reportViolation(kind: string, request_id?: string): void;
  /** Reports skipped output that is not a message. It is kept with stderr for the diagnosis. */
  reportStrayOutput?(text: string): void;
  /** Reports that the connection to this process is lost; all calls in flight have already failed. */
  reportFailure(error: BackplaneError): void;
  /** The request that started the process, with config and secrets of the binding. Null for a kernel plugin. */
  request: ProcessRequest | null;
  /** The data folder, as the process sees it; null if the dialect has none. */
  data_dir: string | null;
  /** Passes on a notification that belongs to no call. */
  notify(method: string, params: JsonObject): void;
  /**
   * Calls `run` once after `ms`, unless the returned function is called first. During the start of a process only
   * its own time counts: time in which it computed or waited, but not time in which a busy machine did not run it.
   */
  after(ms: number, run: () => void): () => void;
}

/** One call as its dialect sees it. */
export interface DialectCall {
  readonly id: string;
  readonly request: RunRequest;
  /** The body of the request, with a reference instead of large input. */
  readonly body: JsonObject;
  /** Includes scratch_dir if the grant has scratch. */
  readonly context: InvocationContext;
  /** The request is being sent: from here on the plugin's code may have acted. */
  sent(): void;
  event(event: JsonObject & { type: string }): void;
  /** Whether the caller can answer requests from the plugin. */
  readonly can_answer_requests: boolean;
  /** Passes a request from the plugin to the caller. Rejects if no caller can answer. */
  answerRequest(method: string, params: JsonObject, key?: string): Promise<Json>;
  /** Exactly one of `answered` and `failed` is called, once. */
  answered(answer: PluginAnswer): void;
  failed(error: BackplaneError): void;
}

export interface DialectSession {
  /** Performs the handshake. Rejects with a BackplaneError. */
  open(): Promise<void>;
  /** Lists the exports. Only for protocols with self-description. */
  describe?(): Promise<Description>;
  /** Checks the health of a plugin that completed its handshake. Rejects with a BackplaneError. */
  probe?(): Promise<void>;
  /**
   * Requests other than calls: those of MCP, and health checks of instruments. Rejects with a BackplaneError; `signal`
   * cancels the request.
   */
  request?(method: string, params: JsonObject, listener: RequestListener, signal: AbortSignal): Promise<Json>;
  /** Updates config and secrets before a request that is not a call; a call brings its own. */
  refresh?(context: ProcessRequest["context"]): void;
  /** Whether the process is needed although no call runs, because clients wait for its notifications. */
  inUse?(): boolean;
  call(exchange: DialectCall): void;
  /** Returns false if the protocol has no cancel message; waiting for an acknowledgement is then useless. */
  cancel(id: string, reason: string): boolean;
  /** Discards a call whose answer is no longer needed. */
  abandon(id: string, error: BackplaneError): void;
  /** Asks the process to exit. */
  shutdown(): void;
  /** Called after the exit of a one-call process. Returns an error if its remaining output invalidates its answer. */
  trailingOutputError(): BackplaneError | null;
}

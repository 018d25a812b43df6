/** Request bodies, options and results that the contract does not define. */
import type {
  ApiKey,
  HarnessPolicy,
  Invocation,
  InvocationEvent,
  InvokeBody,
  JsonObject,
  PluginStatus,
  RiskContext,
  Run,
  WsServerOp,
} from "@backplane/contract";
import type { FollowOptions } from "../transport/follow.ts";
import type { CallOptions } from "../transport/requests.ts";

export interface ListOf<T> {
  items: T[];
  /** The value of `after` for the next page; null on the last page. */
  next: string | null;
}

export interface PageOptions {
  limit?: number;
  after?: string;
}

export interface CreatedKey {
  key: ApiKey;
  /** Null if the request is repeated with the same idempotency key, because a token is returned only once. */
  token: string | null;
}

export interface InvokeOptions extends CallOptions {
  /** Seconds to wait for the end, up to 60; true means 30. */
  wait?: number | true;
}

export type InvokeRequest = InvokeBody;

export type InvocationUpdate = InvocationEvent | { settled: Invocation };

export interface GatewayStatus {
  version: string;
  ready: boolean;
  uptime_s: number;
  caller: { actor: string; org_id: string; project_id: string | null; role: string; admin: boolean };
  /** The version of Node that the gateway runs on. */
  node: string;
  /** All but `ok` are null for a caller other than the admin, and while the store does not respond. */
  store: {
    ok: boolean;
    kind: "sqlite" | "postgres" | null;
    schema_version: number | null;
    bytes: number | null;
    last_backup_at: string | null;
  };
  invocations: { running: number; waiting_approval: number; queued: number };
  runner: {
    processes: number;
    /** Processes that wait for their single call. */
    prewarmed: number;
    running: number;
    held_back: {
      binding_id: string;
      package_id: string;
      failures: number;
      retry_at: number;
      last_error: string;
    }[];
    /** Running servers with their memory; empty for a caller other than the admin. */
    servers: {
      binding_id: string;
      package_id: string;
      pid: number;
      state: "launching" | "ready" | "stopping";
      calls: number;
      idle_ms: number;
      memory_bytes: number;
    }[];
  };
  sandbox: { enabled: boolean; available: boolean; reason: string };
}

export interface WorkspaceOption {
  /** Default `default`. */
  workspace?: string;
}

export interface MessageBody {
  text: string;
  attachments?: JsonObject[];
}

export type RunBody = ({ session_id: string; workspace?: string } | { chain_id: string }) & {
  input: MessageBody;
  strategy?: string;
  /** Selects the risk tolerance; default `background`. With `headless`, no approval is requested. */
  context?: RiskContext;
  /** Executes a harness instead of a turn of the agent loop. */
  harness?: HarnessBody;
};

/** Selects a binding or an export. `mode: "resume"` continues the execution `execution_id` from its last checkpoint. */
export interface HarnessBody {
  binding_id?: string;
  package_id?: string;
  export_id?: string;
  mode?: "start" | "resume";
  execution_id?: string;
  policy?: HarnessPolicy;
  timeout_ms?: number;
}

/** The message and its run are on disk. */
export interface MessageReceipt {
  entry_id: number;
  event_id: string;
  run_id: string;
}

export interface CompactionBody {
  session_id: string;
  workspace?: string;
  /** A binding id, an export id or `package_id/export_id`; `model` for the built-in summary. */
  compactor?: string;
  target_context?: string;
  target?: { max_input_tokens?: number; target_model?: string };
  policy?: { retain_system?: boolean; retain_open_tasks?: boolean };
}

export type ClientEvent = Extract<WsServerOp, { op: "event" }>["event"];

export interface SessionUpdate {
  event: ClientEvent;
  /** Null for events that are not on the tape, such as deltas. */
  entry_id: number | null;
}

/** `started` comes first unless the stream resumes after an entry; `ended` comes last. */
export type RunUpdate = { started: Run } | SessionUpdate | { ended: Run };

export interface WatchOptions extends Omit<FollowOptions, "after"> {
  /** Replays all entries after this one; by default only new events are sent. */
  since_entry?: number;
}

export interface PluginSwitchResult {
  name: string;
  enabled: boolean;
  trusted: boolean;
  status: PluginStatus;
}

/** An example plugin that comes with Backplane. */
export interface PluginExample {
  name: string;
  /** The folder on the host. */
  path: string;
  description: string;
}

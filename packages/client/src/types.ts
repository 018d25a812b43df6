/** Answers that are no rows of their own. Rows are the contract's. */
import type { ApiKey, Invocation, InvocationEvent, InvokeBody } from "@backplane/contract";

export interface ListOf<T> {
  items: T[];
  /** Pass it as `after` for the next page; null on the last. */
  next: string | null;
}

export interface PageOptions {
  limit?: number;
  after?: string;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Makes a create safe to repeat for 24 hours. */
  idempotency_key?: string;
}

export interface CreatedKey {
  key: ApiKey;
  /** Null when a repeated create was answered from memory: a token is shown once. */
  token: string | null;
}

export interface InvokeOptions extends CallOptions {
  /** Seconds to hold the line, up to 60; true means 30. */
  wait?: number | true;
}

export type InvokeRequest = InvokeBody;

export type InvocationUpdate = InvocationEvent | { settled: Invocation };

export interface GatewayStatus {
  version: string;
  ready: boolean;
  uptime_s: number;
  caller: { actor: string; org_id: string; project_id: string | null; role: string; admin: boolean };
  store: { ok: boolean };
  invocations: { running: number; waiting_approval: number; queued: number };
  runner: {
    processes: number;
    /** Those of them that wait for their one call. */
    prewarmed: number;
    running: number;
    held_back: {
      binding_id: string;
      package_id: string;
      failures: number;
      retry_at: number;
      last_error: string;
    }[];
  };
  sandbox: { enabled: boolean; available: boolean; reason: string };
}

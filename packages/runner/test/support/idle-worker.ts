/** A worker with a fake process, for decisions that depend on its state only. */
import { createTestLogger } from "@backplane/test-kit/test-logger";
import { type ActiveCall, Worker } from "../../src/pool/worker.ts";
import { WorkerRefusals } from "../../src/pool/worker-refusals.ts";
import type { PluginInstance } from "../../src/processes/plugin-instance.ts";

export interface IdleWorkerOptions {
  key?: string;
  binding_id?: string;
  pooled?: boolean;
  resident?: boolean;
  state?: PluginInstance["state"];
  pid?: number;
  idle_since?: number;
}

export function createIdleWorker(options: IdleWorkerOptions = {}): Worker {
  const { key = "key", binding_id = "bind_1", pooled = true, idle_since = 0 } = options;
  const subject = { pool_key: key, binding_id, package_id: "acme/x", digest: "d" };
  const calls: ActiveCall[] = [];
  const process = {
    state: options.state ?? "ready",
    pid: options.pid,
    confined: null,
    gone: Promise.resolve(),
  };
  const refusals = new WorkerRefusals(
    calls,
    [],
    subject,
    createTestLogger(() => {}),
  );
  return new Worker({
    process: process as unknown as PluginInstance,
    subject,
    key,
    pooled,
    resident: options.resident ?? false,
    calls,
    recent_secrets: [],
    refusals,
    idle_since,
    check: async () => {},
  });
}

export function createActiveCall(id: string): ActiveCall & { refusals: string[] } {
  const refusals: string[] = [];
  return {
    id,
    violations: 0,
    index: -1,
    has_answer: false,
    refused: ({ host }, shared) => refusals.push(`${host} ${shared}`),
    refusals,
  };
}

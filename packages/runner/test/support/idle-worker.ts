/** A worker whose process is only what it says of itself: for what is decided by that alone. */
import { logTo } from "@backplane/test-kit/log-to";
import { type Tenant, Worker } from "../../src/pool/worker.ts";
import { WorkerRefusals } from "../../src/pool/worker-refusals.ts";
import type { Counterpart } from "../../src/processes/plugin-instance.ts";

export interface Standing {
  key?: string;
  binding_id?: string;
  pooled?: boolean;
  state?: Counterpart["state"];
  pid?: number;
  idle_since?: number;
}

export function standingWorker(standing: Standing = {}): Worker {
  const { key = "key", binding_id = "bind_1", pooled = true, idle_since = 0 } = standing;
  const subject = { pool_key: key, binding_id, package_id: "acme/x", digest: "d" };
  const calls: Tenant[] = [];
  const process = {
    state: standing.state ?? "ready",
    pid: standing.pid,
    confined: null,
    gone: Promise.resolve(),
  };
  const refusals = new WorkerRefusals(
    calls,
    [],
    subject,
    logTo(() => {}),
  );
  return new Worker({
    process: process as unknown as Counterpart,
    subject,
    key,
    pooled,
    resident: false,
    calls,
    recent_secrets: [],
    refusals,
    idle_since,
    check: async () => {},
  });
}

export function tenant(id: string): Tenant & { heard: string[] } {
  const heard: string[] = [];
  return {
    id,
    violations: 0,
    place: -1,
    refused: ({ host }, shared) => heard.push(`${host} ${shared}`),
    heard,
  };
}

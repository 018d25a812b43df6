/** The default policy of a host. */
import {
  APPROVAL_TIMEOUT_MS,
  ARTIFACT_LIMITS,
  FANOUT_LIMITS,
  INVOCATION_LIMITS,
  PLUGIN_FAILURES,
  SUBAGENT_LIMITS,
  WIRE_LIMITS,
} from "@backplane/contract";
import type { HostPolicy } from "./deps.ts";

const DAY_MS = 86_400_000;

export function hostPolicy(override: Partial<HostPolicy> = {}): HostPolicy {
  return {
    max_timeout_ms: INVOCATION_LIMITS.host_max_timeout_ms,
    input_bytes: WIRE_LIMITS.frame_bytes,
    artifact_bytes: ARTIFACT_LIMITS.artifact_bytes,
    queue_per_binding: INVOCATION_LIMITS.queue_per_binding,
    max_running: 10_000,
    max_waiting: 1_000,
    approval_timeout_ms: APPROVAL_TIMEOUT_MS,
    retry: { max_attempts: INVOCATION_LIMITS.max_attempts, base_ms: 200 },
    recovery: { interval_ms: 15_000, node_ttl_ms: 30_000 },
    missing_files_ms: 300_000,
    store_wait_ms: 600_000,
    resume_turns: true,
    plugin_failures: PLUGIN_FAILURES,
    subagents: SUBAGENT_LIMITS,
    watchers: { heartbeat_ms: FANOUT_LIMITS.heartbeat_ms, reap_ms: FANOUT_LIMITS.reap_ms },
    deliveries: { concurrency: 64, per_binding: 4, max_attempts: 10, base_ms: 1_000, max_ms: 3_600_000 },
    max_depth: 8,
    require_signature: ["oci", "marketplace"],
    retention: {
      done_jobs_ms: 7 * DAY_MS,
      dead_jobs_ms: 30 * DAY_MS,
      outbox_ms: 7 * DAY_MS,
      progress_ms: 30 * DAY_MS,
      blobs_ms: DAY_MS,
      artifacts_ms: 30 * DAY_MS,
    },
    ...override,
  };
}

/** Starts a harness, for the first time or again, and decides whether it may start again after it failed. */

import {
  ERROR_CODES,
  HARNESS_LIMITS,
  isErrorCode,
  type JsonObject,
  type PluginExport,
} from "@backplane/contract";
import type { InvocationRow, RunOutcome } from "@backplane/ports";
import { type CallEnding, failedWith } from "../calls/ending.ts";
import type { LiveCall } from "../calls/live-calls.ts";
import type { HarnessDeclaration } from "../open/harness-input.ts";
import { getEventLog } from "./call-listener.ts";
import type { Door } from "./door.ts";
import { buildRestartBody, buildResumeBody, buildStartBody } from "./harness-body.ts";

export type HarnessStartResult =
  | { kind: "started"; body: JsonObject }
  | { kind: "refused"; ending: CallEnding }
  /** Another call owns the execution now. */
  | { kind: "lost"; body?: never };

export function isHarness(row: Pick<InvocationRow, "export_kind" | "within">): boolean {
  return row.export_kind === "harness" && row.within !== null;
}

export async function startHarness(
  door: Door,
  live: LiveCall,
  item: PluginExport,
): Promise<HarnessStartResult> {
  const { row } = live;
  const { fidelity } = (item as HarnessDeclaration).harness;
  const new_execution = live.execution;
  live.execution = null;
  publishEvents(door, live);
  if (new_execution !== null) {
    const body =
      "resumes" in new_execution.write
        ? await buildResumeBody(door, live, fidelity, new_execution.write.resumes)
        : buildStartBody(new_execution);
    return announceStart(door, live, body);
  }
  const execution = await door.deps.store.executions.countStart(row.execution_id, row.id);
  if (execution === null) return { kind: "lost" };
  live.starts = execution.starts;
  if (execution.starts > HARNESS_LIMITS.starts_without_checkpoint) {
    const message = `The harness was started ${execution.starts - 1} times without a new checkpoint and did not end.`;
    return { kind: "refused", ending: failedWith("crashed", message) };
  }
  if (execution.deadline !== null && execution.deadline <= door.deps.clock.now()) {
    const message = `The execution ${execution.id} has reached its max_time_ms.`;
    return { kind: "refused", ending: failedWith("timeout", message) };
  }
  // Only a harness whose call awaited approval across a restart has never been started before.
  const never_started = execution.starts === 1 && execution.checkpoints === 0;
  const body = never_started
    ? buildRestartBody(execution)
    : await buildResumeBody(door, live, fidelity, execution);
  return announceStart(door, live, body);
}

function announceStart(door: Door, live: LiveCall, body: JsonObject): HarnessStartResult {
  door.harness_tape.publishStart(live.row, body.mode as string);
  return { kind: "started", body };
}

function publishEvents(door: Door, live: LiveCall): void {
  if (live.publishes_events) return;
  live.publishes_events = true;
  getEventLog(door.deps, live).subscribe((event) => door.harness_tape.publishEvent(live.row, event));
}

/**
 * Whether the harness reported a retryable failure, or its process failed with a retryable error such as a crash. A
 * restarted harness finds its child runs by their keys, so no run is started twice.
 */
export function mayRestart({ status, error }: RunOutcome): boolean {
  if (status === "retryable_failure") return true;
  const code = error?.code;
  if (status !== "failed" || code === "timeout" || code === "crash_loop" || !isErrorCode(code)) return false;
  return ERROR_CODES[code].family === "wire" && ERROR_CODES[code].retryable;
}

/** A gateway that stops leaves its harnesses to the gateway that recovers them from their last checkpoint. */
export function isInterrupted(live: LiveCall, outcome?: RunOutcome): boolean {
  return live.stopped === "shutdown" && isHarness(live.row) && outcome?.status !== "succeeded";
}

/**
 * Stores the checkpoints of a running harness. An event that follows a checkpoint is written and published only after
 * the checkpoint was stored or refused, so that a watcher never sees work that builds on a checkpoint in flight.
 */

import { type HarnessCheckpoint, INVOCATION_LIMITS, type JsonObject } from "@backplane/contract";
import type { LiveCall } from "../calls/live-calls.ts";
import type { PluginCallEvent } from "../calls/redact.ts";
import type { HarnessDeclaration } from "../open/harness-input.ts";
import type { Door } from "./door.ts";
import { findCheckpointIssue } from "./harness-body.ts";

export interface CheckpointWriter {
  write(event: PluginCallEvent): void;
  /** Resolves when all events so far are written. */
  drained(): Promise<void>;
}

export function createCheckpointWriter(
  door: Pick<Door, "deps" | "store_wait">,
  live: LiveCall,
  item: HarnessDeclaration,
  write: (event: PluginCallEvent) => void,
): CheckpointWriter {
  const { executions } = door.deps.store;
  const { row } = live;
  const { fidelity } = item.harness;
  let queued_events: PluginCallEvent[] = [];
  let draining: Promise<void> | null = null;

  async function processEvent(event: PluginCallEvent): Promise<void> {
    if (event.type !== "checkpoint") return write(event);
    const checkpoint = (event as JsonObject).checkpoint;
    const issue = findCheckpointIssue(checkpoint, fidelity);
    if (issue !== null) {
      live.violations++;
      write({ type: "checkpoint_refused", reason: issue });
      return;
    }
    const call = { invocation_id: row.id, fence: row.fence };
    try {
      const saved = await door.store_wait.run("a checkpoint", () =>
        executions.saveCheckpoint(row.execution_id, call, checkpoint as unknown as HarnessCheckpoint),
      );
      // The call has ended or continues on another gateway. Its record must not get further events from here.
      if (!saved) live.lost = true;
      else {
        live.starts = 0;
        write(event);
      }
    } catch (error) {
      door.deps.log.error({ err: error, invocation_id: row.id }, "a checkpoint could not be stored");
      write({ type: "checkpoint_refused", reason: "the gateway could not store it" });
    }
  }

  async function drain(): Promise<void> {
    for (let event = queued_events.shift(); event !== undefined; event = queued_events.shift()) {
      if (live.lost) queued_events = [];
      else await processEvent(event);
    }
    draining = null;
  }

  return {
    write(event) {
      // The record gets no further events. A drain that ends immediately would clear `draining` before it is set.
      if (live.lost) return;
      if (draining === null && event.type !== "checkpoint") return write(event);
      // The event log keeps no more events than this, so further ones would only take memory.
      if (queued_events.length >= INVOCATION_LIMITS.events_kept && event.type !== "checkpoint") return;
      queued_events.push(event);
      draining ??= drain();
    },
    // One drain writes everything that was queued before it ended, so there is no need to wait for a later one.
    drained: async () => {
      await draining;
    },
  };
}

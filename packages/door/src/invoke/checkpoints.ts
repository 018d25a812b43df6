/**
 * Stores the checkpoints of a running harness. An event that follows a checkpoint is written and published only after the
 * checkpoint is on disk, so a watcher never sees work that a resumed harness would repeat.
 */

import { type HarnessCheckpoint, INVOCATION_LIMITS, type JsonObject } from "@backplane/contract";
import type { LiveCall } from "../calls/live-calls.ts";
import type { PluginCallEvent } from "../calls/redact.ts";
import type { BoundHarness } from "../harness/harness-input.ts";
import type { Door } from "./door.ts";
import { checkpointIssue } from "./harness-body.ts";

export interface CheckpointedEvents {
  write(event: PluginCallEvent): void;
  /** Resolves when all events so far are written. */
  drained(): Promise<void>;
}

export function storeCheckpoints(
  door: Pick<Door, "deps" | "store_wait">,
  live: LiveCall,
  item: BoundHarness,
  write: (event: PluginCallEvent) => void,
): CheckpointedEvents {
  const { executions } = door.deps.store;
  const { row } = live;
  const { fidelity } = item.harness;
  let waiting: PluginCallEvent[] = [];
  let draining: Promise<void> | null = null;

  async function take(event: PluginCallEvent): Promise<void> {
    if (event.type !== "checkpoint") return write(event);
    const checkpoint = (event as JsonObject).checkpoint;
    const issue = checkpointIssue(checkpoint, fidelity);
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
      // Another gateway continues the execution. Its record must not show events that this call adds.
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
    for (let event = waiting.shift(); event !== undefined; event = waiting.shift()) {
      if (live.lost) waiting = [];
      else await take(event);
    }
    draining = null;
  }

  return {
    write(event) {
      if (draining === null && event.type !== "checkpoint") return write(event);
      // The tape keeps no more events than this, so further ones would only take memory.
      if (waiting.length >= INVOCATION_LIMITS.events_kept && event.type !== "checkpoint") return;
      waiting.push(event);
      draining ??= drain();
    },
    drained: async () => {
      while (draining !== null) await draining;
    },
  };
}

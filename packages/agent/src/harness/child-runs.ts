/**
 * The runs that a harness starts through the API, and the child runs of those runs. All of them count against the
 * limits of the execution. A harness gives each of its own runs a key, so that a resumed harness starts no run twice.
 */

import { BackplaneError } from "@backplane/contract";
import type { Door } from "@backplane/door";
import type { Caller, IdempotencyClaim, SessionKey } from "@backplane/ports";
import type { TurnRequest } from "../loop/begin-turn.ts";
import { executionOf } from "../loop/run-turn.ts";
import { findCallingRow, requireSessionSupport } from "./session-access.ts";

/** The part of a turn request that links a run to the call that starts it. */
type ChildRunLink = Pick<TurnRequest, "trigger" | "parent_run_id" | "execution">;

/** Returns the field `execution` of a run that the caller starts. `nested` counts the sub-agents in between. */
export function executionField(caller: Caller, nested = 0): Pick<TurnRequest, "execution"> {
  const id = executionOf(caller);
  return id === null ? {} : { execution: { id, depth: (caller.delegation?.depth ?? 0) + 1 + nested } };
}

/** Returns null if the run is not started by a plugin. */
export async function linkChildRun(
  door: Door,
  caller: Caller,
  key: SessionKey,
  once: IdempotencyClaim | undefined,
): Promise<ChildRunLink | null> {
  const row = await findCallingRow(door, caller);
  if (row === null) return null;
  const trigger = row.export_kind === "harness" ? "harness" : "api";
  if (trigger === "harness") {
    requireKey(once);
    await requireSessionSupport(door, row, key, "start a run");
  }
  return {
    trigger,
    ...(row.run_id === null ? {} : { parent_run_id: row.run_id }),
    ...executionField(caller),
  };
}

function requireKey(once: IdempotencyClaim | undefined): void {
  if (once !== undefined) return;
  throw new BackplaneError("request.invalid", "A harness must send a key for each run that it starts.", {
    fix: "Send an Idempotency-Key that is the same when the harness is resumed, such as the name of the step.",
  });
}

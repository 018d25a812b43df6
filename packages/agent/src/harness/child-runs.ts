/**
 * The runs that a plugin starts with its token. Runs that a harness or one of its tools starts, and the child runs of
 * those runs, count against the limits of the execution. A harness gives each of its own runs a key, so that a resumed
 * harness starts no run twice.
 */

import { BackplaneError } from "@backplane/contract";
import type { Door } from "@backplane/door";
import type { Caller, IdempotencyClaim } from "@backplane/ports";
import type { ChildRunLink, TurnRequest } from "../loop/begin-turn.ts";
import { executionOf } from "../loop/run-turn.ts";
import { findCallingRow, requireSessionSupport } from "./session-access.ts";

/** Returns the field `execution` of a run that the caller starts. `nested` counts the sub-agents in between. */
export function buildExecutionField(caller: Caller, nested = 0): Pick<TurnRequest, "execution"> {
  const id = executionOf(caller);
  return id === null ? {} : { execution: { id, depth: (caller.delegation?.depth ?? 0) + 1 + nested } };
}

/**
 * Links the turn that a plugin starts to the plugin's call, whether it uses POST /v1/runs or a message over HTTP or /ws.
 * Returns null if no plugin starts the turn, and for a sub-agent, which the parent turn has linked. Throws if the plugin
 * may not start the turn.
 */
export async function linkChildRun(
  door: Door,
  { caller, key, once, trigger, subagent }: TurnRequest,
): Promise<ChildRunLink | null> {
  if (subagent !== undefined) return null;
  const row = await findCallingRow(door, caller);
  if (row === null) return null;
  const link = {
    ...(row.run_id === null ? {} : { parent_run_id: row.run_id }),
    ...buildExecutionField(caller),
  };
  // The rights below were checked when the plugin started the turn that the approved call belongs to.
  if (trigger === "approval") return { trigger, ...link };
  requireRunScope(caller);
  if (row.export_kind !== "harness") return { trigger: "api", ...link };
  requireKey(once);
  await requireSessionSupport(door, row, key, "start a run in");
  return { trigger: "harness", ...link };
}

function requireRunScope({ delegation }: Caller): void {
  if (delegation === undefined || delegation.scopes.includes("runs:write")) return;
  throw new BackplaneError(
    "auth.scope",
    "The calling invocation may not start turns, because it was not granted the scope runs:write.",
    {
      details: { needs: "runs:write" },
      fix: "Add runs:write to gateway_api_scopes and start the turn with POST /v1/runs. A hosted harness never gets this scope.",
    },
  );
}

function requireKey(once: IdempotencyClaim | undefined): void {
  if (once !== undefined) return;
  throw new BackplaneError(
    "request.invalid",
    "A harness must send an Idempotency-Key for each run that it starts.",
    {
      fix: "Use POST /v1/runs with an Idempotency-Key that is the same when the harness is resumed, such as the name of the step.",
    },
  );
}

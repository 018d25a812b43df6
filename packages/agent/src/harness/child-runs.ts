/**
 * The runs that a harness starts through the API, and the runs that those start. All of them count against the limits of
 * the execution, and a harness gives each of its own runs a key, so that a resumed harness starts none of them twice.
 */

import { BackplaneError, type PluginExport } from "@backplane/contract";
import type { Door } from "@backplane/door";
import type { Caller, IdempotencyClaim, InvocationRow, SessionKey } from "@backplane/ports";
import type { TurnRequest } from "../loop/begin-turn.ts";
import { executionOf } from "../loop/run-turn.ts";

/** The part of a turn request that links a run to the call that starts it. */
type ChildRunLink = Pick<TurnRequest, "trigger" | "parent_run_id" | "execution">;

/** `nested` counts the sub-agents between the call and the run. */
export function executionUse(caller: Caller, nested = 0): Pick<TurnRequest, "execution"> {
  const id = executionOf(caller);
  return id === null ? {} : { execution: { id, depth: (caller.delegation?.depth ?? 0) + 1 + nested } };
}

/** Null if no plugin starts the run. */
export async function linkChildRun(
  door: Door,
  caller: Caller,
  key: SessionKey,
  once: IdempotencyClaim | undefined,
): Promise<ChildRunLink | null> {
  const { delegation, scope } = caller;
  if (delegation === undefined) return null;
  const { invocation_id } = delegation;
  const row =
    door.live.get(invocation_id)?.row ?? (await door.deps.store.invocations.get(scope, invocation_id));
  if (row === null) return null;
  const trigger = row.export_kind === "harness" ? "harness" : "api";
  if (trigger === "harness") {
    requireKey(once);
    await requireSupport(door, row, key);
  }
  return {
    trigger,
    ...(row.run_id === null ? {} : { parent_run_id: row.run_id }),
    ...executionUse(caller),
  };
}

function requireKey(once: IdempotencyClaim | undefined): void {
  if (once !== undefined) return;
  throw new BackplaneError("request.invalid", "A harness names each run that it starts.", {
    fix: "Send an Idempotency-Key that is the same when the harness is resumed, such as the name of the step.",
  });
}

/** A run on the session that the harness works for needs `continue`; a run elsewhere needs `branch_session`. */
async function requireSupport(door: Door, row: InvocationRow, key: SessionKey): Promise<void> {
  const bound = await door.bindings.get(row, row.binding_id);
  const item = bound?.package.manifest.exports.find(({ id }) => id === row.export_id);
  if (item?.kind !== "harness") return;
  const needs: Extract<PluginExport, { kind: "harness" }>["harness"]["supports"][number] =
    row.session_id === key.session_id ? "continue" : "branch_session";
  if (item.harness.supports.includes(needs)) return;
  throw new BackplaneError(
    "policy.denied",
    `The harness ${row.export_id} does not name ${needs} in supports, so it may not start a run on the session ${key.session_id}.`,
  );
}

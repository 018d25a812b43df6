/** The sessions and chains that a harness may write to, according to `supports` in its manifest. */

import { BackplaneError, type Execution, type PluginExport } from "@backplane/contract";
import { type Door, findSuccessor } from "@backplane/door";
import type { Caller, InvocationRow, SessionKey } from "@backplane/ports";
import { DEFAULT_WORKSPACE } from "@backplane/session";

type Support = Extract<PluginExport, { kind: "harness" }>["harness"]["supports"][number];

/** The call that the token of the caller belongs to; null if the caller is not a plugin. */
export async function findCallingRow(
  door: Door,
  { delegation, scope }: Caller,
): Promise<InvocationRow | null> {
  if (delegation === undefined) return null;
  const { invocation_id } = delegation;
  return door.live.get(invocation_id)?.row ?? (await door.deps.store.invocations.get(scope, invocation_id));
}

/**
 * Writing to the session that the harness works for requires `continue`, to any other session `branch_session`.
 * `action` ends with a preposition, such as "start a run in".
 */
export async function requireSessionSupport(
  door: Door,
  row: InvocationRow,
  key: SessionKey,
  action: string,
): Promise<void> {
  if (row.export_kind !== "harness") return;
  const execution = await door.deps.store.executions.get(row, row.execution_id);
  const support = execution !== null && isTarget(execution.target, key) ? "continue" : "branch_session";
  await requireSupport(door, row, support, `${action} session ${key.session_id}`);
}

/** Sessions of different workspaces may have the same id. */
export function isTarget(
  { session_id, workspace = DEFAULT_WORKSPACE }: Execution["target"],
  key: SessionKey,
): boolean {
  return session_id === key.session_id && workspace === key.workspace;
}

/** `action` completes "it may not …" in the message. */
export async function requireSupport(
  door: Door,
  row: InvocationRow,
  support: Support,
  action: string,
): Promise<void> {
  if (row.export_kind !== "harness") return;
  const bound = (await door.bindings.get(row, row.binding_id)) ?? (await findSuccessor(door.bindings, row));
  const bound_export = bound?.package.manifest.exports.find(({ id }) => id === row.export_id);
  if (bound_export?.kind !== "harness")
    throw new BackplaneError(
      "policy.denied",
      `The harness ${row.export_id} is no longer bound, so it may not ${action}.`,
    );
  if (bound_export.harness.supports.includes(support)) return;
  throw new BackplaneError(
    "policy.denied",
    `The harness ${row.export_id} does not list ${support} in supports, so it may not ${action}.`,
  );
}

/** The sessions and chains that a harness may write to, according to `supports` in its manifest. */

import { BackplaneError, type PluginExport } from "@backplane/contract";
import type { Door } from "@backplane/door";
import type { Caller, InvocationRow, SessionKey } from "@backplane/ports";

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

/** Writing to the session that the harness works for requires `continue`, to any other session `branch_session`. */
export async function requireSessionSupport(
  door: Door,
  row: InvocationRow,
  { session_id }: SessionKey,
  action: string,
): Promise<void> {
  const support = row.session_id === session_id ? "continue" : "branch_session";
  await requireSupport(door, row, support, `${action} on the session ${session_id}`);
}

/** `action` completes "it may not …" in the message. */
export async function requireSupport(
  door: Door,
  row: InvocationRow,
  support: Support,
  action: string,
): Promise<void> {
  if (row.export_kind !== "harness") return;
  const bound = await door.bindings.get(row, row.binding_id);
  const item = bound?.package.manifest.exports.find(({ id }) => id === row.export_id);
  if (item?.kind !== "harness" || item.harness.supports.includes(support)) return;
  throw new BackplaneError(
    "policy.denied",
    `The harness ${row.export_id} does not list ${support} in supports, so it may not ${action}.`,
  );
}

/** The session, chain, run and trace of a call, which its nested calls and its events inherit (contract.ids). */

import type { InvokeBody } from "@backplane/contract";
import type { Caller, InvocationRow, TraceIds } from "@backplane/ports";

export function callIdsOf({
  session_id,
  chain_id,
  run_id,
  trace_id,
}: Pick<InvocationRow, "session_id" | "chain_id" | "run_id" | "trace_id">): TraceIds {
  const ids: TraceIds = { trace_id };
  if (session_id !== null) ids.session_id = session_id;
  if (chain_id !== null) ids.chain_id = chain_id;
  if (run_id !== null) ids.run_id = run_id;
  return ids;
}

/**
 * A nested call belongs to the session, chain and run of the call that made it, unless it names others. It always stays
 * in the trace of that call, so that a plugin cannot detach its calls from the work that caused them.
 */
export function resolveCallIds(
  { delegation }: Pick<Caller, "delegation">,
  body: Pick<InvokeBody, keyof TraceIds>,
): Pick<InvokeBody, keyof TraceIds> {
  const inherited = delegation?.ids;
  if (inherited === undefined) return body;
  const named = body.session_id ?? body.chain_id ?? body.run_id;
  if (named === undefined) return inherited;
  return { ...body, trace_id: inherited.trace_id };
}

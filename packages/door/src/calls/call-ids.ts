/** The session, chain, run and trace of a call, which its nested calls and its events inherit (contract.ids). */

import { ID_PREFIXES, type InvokeBody, isId } from "@backplane/contract";
import type { Caller, InvocationRow, TraceIds } from "@backplane/ports";
import { DEFAULT_WORKSPACE } from "@backplane/session";

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

/** The workspace of the call's session. A call that a client or a plugin makes directly is in the default workspace. */
export function workspaceOfCall({ turn, harness_run }: Pick<InvocationRow, "turn" | "harness_run">): string {
  return (turn ?? harness_run)?.workspace ?? DEFAULT_WORKSPACE;
}

/**
 * A nested call belongs to the session, chain and run of the call that made it, unless it specifies others. It always
 * stays in the trace of that call, so that a plugin cannot detach its calls from the work that caused them.
 */
export function resolveCallIds(
  { delegation }: Pick<Caller, "delegation">,
  body: Pick<InvokeBody, keyof TraceIds>,
): Pick<InvokeBody, keyof TraceIds> {
  const inherited = delegation?.ids;
  if (inherited === undefined) return body;
  const specified_id = body.session_id ?? body.chain_id ?? body.run_id;
  if (specified_id === undefined) return inherited;
  return { ...body, trace_id: inherited.trace_id };
}

const INVOCATION = `${ID_PREFIXES.invocation}_`;
const TRACE = `${ID_PREFIXES.trace}_`;

/**
 * The id of the trace that a call starts. It has the digits of the call's id, so that findTraceStart finds the call
 * without an index entry for each call.
 */
export function traceOf(invocation_id: string): string {
  // Joined rather than concatenated, for the reason given in createIdSource.
  return [TRACE, invocation_id.slice(INVOCATION.length)].join("");
}

/** The id of the call that started the trace; null if the trace id was not derived from a call id. */
export function findTraceStart(trace_id: string): string | null {
  return isId("trace", trace_id) ? INVOCATION + trace_id.slice(TRACE.length) : null;
}

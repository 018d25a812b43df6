/**
 * Decides which session, chain and run ids a client may pass with a call (sec.session-ids). The ids go into the record,
 * to the plugin and into the approval that a person sees, so the caller must have the right to use them. The id of a
 * session that does not exist is allowed as a label, because it gives access to nothing.
 */

import { BackplaneError, type InvokeBody } from "@backplane/contract";
import type { Caller, InvocationRow, Store } from "@backplane/ports";
import { checkClientSessionId, DEFAULT_WORKSPACE } from "@backplane/session";
import type { LiveCalls } from "../calls/live-calls.ts";

export interface SessionIdsDeps {
  store: Pick<Store, "sessions" | "runs" | "invocations">;
  live: LiveCalls;
}

type SessionIds = Pick<InvokeBody, "session_id" | "chain_id" | "run_id">;

/** Returns null instead of a promise if the call has none of these ids, as is usual (benchmark http.invoke). */
export function authorizeSessionIds(
  deps: SessionIdsDeps,
  caller: Caller,
  ids: SessionIds,
): Promise<void> | null {
  const { session_id, chain_id, run_id } = ids;
  if (session_id === undefined && chain_id === undefined && run_id === undefined) return null;
  return checkSessionIds(deps, caller, ids);
}

async function checkSessionIds(
  deps: SessionIdsDeps,
  caller: Caller,
  { session_id, chain_id, run_id }: SessionIds,
) {
  const { sessions, runs } = deps.store;
  const { scope } = caller;
  if (session_id !== undefined) checkClientSessionId(session_id);
  const own_call = await readOwnCall(deps, caller);
  let target = session_id === undefined ? null : { session_id, workspace: DEFAULT_WORKSPACE };
  if (chain_id !== undefined && chain_id !== own_call?.chain_id) {
    const chain = await sessions.getChain(scope, chain_id);
    if (chain === null || !isInSession(chain, target)) throw new BackplaneError("chain.not_found");
    target = chain;
  }
  if (run_id !== undefined && run_id !== own_call?.run_id) {
    const run = await runs.get(scope, run_id);
    if (run === null || !isInSession(run, target)) throw new BackplaneError("run.not_found");
    target = run;
  }
  if (target === null || target.session_id === own_call?.session_id || mayUseSessions(caller)) return;
  if ((await sessions.get({ scope, ...target })) === null) return;
  throw new BackplaneError("auth.scope", `This caller may not use the session ${target.session_id}.`, {
    details: { needs: "sessions:write" },
    fix: "Leave out session_id, chain_id and run_id, or use a key with sessions:write.",
  });
}

/** The call that a delegated token belongs to. A plugin may use the session, chain and run of its own call. */
async function readOwnCall({ live, store }: SessionIdsDeps, { delegation, scope }: Caller) {
  if (delegation === undefined) return null;
  const { invocation_id } = delegation;
  const row: InvocationRow | null =
    live.get(invocation_id)?.row ?? (await store.invocations.get(scope, invocation_id));
  return row;
}

/** If the call specifies a session, chains and runs of other sessions are treated as missing. */
function isInSession({ session_id }: { session_id: string }, target: { session_id: string } | null): boolean {
  return target === null || target.session_id === session_id;
}

function mayUseSessions({ admin, scopes, delegation }: Caller): boolean {
  if (delegation !== undefined) return delegation.scopes.some((scope) => SESSION_SCOPES.has(scope));
  return admin || scopes.includes("sessions:write");
}

const SESSION_SCOPES: ReadonlySet<string> = new Set(["sessions:write", "runs:write"]);

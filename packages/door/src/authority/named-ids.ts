/**
 * Which sessions, chains and runs a caller from outside may name in a call (sec.session-ids). What it names goes on the
 * record, to the plugin and into the question that a person is asked, so it has to be the caller's to use. A session id
 * that no session has is a label of the caller's own: nothing can be reached by it.
 */

import { BackplaneError, type InvokeBody } from "@backplane/contract";
import type { Caller, InvocationRow, Store } from "@backplane/ports";
import { checkClientSessionId, DEFAULT_WORKSPACE } from "@backplane/session";
import type { LiveCalls } from "../calls/live.ts";

export interface NamedIdsDeps {
  store: Pick<Store, "sessions" | "runs" | "invocations">;
  live: LiveCalls;
}

type Named = Pick<InvokeBody, "session_id" | "chain_id" | "run_id">;

/** Null where nothing is named, as in nearly every call. */
export function requireNamedIds(deps: NamedIdsDeps, caller: Caller, named: Named): Promise<void> | null {
  const { session_id, chain_id, run_id } = named;
  if (session_id === undefined && chain_id === undefined && run_id === undefined) return null;
  return check(deps, caller, named);
}

async function check(deps: NamedIdsDeps, caller: Caller, { session_id, chain_id, run_id }: Named) {
  const { sessions, runs } = deps.store;
  const { scope } = caller;
  if (session_id !== undefined) checkClientSessionId(session_id);
  const own = await ownCall(deps, caller);
  let of = session_id === undefined ? null : { session_id, workspace: DEFAULT_WORKSPACE };
  if (chain_id !== undefined && chain_id !== own?.chain_id) {
    const chain = await sessions.chain(scope, chain_id);
    if (chain === null || !belongs(chain, of)) throw new BackplaneError("chain.not_found");
    of = chain;
  }
  if (run_id !== undefined && run_id !== own?.run_id) {
    const run = await runs.get(scope, run_id);
    if (run === null || !belongs(run, of)) throw new BackplaneError("run.not_found");
    of = run;
  }
  if (of === null || of.session_id === own?.session_id || mayUseSessions(caller)) return;
  if ((await sessions.get({ scope, ...of })) === null) return;
  throw new BackplaneError("auth.scope", `The session ${of.session_id} is not this caller's to name.`, {
    details: { needs: "sessions:write" },
    fix: "Leave out session_id, chain_id and run_id, or use a key with sessions:write.",
  });
}

/** The call that a delegated token belongs to: its own session, chain and run are its to name. */
async function ownCall({ live, store }: NamedIdsDeps, { delegation, scope }: Caller) {
  if (delegation === undefined) return null;
  const { invocation_id } = delegation;
  const row: InvocationRow | null =
    live.get(invocation_id)?.row ?? (await store.invocations.get(scope, invocation_id));
  return row;
}

/** A chain or run of another session than the one that is named does not exist there. */
function belongs({ session_id }: { session_id: string }, named: { session_id: string } | null): boolean {
  return named === null || named.session_id === session_id;
}

function mayUseSessions({ admin, scopes, delegation }: Caller): boolean {
  if (delegation !== undefined) return delegation.scopes.some((scope) => SESSION_SCOPES.has(scope));
  return admin || scopes.includes("sessions:write");
}

const SESSION_SCOPES: ReadonlySet<string> = new Set(["sessions:write", "runs:write"]);

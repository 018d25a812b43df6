/**
 * From a token to a caller. API keys are asked of the store every time, so a revoked one is dead at once; a
 * delegated token lives exactly as long as its invocation runs.
 */

import { timingSafeEqual } from "node:crypto";
import { BackplaneError, type DelegationScope, isTerminal, type KeyScope } from "@backplane/contract";
import type { Caller, InvocationRow, KernelDeps } from "@backplane/ports";
import { DELEGATION_PREFIX, tokenHash } from "@backplane/registry";
import type { Authority } from "../authority/authority.ts";
import type { LiveCalls } from "../calls/live.ts";

export async function authenticate(
  deps: KernelDeps,
  live: LiveCalls,
  authority: Authority,
  token: string,
  proof?: string,
): Promise<Caller> {
  const hash = tokenHash(token);
  if (!token.startsWith(DELEGATION_PREFIX)) return await byKey(deps, hash);
  const caller = await delegated(deps, live, hash, proof);
  // A call that runs on is no way around a key that was revoked meanwhile.
  if ((await authority.revocationOf(caller)) !== null) throw new BackplaneError("auth.invalid");
  return caller;
}

async function byKey(deps: KernelDeps, hash: string): Promise<Caller> {
  const key = await deps.store.keys.byHash(hash);
  if (key === null || key.revoked_at !== null) throw new BackplaneError("auth.invalid");
  if (key.expires_at !== null && Date.parse(key.expires_at) <= deps.clock.now()) {
    throw new BackplaneError("auth.invalid");
  }
  return {
    actor: key.id,
    scope: { org_id: key.org_id, project_id: key.project_id },
    role: key.role,
    scopes: key.scopes,
    admin: key.scopes.includes("admin"),
    ...(key.expires_at === null ? {} : { expires_at: key.expires_at }),
  };
}

async function delegated(
  deps: KernelDeps,
  live: LiveCalls,
  hash: string,
  proof: string | undefined,
): Promise<Caller> {
  const token = await deps.store.delegations.byHash(hash);
  if (token === null) throw new BackplaneError("auth.invalid");
  const { scope, invocation_id } = token;
  const call = live.get(invocation_id);
  // A call that runs here ends by its own, monotonic deadline, which no jump of the wall clock moves.
  if (call === undefined && token.expires_at <= deps.clock.now()) throw new BackplaneError("auth.invalid");
  const row = call?.row ?? (await deps.store.invocations.get(scope, invocation_id));
  const over = row === null || call?.stage === "settling" || isTerminal(row.status);
  const caller = over ? null : callerOf(row, token.scopes);
  if (row === null || caller === null) throw new BackplaneError("auth.invalid");
  if (!cameFromProcess(deps, row, call !== undefined, proof)) {
    throw new BackplaneError(
      "auth.invalid",
      "This token is accepted only from the process of its own call.",
      {
        fix: "Call the gateway from inside the plugin, by the gateway.base_url that it is told.",
      },
    );
  }
  return caller;
}

/**
 * A confined process reaches the gateway by its own listeners and no other way, so its token from anywhere else was
 * carried out of the sandbox. A process that is not confined has no listeners: there the token is all there is.
 */
function cameFromProcess(
  { runner }: Pick<KernelDeps, "runner">,
  { id, grant, class: runs_as }: InvocationRow,
  here: boolean,
  proof: string | undefined,
): boolean {
  if (here) {
    const expected = runner.listenerProof?.(id) ?? null;
    return expected === null || (proof !== undefined && sameText(proof, expected));
  }
  // The call runs on another gateway, and the listeners of its process lead there.
  return runs_as === "inline" || grant?.host === true || !runner.health().sandbox.enabled;
}

function sameText(a: string, b: string): boolean {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}

/** A call as the caller of others: inside its own grant. Null for one that was never granted anything. */
export function callerOf(
  { id, org_id, project_id, grant, effect_class, delivery_id, depth }: InvocationRow,
  scopes: readonly DelegationScope[] = grant?.gateway_api_scopes ?? [],
): Caller | null {
  if (grant === null) return null;
  return {
    actor: id,
    scope: { org_id, project_id },
    // What only reads may not write through a tool that it calls.
    role: effect_class === "read_only" ? "guest" : "user",
    scopes: scopes.includes("tools:invoke") ? TOOL_CALLER : NOTHING,
    admin: false,
    delegation: { invocation_id: id, scopes, grant, delivery_id, depth },
  };
}

/** Its own invocations only: the invocations service lets a delegated caller see no others. */
const TOOL_CALLER: readonly KeyScope[] = ["exports:read", "invocations:read", "invocations:write"];
const NOTHING: readonly KeyScope[] = [];

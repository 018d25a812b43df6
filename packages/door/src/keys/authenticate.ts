/**
 * Resolves a token to its caller. An API key is read from the store every time, so that a revocation takes
 * effect immediately. A delegated token is valid only while its invocation runs.
 */

import { timingSafeEqual } from "node:crypto";
import {
  BackplaneError,
  type DelegationScope,
  isTerminal,
  type KeyScope,
  TOKEN_PREFIXES,
} from "@backplane/contract";
import type { Caller, InvocationRow, KernelDeps } from "@backplane/ports";
import { tokenHash } from "@backplane/registry";
import type { Authority } from "../authority/authority.ts";
import { callIdsOf } from "../calls/call-ids.ts";
import type { LiveCalls } from "../calls/live-calls.ts";

export async function authenticate(
  deps: KernelDeps,
  live: LiveCalls,
  authority: Authority,
  token: string,
  proof?: string,
): Promise<Caller> {
  const hash = tokenHash(token);
  if (!token.startsWith(TOKEN_PREFIXES.delegation)) return await authenticateKey(deps, hash);
  const caller = await authenticateDelegation(deps, live, hash, proof);
  // The token must not outlive the key behind its call.
  if ((await authority.findRevocation(caller)) !== null) throw new BackplaneError("auth.invalid");
  return caller;
}

async function authenticateKey(deps: KernelDeps, hash: string): Promise<Caller> {
  const key = await deps.store.keys.findByHash(hash);
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
    ...(key.tools === undefined ? {} : { tools: key.tools }),
  };
}

async function authenticateDelegation(
  deps: KernelDeps,
  live: LiveCalls,
  hash: string,
  proof: string | undefined,
): Promise<Caller> {
  const token = await deps.store.delegations.findByHash(hash);
  if (token === null) throw new BackplaneError("auth.invalid");
  const { scope, invocation_id } = token;
  const call = live.get(invocation_id);
  // A call on this node ends by its monotonic deadline, so a jump of the wall clock must not end its token.
  if (call === undefined && token.expires_at <= deps.clock.now()) throw new BackplaneError("auth.invalid");
  const row = call?.row ?? (await deps.store.invocations.get(scope, invocation_id));
  const has_ended = row === null || call?.stage === "settling" || isTerminal(row.status);
  const caller = has_ended ? null : toDelegatedCaller(row, token.scopes);
  if (row === null || caller === null) throw new BackplaneError("auth.invalid");
  if (!isFromOwnProcess(deps, row, call !== undefined, proof)) {
    throw new BackplaneError(
      "auth.invalid",
      "This token is accepted only from the process of its own call.",
      {
        fix: "Call the gateway from inside the plugin, at the gateway.base_url of its context.",
      },
    );
  }
  return caller;
}

/**
 * A sandboxed process reaches the gateway only through its own listeners, so a token that arrives in any other way has
 * left the sandbox. A process outside the sandbox has no listeners, and the token alone must suffice.
 */
function isFromOwnProcess(
  { runner }: Pick<KernelDeps, "runner">,
  { id, grant, class: execution_class }: InvocationRow,
  runs_here: boolean,
  proof: string | undefined,
): boolean {
  if (runs_here) {
    const expected = runner.listenerProof?.(id) ?? null;
    return expected === null || (proof !== undefined && equalInConstantTime(proof, expected));
  }
  // The call runs on another gateway. A sandboxed process could reach only that gateway.
  return execution_class === "inline" || grant?.host === true || !runner.health().sandbox.enabled;
}

function equalInConstantTime(a: string, b: string): boolean {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}

/**
 * The caller of the calls that the row's call makes, limited to its grant. Null for a call without a grant.
 */
export function toDelegatedCaller(
  row: InvocationRow,
  scopes: readonly DelegationScope[] = row.grant?.gateway_api_scopes ?? [],
): Caller | null {
  const { id, org_id, project_id, grant, effect_class, delivery_id, depth, within, channel } = row;
  if (grant === null) return null;
  return {
    actor: id,
    scope: { org_id, project_id },
    // A read_only call must not write through a tool that it calls.
    role: effect_class === "read_only" ? "guest" : "user",
    scopes: scopes.includes("tools:invoke") ? TOOL_CALLER_SCOPES : NO_SCOPES,
    admin: false,
    ...(channel === null ? {} : { channel }),
    delegation: {
      invocation_id: id,
      scopes,
      grant,
      delivery_id,
      depth,
      execution_id: within,
      ids: callIdsOf(row),
    },
  };
}

/** With these scopes a delegated caller reaches only its own invocations: the invocation service shows it no others. */
const TOOL_CALLER_SCOPES: readonly KeyScope[] = ["exports:read", "invocations:read", "invocations:write"];
const NO_SCOPES: readonly KeyScope[] = [];

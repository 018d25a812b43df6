/**
 * Delegated tokens: `vai_dlg_` and 32 random bytes, stored only as a hash, valid for one invocation until it
 * settles. A call gets one only if it was granted a scope of the gateway's API.
 */

import { type Grant, TOKEN_PREFIXES } from "@backplane/contract";
import type { InvocationRow, KernelDeps, NewDelegation } from "@backplane/ports";
import { randomToken, tokenHash } from "@backplane/registry";

/** The plugin may still be using the gateway's API when its deadline passes. */
const GRACE_MS = 5_000;

export function mintDelegation(
  deps: Pick<KernelDeps, "random">,
  row: InvocationRow,
  grant: Grant,
  now: number,
  remaining_ms = row.timeout_ms,
): { token: string; delegation: NewDelegation } | null {
  const scopes = grant.gateway_api_scopes;
  if (scopes.length === 0) return null;
  const token = TOKEN_PREFIXES.delegation + randomToken(deps);
  return {
    token,
    delegation: {
      token_hash: tokenHash(token),
      invocation_id: row.id,
      scope: { org_id: row.org_id, project_id: row.project_id },
      scopes,
      expires_at: now + remaining_ms + GRACE_MS,
    },
  };
}

/**
 * Revokes tokens that the gateway no longer stores, if the authorization server has a revocation endpoint (RFC 7009).
 * This happens after the row is removed, so an unavailable server does not delay a removal. A failed revocation is
 * logged; the token stays valid until it expires.
 */

import type { Binding } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import {
  type IssuedTokens,
  readStoredSignIn,
  type TokenRevocation,
  type TokenSource,
} from "@backplane/registry";
import { createOAuthFetch } from "./oauth-fetch.ts";
import { revokeToken } from "./token-request.ts";

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createTokenRevocation(deps: Deps): TokenRevocation {
  const in_flight = new Set<Promise<unknown>>();

  async function readTokens({ binding_id, scope }: Binding): Promise<IssuedTokens | null> {
    try {
      return (await readStoredSignIn(deps, scope.org_id, binding_id))?.record.session ?? null;
    } catch (error) {
      // The master key may be lost, which must not prevent a removal.
      deps.log.warn({ binding_id, err: error }, "sign-in cannot be decrypted, so its tokens are not revoked");
      return null;
    }
  }

  async function revokeBoth(binding: Binding, tokens: IssuedTokens | null): Promise<void> {
    if (tokens === null || tokens.revocation_endpoint === null) return;
    const { access_token, refresh_token } = tokens;
    const revocations = [revokeOne(binding, tokens, "access_token", access_token)];
    if (refresh_token !== null) revocations.push(revokeOne(binding, tokens, "refresh_token", refresh_token));
    const done = Promise.all(revocations);
    in_flight.add(done);
    await done;
    in_flight.delete(done);
  }

  async function revokeOne(
    { binding_id, scope }: Binding,
    source: TokenSource,
    kind: "access_token" | "refresh_token",
    token: string,
  ): Promise<void> {
    try {
      await revokeToken(deps, createOAuthFetch(deps, scope), source, kind, token);
    } catch (error) {
      deps.log.warn(
        { binding_id, issuer: source.issuer, kind, err: error },
        "token was removed here but could not be revoked at the authorization server",
      );
    }
  }

  return {
    readTokens,
    revoke: revokeBoth,
    async idle() {
      await Promise.all(in_flight);
    },
  };
}

/**
 * Tokens that nobody keeps are told to the authorization server (RFC 7009), where it listens for that. This comes after they
 * are forgotten here, so a server that is away holds up no removal; what could not be revoked is in the log, and ends by
 * itself when the server says so.
 */

import type { Binding } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import { type IssuedTokens, readSignIn, type TokenRevocation, type TokenSource } from "@backplane/registry";
import { oauthFetch } from "./oauth-fetch.ts";
import { revoke } from "./token-request.ts";

type Deps = Pick<KernelDeps, "store" | "vault" | "runner" | "host" | "clock" | "random" | "log">;

export function createTokenRevocation(deps: Deps): TokenRevocation {
  const under_way = new Set<Promise<unknown>>();

  async function holds({ binding_id, scope }: Binding): Promise<IssuedTokens | null> {
    try {
      return (await readSignIn(deps, scope.org_id, binding_id))?.record.session ?? null;
    } catch (error) {
      // Its key may be lost. That must not keep anybody from taking it away.
      deps.log.warn({ binding_id, err: error }, "a sign-in cannot be read, so its tokens are not revoked");
      return null;
    }
  }

  async function tell(binding: Binding, tokens: IssuedTokens | null): Promise<void> {
    if (tokens === null || tokens.revocation_endpoint === null) return;
    const { access_token, refresh_token } = tokens;
    const both = [one(binding, tokens, "access_token", access_token)];
    if (refresh_token !== null) both.push(one(binding, tokens, "refresh_token", refresh_token));
    const told = Promise.all(both);
    under_way.add(told);
    await told;
    under_way.delete(told);
  }

  async function one(
    { binding_id, scope }: Binding,
    source: TokenSource,
    kind: "access_token" | "refresh_token",
    token: string,
  ): Promise<void> {
    try {
      await revoke(deps, oauthFetch(deps, scope), source, kind, token);
    } catch (error) {
      deps.log.warn(
        { binding_id, issuer: source.issuer, kind, err: error },
        "a token was forgotten here and could not be revoked there",
      );
    }
  }

  return {
    readTokens: holds,
    revoke: tell,
    async idle() {
      await Promise.all(under_way);
    },
  };
}

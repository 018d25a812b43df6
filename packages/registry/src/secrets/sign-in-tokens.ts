/** How calls get the secrets of a binding, including the token of its sign-in, and how tokens are revoked. */

import type { BackplaneError, Binding, Grant } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import type { TokenSource, Tokens } from "./sign-in-record.ts";

export interface SignInTokens {
  /** Reads the values of the granted slots, and the access token of the sign-in if there is one. */
  readSecrets(bound: BoundPackage, grant: Pick<Grant, "secret_slots">): Promise<Record<string, string>>;
  /**
   * Handles a `sign_in.needed` error. Resolves to null when there is a newer token and the request should be
   * retried, otherwise to the error to report.
   */
  handleChallenge(bound: BoundPackage, error: { details?: unknown }): Promise<BackplaneError | null>;
  /** Sends a request with the secrets, and again with a newer token when the server refuses the first one. */
  sendWithSecrets<T>(
    bound: BoundPackage,
    grant: Pick<Grant, "secret_slots">,
    send: (secrets: Record<string, string>) => Promise<T>,
  ): Promise<T>;
}

/** Enough for a connection with an old token, then a renewed one, then one with more scope. */
export const MAX_RENEWALS = 3;

export type IssuedTokens = TokenSource & Tokens;

export interface TokenRevocation {
  /**
   * Reads the tokens of the sign-in, for `revoke` once the row is removed. Resolves to null when there are none or
   * they cannot be decrypted.
   */
  readTokens(binding: Binding): Promise<IssuedTokens | null>;
  /** Revokes the tokens at the authorization server. Never rejects, so callers need not wait. */
  revoke(binding: Binding, tokens: IssuedTokens | null): Promise<void>;
  /** Resolves when no revocation is in flight; the gateway waits for this before it stops. */
  idle(): Promise<void>;
}

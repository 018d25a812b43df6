/** The secrets that a call to a binding is given, the token of its sign-in among them, and how tokens are revoked. */

import type { BackplaneError, Binding, Grant } from "@backplane/contract";
import type { BoundPackage } from "@backplane/ports";
import type { TokenSource, Tokens } from "./sign-in-record.ts";

export interface SignInTokens {
  /** What the binding's slots hold, and the token of its sign-in where it has one. */
  readSecrets(bound: BoundPackage, grant: Pick<Grant, "secret_slots">): Promise<Record<string, string>>;
  /** After `sign_in.needed`: null, there is another token and it is worth trying again; else what to tell. */
  handleChallenge(bound: BoundPackage, error: { details?: unknown }): Promise<BackplaneError | null>;
  /** The same for a whole question, with new secrets where there are some. */
  sendWithSecrets<T>(
    bound: BoundPackage,
    grant: Pick<Grant, "secret_slots">,
    ask: (secrets: Record<string, string>) => Promise<T>,
  ): Promise<T>;
}

/** For a conversation with an older token, after a new one, and after one with more scope. */
export const MAX_RENEWALS = 3;

export type IssuedTokens = TokenSource & Tokens;

export interface TokenRevocation {
  /** What the binding's sign-in holds, for `tell` once that is gone. Null: nothing, or nothing that can be read. */
  readTokens(binding: Binding): Promise<IssuedTokens | null>;
  /** Never rejects; nobody has to wait for it. */
  revoke(binding: Binding, tokens: IssuedTokens | null): Promise<void>;
  /** When nothing is under way any more: a gateway that stops waits for that. */
  idle(): Promise<void>;
}

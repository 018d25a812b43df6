/**
 * The gateway's OAuth sign-ins to remote MCP servers. A sign-in is used for all callers of the binding; tokens are
 * never returned.
 */
import type { JsonObject, SignIn, SignInBegin, SignInStarted } from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";

/** A browser, identified by the secrets in its cookies. */
export interface SignInBrowser {
  browser_secrets: readonly string[];
}

export interface OpenedSignIn {
  authorization_url: string;
  /** The secret to set as a cookie; null if the browser already has one. */
  secret: string | null;
  /** Whether the cookie is limited to TLS. */
  secure: boolean;
  lasts_ms: number;
}

export interface SignIns {
  get(caller: Caller, binding_id: string): Promise<SignIn>;
  begin(caller: Caller, binding_id: string, options: SignInBegin): Promise<SignInStarted>;
  /** Returns where to redirect the browser that opened the sign-in URL first. Rejects any other browser. */
  open(ticket: string, browser: SignInBrowser): Promise<OpenedSignIn>;
  /** Completes a sign-in with the redirect URL, from the caller that began it or from its browser. */
  complete(by: Caller | SignInBrowser, redirect: string): Promise<SignIn>;
  /** Deletes the tokens and the client, then revokes the tokens at the authorization server. */
  end(caller: Caller, binding_id: string): Promise<void>;
  /** The OAuth client metadata document; null if the gateway has no public URL. */
  buildClientDocument(): JsonObject | null;
}

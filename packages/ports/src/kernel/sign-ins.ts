/** The gateway's OAuth sign-ins at remote MCP servers. A sign-in serves everybody who may use the binding; no token is ever shown. */
import type { JsonObject, SignIn, SignInBegin, SignInStarted } from "@backplane/contract";
import type { Caller } from "../scope/scope.ts";

/** What a browser shows of itself: the secrets that it got here before. */
export interface SignInBrowser {
  browser: readonly string[];
}

export interface OpenedSignIn {
  authorization_url: string;
  /** What the browser has to show when it comes back; null: it has it already. */
  secret: string | null;
  /** Only over TLS. */
  secure: boolean;
  lasts_ms: number;
}

export interface SignIns {
  get(caller: Caller, binding_id: string): Promise<SignIn>;
  begin(caller: Caller, binding_id: string, given: SignInBegin): Promise<SignInStarted>;
  /** A browser comes to the address that the person was given; it is sent on if it is the first, or the first again. */
  open(ticket: string, browser: SignInBrowser): Promise<OpenedSignIn>;
  /** The address that the browser was sent to, from who began or from the browser itself. */
  complete(by: Caller | SignInBrowser, redirect: string): Promise<SignIn>;
  /** Forgets tokens and client, and tells the authorization server afterwards. */
  end(caller: Caller, binding_id: string): Promise<void>;
  /** What the gateway says of itself as a client; null: it has no public address. */
  clientDocument(): JsonObject | null;
}

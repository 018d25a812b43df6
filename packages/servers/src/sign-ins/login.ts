/**
 * One login: started by an admin and completed once, by the browser that opened it first or by the caller who
 * started it. Its state (PKCE verifier, client, endpoints) is sealed in the store, so that any node can complete
 * it, even after a restart.
 */

import { hash } from "node:crypto";
import { BackplaneError, type SignInBegin } from "@backplane/contract";
import type { BoundPackage, KernelDeps, Login, ServerChallenge } from "@backplane/ports";
import {
  loginSealName,
  randomToken,
  type SignInSession,
  type TokenSource,
  type Tokens,
  tokenHash,
} from "@backplane/registry";
import { parsePrivateKey } from "./client-assertion.ts";
import { type DiscoveredServer, discoverAuthorization } from "./discovery.ts";
import { chooseClient, type GatewayUrls } from "./oauth-client.ts";
import { excerpt, type OAuthFetch, signInFailedError } from "./oauth-fetch.ts";
import { chooseScope } from "./scope.ts";
import { requestTokens } from "./token-request.ts";

const LOGIN_MS = 10 * 60_000;

type LoginDeps = Pick<KernelDeps, "clock" | "random" | "vault">;

/** The sealed state of a login until the browser returns. */
interface PendingLogin {
  source: TokenSource;
  verifier: string;
  redirect_uri: string;
  authorization_url: string;
  /** Whether the authorization server declared that it sends `iss` in its responses. */
  sends_issuer: boolean;
}

export interface PreparedLogin {
  source: TokenSource;
  discovered: DiscoveredServer;
}

/** Discovers the endpoints and chooses the client, before a person is involved. */
export async function prepareLogin(
  fetch: OAuthFetch,
  server: URL,
  challenge: ServerChallenge | null,
  previous: SignInSession | null,
  options: SignInBegin,
  urls: GatewayUrls,
): Promise<PreparedLogin> {
  const { grant = "authorization_code" } = options;
  checkOptions(options);
  if (options.private_key !== undefined) parsePrivateKey(options.private_key);
  const discovered = await discoverAuthorization(fetch, server, challenge);
  const same_issuer = previous?.issuer === discovered.server.issuer ? previous : null;
  const client = await chooseClient(fetch, discovered.server, options, urls, same_issuer);
  const scope = chooseScope(options.scope, challenge, discovered, same_issuer?.scope ?? null);
  const source: TokenSource = {
    issuer: discovered.server.issuer,
    resource: discovered.resource,
    token_endpoint: discovered.server.token_endpoint,
    revocation_endpoint: discovered.server.revocation_endpoint,
    auth_methods: discovered.server.auth_methods,
    client,
    grant,
    scope,
  };
  return { source, discovered };
}

export interface StartedLogin {
  authorization_url: string;
  /** The secret of the start URL. It is not part of the authorization URL. */
  ticket: string;
  row: Omit<Login, "browser_hash">;
}

export function startLogin(
  deps: LoginDeps,
  { binding }: BoundPackage,
  actor: string,
  { source, discovered: { server } }: PreparedLogin,
  redirect_uri: string,
): StartedLogin {
  const state = randomToken(deps);
  const verifier = randomToken(deps);
  const ticket = randomToken(deps);
  const url = new URL(server.authorization_endpoint);
  const parameters: Record<string, string> = {
    response_type: "code",
    client_id: source.client.id,
    redirect_uri,
    state,
    code_challenge: hash("sha256", verifier, "base64url"),
    code_challenge_method: "S256",
    resource: source.resource,
    ...(source.scope === null ? {} : { scope: source.scope }),
    // OpenID Connect returns a refresh token only with this prompt.
    ...(source.scope?.split(" ").includes("offline_access") ? { prompt: "consent" } : {}),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  const { org_id } = binding.scope;
  const pending: PendingLogin = {
    source,
    verifier,
    redirect_uri,
    authorization_url: url.href,
    sends_issuer: server.sends_issuer,
  };
  return {
    authorization_url: url.href,
    ticket,
    row: {
      org_id,
      binding_id: binding.binding_id,
      state_hash: tokenHash(state),
      start_hash: tokenHash(ticket),
      actor,
      expires_at: deps.clock.now() + LOGIN_MS,
      ciphertext: deps.vault.seal(org_id, loginSealName(binding.binding_id), JSON.stringify(pending)),
    },
  };
}

/** Whether one of these browser secrets belongs to the browser that opened the login. */
export function isOpenedBy({ browser_hash }: Login, browsers: readonly string[]): boolean {
  return browser_hash !== null && browsers.some((browser) => tokenHash(browser) === browser_hash);
}

export function unsealLogin(
  { vault }: Pick<LoginDeps, "vault">,
  { org_id, binding_id, ciphertext }: Login,
): PendingLogin {
  return JSON.parse(vault.open(org_id, loginSealName(binding_id), ciphertext)) as PendingLogin;
}

/** Exchanges the authorization code for tokens. Rejects with `sign_in.failed`. */
export async function redeemCode(
  deps: LoginDeps,
  fetch: OAuthFetch,
  login: Login,
  redirect: URL,
): Promise<{ source: TokenSource; tokens: Tokens }> {
  const { source, verifier, redirect_uri, sends_issuer } = unsealLogin(deps, login);
  const { searchParams: parameters } = redirect;
  checkIssuer(parameters.get("iss"), source.issuer, sends_issuer);
  const error = parameters.get("error");
  if (error !== null) {
    const description = parameters.get("error_description");
    throw signInFailedError(
      `the authorization server returned ${excerpt(error, 80)}${description === null ? "" : ` (${excerpt(description)})`}`,
    );
  }
  const code = parameters.get("code");
  if (code === null || code === "") throw signInFailedError("the redirect contains no code");
  const grant_params = { grant_type: "authorization_code", code, code_verifier: verifier, redirect_uri };
  return { source, tokens: await requestTokens(deps, fetch, source, grant_params) };
}

/** RFC 9207, compared as text: the response of another server must not reach this token endpoint. */
function checkIssuer(actual: string | null, issuer: string, required: boolean): void {
  if (actual === null && !required) return;
  if (actual === issuer) return;
  const description = actual === null ? "contains no issuer" : `has the issuer ${excerpt(actual)}`;
  throw signInFailedError(`the redirect ${description}; ${excerpt(issuer)} was expected`);
}

function checkOptions({ client_id, client_secret, private_key, grant }: SignInBegin): void {
  const has_secret = client_secret !== undefined || private_key !== undefined;
  const problem =
    has_secret && client_id === undefined
      ? "client_secret and private_key need a client_id."
      : client_secret !== undefined && private_key !== undefined
        ? "Specify client_secret or private_key, not both."
        : grant === "client_credentials" && !has_secret
          ? "client_credentials needs a client_id with a client_secret or a private_key."
          : null;
  if (problem !== null) throw new BackplaneError("request.invalid", problem);
}

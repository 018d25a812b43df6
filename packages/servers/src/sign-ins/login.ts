/**
 * One login: begun by an admin, answered once, by the browser that opened it first or by who began it. What it needs until
 * then (the PKCE verifier, the client, the endpoints that were found) is sealed in the store, so that any node and a
 * restarted one can take the answer.
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
import { privateKey } from "./client-assertion.ts";
import { type Discovered, discover } from "./discovery.ts";
import { chooseClient, type OurPlace } from "./oauth-client.ts";
import { type OAuthFetch, short, signInFailed } from "./oauth-fetch.ts";
import { chooseScope } from "./scope.ts";
import { requestTokens } from "./token-request.ts";

const LOGIN_MS = 10 * 60_000;

type Parts = Pick<KernelDeps, "clock" | "random" | "vault">;

/** What is sealed while the browser is away. */
interface Waiting {
  source: TokenSource;
  verifier: string;
  redirect_uri: string;
  authorization_url: string;
  /** It said that it names itself in its answers. */
  sends_issuer: boolean;
}

export interface Prepared {
  source: TokenSource;
  found: Discovered;
}

/** Where tokens would come from: nothing is asked of a person yet. */
export async function prepare(
  fetch: OAuthFetch,
  server: URL,
  challenge: ServerChallenge | null,
  before: SignInSession | null,
  given: SignInBegin,
  place: OurPlace,
): Promise<Prepared> {
  const { grant = "authorization_code" } = given;
  checkGiven(given);
  if (given.private_key !== undefined) privateKey(given.private_key);
  const found = await discover(fetch, server, challenge);
  const same = before?.issuer === found.server.issuer ? before : null;
  const client = await chooseClient(fetch, found.server, given, place, same);
  const scope = chooseScope(given.scope, challenge, found, same?.scope ?? null);
  const source: TokenSource = {
    issuer: found.server.issuer,
    resource: found.resource,
    token_endpoint: found.server.token_endpoint,
    revocation_endpoint: found.server.revocation_endpoint,
    auth_methods: found.server.auth_methods,
    client,
    grant,
    scope,
  };
  return { source, found };
}

export interface Begun {
  authorization_url: string;
  /** What the first address on the gateway holds; known to nobody who has only the one after it. */
  ticket: string;
  row: Omit<Login, "browser_hash">;
}

export function beginLogin(
  parts: Parts,
  { binding }: BoundPackage,
  actor: string,
  { source, found: { server } }: Prepared,
  redirect_uri: string,
): Begun {
  const state = randomToken(parts);
  const verifier = randomToken(parts);
  const ticket = randomToken(parts);
  const url = new URL(server.authorization_endpoint);
  const asked: Record<string, string> = {
    response_type: "code",
    client_id: source.client.id,
    redirect_uri,
    state,
    code_challenge: hash("sha256", verifier, "base64url"),
    code_challenge_method: "S256",
    resource: source.resource,
    ...(source.scope === null ? {} : { scope: source.scope }),
    // Without it OpenID gives no refresh token.
    ...(source.scope?.split(" ").includes("offline_access") ? { prompt: "consent" } : {}),
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  const { org_id } = binding.scope;
  const waiting: Waiting = {
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
      expires_at: parts.clock.now() + LOGIN_MS,
      ciphertext: parts.vault.seal(org_id, loginSealName(binding.binding_id), JSON.stringify(waiting)),
    },
  };
}

/** Whether the browser that came is the one that has this login. */
export function isOpenedBy({ browser_hash }: Login, browsers: readonly string[]): boolean {
  return browser_hash !== null && browsers.some((one) => tokenHash(one) === browser_hash);
}

export function openWaiting(
  { vault }: Pick<Parts, "vault">,
  { org_id, binding_id, ciphertext }: Login,
): Waiting {
  return JSON.parse(vault.open(org_id, loginSealName(binding_id), ciphertext)) as Waiting;
}

/** Trades the code of an answer for tokens. Rejects with `sign_in.failed`. */
export async function redeem(
  parts: Parts,
  fetch: OAuthFetch,
  login: Login,
  answer: URL,
): Promise<{ source: TokenSource; tokens: Tokens }> {
  const { source, verifier, redirect_uri, sends_issuer } = openWaiting(parts, login);
  const { searchParams: said } = answer;
  checkIssuer(said.get("iss"), source.issuer, sends_issuer);
  const error = said.get("error");
  if (error !== null) {
    const words = said.get("error_description");
    throw signInFailed(
      `the authorization server answered ${short(error, 80)}${words === null ? "" : ` (${short(words)})`}`,
    );
  }
  const code = said.get("code");
  if (code === null || code === "") throw signInFailed("the answer holds no code");
  const given = { grant_type: "authorization_code", code, code_verifier: verifier, redirect_uri };
  return { source, tokens: await requestTokens(parts, fetch, source, given) };
}

/** RFC 9207, letter by letter: an answer of another server's must not reach this one's token endpoint. */
function checkIssuer(found: string | null, issuer: string, required: boolean): void {
  if (found === null && !required) return;
  if (found === issuer) return;
  const what = found === null ? "does not say whose it is" : `is of ${short(found)}`;
  throw signInFailed(`the answer ${what}, and ${short(issuer)} was asked`);
}

function checkGiven({ client_id, client_secret, private_key, grant }: SignInBegin): void {
  const secret = client_secret !== undefined || private_key !== undefined;
  const problem =
    secret && client_id === undefined
      ? "client_secret and private_key belong to a client_id"
      : client_secret !== undefined && private_key !== undefined
        ? "give client_secret or private_key, not both"
        : grant === "client_credentials" && !secret
          ? "client_credentials needs a client_id with a client_secret or a private_key"
          : null;
  if (problem !== null) throw new BackplaneError("request.invalid", problem);
}

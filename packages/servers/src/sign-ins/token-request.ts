/** The token endpoint: how the client proves itself there, what is asked for, and what an answer must hold. */

import { BackplaneError, createRedactor, type JsonObject } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import { type OAuthClient, randomToken, type TokenSource, type Tokens } from "@backplane/registry";
import { clientAssertion } from "./client-assertion.ts";
import { type OAuthFetch, short, signInFailed } from "./oauth-fetch.ts";

type Parts = Pick<KernelDeps, "clock" | "random">;

const ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/** Answers after which the same question is not worth asking again. */
const FINAL: ReadonlySet<string> = new Set([
  "invalid_grant",
  "invalid_client",
  "unauthorized_client",
  "invalid_scope",
  "unsupported_grant_type",
]);
/** Nobody uses the answer, so it is not waited for as long as others are. */
const REVOKE_MS = 5_000;
const LONGEST_S = 10 * 365 * 86_400;

/** `given`: the parameters of the grant. Rejects with `sign_in.failed`; `details.oauth_error` is the server's own word. */
export async function requestTokens(
  parts: Parts,
  fetch: OAuthFetch,
  source: TokenSource,
  given: Record<string, string>,
): Promise<Tokens> {
  const form = new URLSearchParams({ ...given, resource: source.resource });
  const headers = authenticate(parts, source, form);
  const { status, json } = await fetch.postForm(source.token_endpoint, form, headers);
  if (status !== 200 || json === null) throw refusedBy(source, given, status, json);
  return readTokens(parts, json, given);
}

/** RFC 7009; a token that the server does not know is revoked to it. Rejects with `sign_in.failed`. */
export async function revoke(
  parts: Parts,
  fetch: OAuthFetch,
  source: TokenSource,
  token_type_hint: "access_token" | "refresh_token",
  token: string,
): Promise<void> {
  if (source.revocation_endpoint === null) return;
  const form = new URLSearchParams({ token, token_type_hint });
  const headers = authenticate(parts, source, form);
  const { status } = await fetch.postForm(source.revocation_endpoint, form, headers, REVOKE_MS);
  // Its words may repeat the token.
  if (status !== 200) throw signInFailed(`${short(source.issuer)} revoked no token (HTTP ${status})`);
}

export function isFinal(error: unknown): boolean {
  const word = (error as BackplaneError).details?.oauth_error;
  return typeof word === "string" && FINAL.has(word);
}

function authenticate(parts: Parts, source: TokenSource, form: URLSearchParams): Record<string, string> {
  const { client, issuer } = source;
  const method = authMethod(client, source.auth_methods);
  if (method === "client_secret_basic") {
    const pair = `${formEncoded(client.id)}:${formEncoded(client.secret ?? "")}`;
    return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
  }
  form.set("client_id", client.id);
  if (method === "client_secret_post") form.set("client_secret", client.secret ?? "");
  if (method === "private_key_jwt") {
    const claims = {
      client_id: client.id,
      audience: issuer,
      now: parts.clock.now(),
      jti: randomToken(parts),
    };
    form.set("client_assertion_type", ASSERTION);
    form.set("client_assertion", clientAssertion(client.private_key!, claims));
  }
  return {};
}

function authMethod(client: OAuthClient, supported: readonly string[] | null): string {
  if (client.private_key !== undefined) return "private_key_jwt";
  if (client.secret === undefined) return "none";
  const known = ["client_secret_basic", "client_secret_post", "none"];
  if (client.auth_method !== undefined && known.includes(client.auth_method)) return client.auth_method;
  // Without a word about it, it is basic (RFC 8414).
  return known.find((one) => (supported ?? ["client_secret_basic"]).includes(one)) ?? "client_secret_basic";
}

function readTokens({ clock }: Parts, json: JsonObject, given: Record<string, string>): Tokens {
  const { access_token, token_type, expires_in, refresh_token } = json;
  if (typeof access_token !== "string" || !/^[\x21-\x7e]{1,16384}$/.test(access_token)) {
    throw signInFailed("the authorization server's answer holds no usable access_token");
  }
  if (typeof token_type !== "string" || token_type.toLowerCase() !== "bearer") {
    throw signInFailed(`the authorization server gives tokens of type ${short(token_type, 40)}, not Bearer`);
  }
  const seconds = typeof expires_in === "string" ? Number(expires_in) : expires_in;
  const known = typeof seconds === "number" && seconds > 0;
  return {
    access_token,
    // One that is not rotated stays good.
    refresh_token:
      typeof refresh_token === "string" && refresh_token !== ""
        ? refresh_token
        : (given.refresh_token ?? null),
    expires_at: known ? clock.now() + Math.min(seconds, LONGEST_S) * 1_000 : null,
  };
}

function refusedBy(
  { issuer, client }: TokenSource,
  given: Record<string, string>,
  status: number,
  json: JsonObject | null,
): BackplaneError {
  const word = typeof json?.error === "string" ? short(json.error, 80) : null;
  const said = typeof json?.error_description === "string" ? `: ${short(json.error_description)}` : "";
  const message = `${short(issuer)} gave no token (HTTP ${status}${word === null ? "" : `, ${word}`})${said}`;
  const known = [given.code, given.code_verifier, given.refresh_token, client.secret];
  const clean = createRedactor(known.filter((one) => one !== undefined))?.excerpt(message) ?? message;
  return new BackplaneError("sign_in.failed", clean, {
    details: { http_status: status, ...(word === null ? {} : { oauth_error: word }) },
    retryable: status >= 500 || status === 429,
  });
}

/** RFC 6749, 2.3.1: encoded like a form before it is base64. */
function formEncoded(text: string): string {
  return new URLSearchParams({ v: text }).toString().slice(2);
}

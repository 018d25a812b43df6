/**
 * Requests to the token and revocation endpoints: client authentication, parameters, and the checks of a response.
 */

import { BackplaneError, createRedactor, type JsonObject } from "@backplane/contract";
import type { KernelDeps } from "@backplane/ports";
import { type OAuthClient, randomToken, type TokenSource, type Tokens } from "@backplane/registry";
import { signClientAssertion } from "./client-assertion.ts";
import { excerpt, type OAuthFetch, signInFailedError } from "./oauth-fetch.ts";

type TokenDeps = Pick<KernelDeps, "clock" | "random">;

const ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/** Errors after which the same request cannot succeed. */
const PERMANENT_ERRORS: ReadonlySet<string> = new Set([
  "invalid_grant",
  "invalid_client",
  "unauthorized_client",
  "invalid_scope",
  "unsupported_grant_type",
]);
/** Shorter than for other requests, because nothing depends on the response. */
const REVOKE_MS = 5_000;
const MAX_EXPIRES_IN_S = 10 * 365 * 86_400;

/**
 * `grant_params` are the parameters of the grant. Rejects with `sign_in.failed`; `details.oauth_error` is the error
 * code of the server.
 */
export async function requestTokens(
  deps: TokenDeps,
  fetch: OAuthFetch,
  source: TokenSource,
  grant_params: Record<string, string>,
): Promise<Tokens> {
  const form = new URLSearchParams({ ...grant_params, resource: source.resource });
  const headers = authenticateClient(deps, source, form);
  const { status, json } = await fetch.postForm(source.token_endpoint, form, headers);
  if (status !== 200 || json === null) throw tokenRefusalError(source, grant_params, status, json);
  return parseTokens(deps, json, grant_params);
}

/** RFC 7009; a server reports an unknown token as revoked. Rejects with `sign_in.failed`. */
export async function revokeToken(
  deps: TokenDeps,
  fetch: OAuthFetch,
  source: TokenSource,
  token_type_hint: "access_token" | "refresh_token",
  token: string,
): Promise<void> {
  if (source.revocation_endpoint === null) return;
  const form = new URLSearchParams({ token, token_type_hint });
  const headers = authenticateClient(deps, source, form);
  const { status } = await fetch.postForm(source.revocation_endpoint, form, headers, REVOKE_MS);
  // The response body may repeat the token, so it is not quoted.
  if (status !== 200)
    throw signInFailedError(`${excerpt(source.issuer)} did not revoke the token (HTTP ${status})`);
}

export function isPermanentRefusal(error: unknown): boolean {
  const oauth_error = (error as BackplaneError).details?.oauth_error;
  return typeof oauth_error === "string" && PERMANENT_ERRORS.has(oauth_error);
}

function authenticateClient(
  deps: TokenDeps,
  source: TokenSource,
  form: URLSearchParams,
): Record<string, string> {
  const { client, issuer } = source;
  const method = chooseAuthMethod(client, source.auth_methods);
  if (method === "client_secret_basic") {
    const pair = `${formEncode(client.id)}:${formEncode(client.secret ?? "")}`;
    return { authorization: `Basic ${Buffer.from(pair).toString("base64")}` };
  }
  form.set("client_id", client.id);
  if (method === "client_secret_post") form.set("client_secret", client.secret ?? "");
  if (method === "private_key_jwt") {
    const claims = {
      client_id: client.id,
      audience: issuer,
      now: deps.clock.now(),
      jti: randomToken(deps),
    };
    form.set("client_assertion_type", ASSERTION_TYPE);
    form.set("client_assertion", signClientAssertion(client.private_key!, claims));
  }
  return {};
}

function chooseAuthMethod(client: OAuthClient, supported: readonly string[] | null): string {
  if (client.private_key !== undefined) return "private_key_jwt";
  if (client.secret === undefined) return "none";
  const known = ["client_secret_basic", "client_secret_post", "none"];
  if (client.auth_method !== undefined && known.includes(client.auth_method)) return client.auth_method;
  // The default of RFC 8414 when the metadata lists no method.
  return (
    known.find((method) => (supported ?? ["client_secret_basic"]).includes(method)) ?? "client_secret_basic"
  );
}

function parseTokens({ clock }: TokenDeps, json: JsonObject, grant_params: Record<string, string>): Tokens {
  const { access_token, token_type, expires_in, refresh_token } = json;
  if (typeof access_token !== "string" || !/^[\x21-\x7e]{1,16384}$/.test(access_token)) {
    throw signInFailedError("the authorization server's response contains no valid access_token");
  }
  if (typeof token_type !== "string" || token_type.toLowerCase() !== "bearer") {
    throw signInFailedError(
      `the authorization server issues tokens of type ${excerpt(token_type, 40)}, not Bearer`,
    );
  }
  const seconds = typeof expires_in === "string" ? Number(expires_in) : expires_in;
  const has_expiry = typeof seconds === "number" && seconds > 0;
  return {
    access_token,
    // A refresh token that is not rotated stays valid.
    refresh_token:
      typeof refresh_token === "string" && refresh_token !== ""
        ? refresh_token
        : (grant_params.refresh_token ?? null),
    expires_at: has_expiry ? clock.now() + Math.min(seconds, MAX_EXPIRES_IN_S) * 1_000 : null,
  };
}

function tokenRefusalError(
  { issuer, client }: TokenSource,
  grant_params: Record<string, string>,
  status: number,
  json: JsonObject | null,
): BackplaneError {
  const oauth_error = typeof json?.error === "string" ? excerpt(json.error, 80) : null;
  const description =
    typeof json?.error_description === "string" ? `: ${excerpt(json.error_description)}` : "";
  const message = `${excerpt(issuer)} refused the token request (HTTP ${status}${oauth_error === null ? "" : `, ${oauth_error}`})${description}`;
  const secrets = [grant_params.code, grant_params.code_verifier, grant_params.refresh_token, client.secret];
  const clean = createRedactor(secrets.filter((secret) => secret !== undefined))?.excerpt(message) ?? message;
  return new BackplaneError("sign_in.failed", clean, {
    details: { http_status: status, ...(oauth_error === null ? {} : { oauth_error }) },
    retryable: status >= 500 || status === 429,
  });
}

/** RFC 6749, 2.3.1: id and secret are form-encoded before base64. */
function formEncode(text: string): string {
  return new URLSearchParams({ v: text }).toString().slice(2);
}

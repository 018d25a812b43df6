/**
 * From a server to who gives tokens for it: its protected-resource metadata (RFC 9728), then the authorization server's
 * own (RFC 8414, OpenID). A server of 2025-03-26 has only the second, at its own root, or none at all; then the paths are
 * those that revision names. What does not speak of this very server or issuer is refused, not worked around.
 */

import type { Json, JsonObject } from "@backplane/contract";
import type { ServerChallenge } from "@backplane/ports";
import { type OAuthFetch, safeUrl, short, signInFailed } from "./oauth-fetch.ts";

export interface AuthorizationServer {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  registration_endpoint: string | null;
  revocation_endpoint: string | null;
  auth_methods: string[] | null;
  scopes: string[] | null;
  takes_documents: boolean;
  sends_issuer: boolean;
}

export interface Discovered {
  /** As the server publishes it. */
  resource: string;
  scopes: string[] | null;
  server: AuthorizationServer;
}

const PROTECTED = "/.well-known/oauth-protected-resource";
const OAUTH = "/.well-known/oauth-authorization-server";
const OPENID = "/.well-known/openid-configuration";

export async function discover(
  fetch: OAuthFetch,
  server: URL,
  challenge: ServerChallenge | null,
): Promise<Discovered> {
  safeUrl(server.href, "the address of a server that one signs in to");
  const metadata = await protectedResource(fetch, server, challenge?.resource_metadata ?? null);
  if (metadata === null) {
    const found = (await authorizationServer(fetch, server.origin)) ?? usualPaths(server.origin);
    return { resource: withoutSlash(server), scopes: null, server: found };
  }
  const resource = resourceOf(metadata, server);
  const named = Array.isArray(metadata.authorization_servers) ? metadata.authorization_servers[0] : undefined;
  const issuer = named ?? server.origin;
  safeUrl(issuer, "the authorization server that it names");
  const found = await authorizationServer(fetch, issuer as string);
  if (found === null) throw signInFailed(`${short(issuer)} publishes no metadata of an authorization server`);
  return { resource, scopes: texts(metadata.scopes_supported), server: found };
}

async function protectedResource(
  fetch: OAuthFetch,
  server: URL,
  named: string | null,
): Promise<JsonObject | null> {
  const path = server.pathname.replace(/\/$/, "");
  const usual = [`${server.origin}${PROTECTED}${path}`, `${server.origin}${PROTECTED}`];
  for (const url of named === null ? new Set(usual) : [named]) {
    const { status, json } = await fetch.get(url);
    if (status === 200 && json !== null) return json;
    if (named !== null) throw signInFailed(`the metadata that the server names (${short(url)}) is not there`);
  }
  return null;
}

function resourceOf({ resource }: JsonObject, server: URL): string {
  if (typeof resource === "string" && isFor(resource, server)) return resource;
  throw signInFailed(`the server's metadata speaks of another resource, ${short(resource)}`);
}

/** The resource must be this server, or the whole of which it is a part: a token for another place is not sent here. */
export function isFor(resource: string, server: URL): boolean {
  const url = URL.canParse(resource) ? new URL(resource) : null;
  const whole = (path: string) => (path.endsWith("/") ? path : `${path}/`);
  return (
    url !== null &&
    url.hash === "" &&
    url.origin === server.origin &&
    whole(server.pathname).startsWith(whole(url.pathname))
  );
}

/** In the order of the MCP specification; null: none of them is there. */
async function authorizationServer(fetch: OAuthFetch, issuer: string): Promise<AuthorizationServer | null> {
  const url = new URL(issuer);
  const path = url.pathname.replace(/\/$/, "");
  const places =
    path === "" ? [`${OAUTH}`, `${OPENID}`] : [`${OAUTH}${path}`, `${OPENID}${path}`, `${path}${OPENID}`];
  for (const place of places) {
    const { status, json } = await fetch.get(`${url.origin}${place}`);
    if (status !== 200 || json === null) continue;
    return read(json, issuer);
  }
  return null;
}

function read(json: JsonObject, issuer: string): AuthorizationServer {
  if (!sameIssuer(json.issuer, issuer)) {
    throw signInFailed(`the metadata of ${short(issuer)} says that it is of ${short(json.issuer)}`);
  }
  const challenges = texts(json.code_challenge_methods_supported) ?? [];
  if (!challenges.includes("S256")) {
    throw signInFailed(`${short(issuer)} does not say that it takes PKCE with S256, which is required`);
  }
  const optional = (value: Json | undefined, what: string) =>
    value === undefined || value === null ? null : safeUrl(value, what).href;
  return {
    issuer: json.issuer as string,
    authorization_endpoint: safeUrl(json.authorization_endpoint, "its authorization_endpoint").href,
    token_endpoint: safeUrl(json.token_endpoint, "its token_endpoint").href,
    registration_endpoint: optional(json.registration_endpoint, "its registration_endpoint"),
    revocation_endpoint: optional(json.revocation_endpoint, "its revocation_endpoint"),
    auth_methods: texts(json.token_endpoint_auth_methods_supported),
    scopes: texts(json.scopes_supported),
    takes_documents: json.client_id_metadata_document_supported === true,
    sends_issuer: json.authorization_response_iss_parameter_supported === true,
  };
}

/** 2025-03-26, where a server may publish nothing. */
function usualPaths(origin: string): AuthorizationServer {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    revocation_endpoint: null,
    auth_methods: null,
    scopes: null,
    takes_documents: false,
    sends_issuer: false,
  };
}

/** The same text; a lone slash after the host is the same address. */
function sameIssuer(found: Json | undefined, wanted: string): boolean {
  if (typeof found !== "string") return false;
  const bare = (text: string) => (/^https?:\/\/[^/]+\/$/.test(text) ? text.slice(0, -1) : text);
  return bare(found) === bare(wanted);
}

function withoutSlash(server: URL): string {
  const { origin, pathname, search } = server;
  return `${origin}${pathname === "/" ? "" : pathname}${search}`;
}

function texts(value: Json | undefined): string[] | null {
  if (!Array.isArray(value)) return null;
  return value.filter((one): one is string => typeof one === "string");
}

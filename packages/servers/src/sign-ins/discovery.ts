/**
 * Finds the authorization server of an MCP server: the protected-resource metadata of the server (RFC 9728), then
 * the metadata of the authorization server (RFC 8414, OpenID Connect). A server of MCP revision 2025-03-26 publishes
 * only authorization server metadata, at its own origin, or none at all; without metadata the default paths of that
 * revision apply. Metadata of another resource or issuer is refused.
 */

import type { Json, JsonObject } from "@backplane/contract";
import type { ServerChallenge } from "@backplane/ports";
import { excerpt, type OAuthFetch, requireSafeUrl, signInFailedError } from "./oauth-fetch.ts";

export interface AuthorizationServer {
  issuer: string;
  authorization_endpoint: string;
  token_endpoint: string;
  registration_endpoint: string | null;
  revocation_endpoint: string | null;
  auth_methods: string[] | null;
  scopes: string[] | null;
  /** Whether the URL of a client metadata document is accepted as a client id. */
  accepts_documents: boolean;
  /** Whether the server declares that it sends `iss` in its responses. */
  sends_issuer: boolean;
}

export interface DiscoveredServer {
  /** The resource identifier that the server publishes. */
  resource: string;
  scopes: string[] | null;
  server: AuthorizationServer;
}

const RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource";
const OAUTH_METADATA_PATH = "/.well-known/oauth-authorization-server";
const OPENID_METADATA_PATH = "/.well-known/openid-configuration";

export async function discoverAuthorization(
  fetch: OAuthFetch,
  server: URL,
  challenge: ServerChallenge | null,
): Promise<DiscoveredServer> {
  requireSafeUrl(server.href, "the address of a server with a sign-in");
  const metadata = await fetchResourceMetadata(fetch, server, challenge?.resource_metadata ?? null);
  if (metadata === null) {
    const metadata_of_origin =
      (await fetchServerMetadata(fetch, server.origin)) ?? defaultEndpoints(server.origin);
    return { resource: resourceFor(server), scopes: null, server: metadata_of_origin };
  }
  const resource = checkResource(metadata, server);
  const listed_issuer = Array.isArray(metadata.authorization_servers)
    ? metadata.authorization_servers[0]
    : undefined;
  const issuer = listed_issuer ?? server.origin;
  requireSafeUrl(issuer, "the authorization server in the server's metadata");
  const server_metadata = await fetchServerMetadata(fetch, issuer as string);
  if (server_metadata === null)
    throw signInFailedError(`${excerpt(issuer)} publishes no authorization server metadata`);
  return { resource, scopes: readStrings(metadata.scopes_supported), server: server_metadata };
}

async function fetchResourceMetadata(
  fetch: OAuthFetch,
  server: URL,
  metadata_url: string | null,
): Promise<JsonObject | null> {
  const path = server.pathname.replace(/\/$/, "");
  const default_urls = [
    `${server.origin}${RESOURCE_METADATA_PATH}${path}`,
    `${server.origin}${RESOURCE_METADATA_PATH}`,
  ];
  for (const url of metadata_url === null ? new Set(default_urls) : [metadata_url]) {
    const { status, json } = await fetch.get(url);
    if (status === 200 && json !== null) return json;
    if (metadata_url !== null)
      throw signInFailedError(`the server refers to the metadata at ${excerpt(url)}, which cannot be read`);
  }
  return null;
}

function checkResource({ resource }: JsonObject, server: URL): string {
  if (typeof resource === "string" && coversServer(resource, server)) return resource;
  throw signInFailedError(`the server's metadata is for another resource, ${excerpt(resource)}`);
}

/** The resource must be this server or a parent of it, so that a token is never sent to another server. */
export function coversServer(resource: string, server: URL): boolean {
  const url = URL.canParse(resource) ? new URL(resource) : null;
  const withSlash = (path: string) => (path.endsWith("/") ? path : `${path}/`);
  return (
    url !== null &&
    url.hash === "" &&
    url.origin === server.origin &&
    withSlash(server.pathname).startsWith(withSlash(url.pathname))
  );
}

/**
 * Tries the addresses in the order of the MCP specification. Resolves to null when there is no metadata at any of
 * them.
 */
async function fetchServerMetadata(fetch: OAuthFetch, issuer: string): Promise<AuthorizationServer | null> {
  const url = new URL(issuer);
  const path = url.pathname.replace(/\/$/, "");
  const paths =
    path === ""
      ? [`${OAUTH_METADATA_PATH}`, `${OPENID_METADATA_PATH}`]
      : [`${OAUTH_METADATA_PATH}${path}`, `${OPENID_METADATA_PATH}${path}`, `${path}${OPENID_METADATA_PATH}`];
  for (const candidate of paths) {
    const { status, json } = await fetch.get(`${url.origin}${candidate}`);
    if (status !== 200 || json === null) continue;
    return parseServerMetadata(json, issuer);
  }
  return null;
}

function parseServerMetadata(json: JsonObject, issuer: string): AuthorizationServer {
  if (!isSameIssuer(json.issuer, issuer)) {
    throw signInFailedError(`the metadata of ${excerpt(issuer)} has another issuer, ${excerpt(json.issuer)}`);
  }
  const challenges = readStrings(json.code_challenge_methods_supported) ?? [];
  if (!challenges.includes("S256")) {
    throw signInFailedError(
      `${excerpt(issuer)} does not declare support for PKCE with S256, which is required`,
    );
  }
  const optional = (value: Json | undefined, label: string) =>
    value === undefined || value === null ? null : requireSafeUrl(value, label).href;
  return {
    issuer: json.issuer as string,
    authorization_endpoint: requireSafeUrl(json.authorization_endpoint, "its authorization_endpoint").href,
    token_endpoint: requireSafeUrl(json.token_endpoint, "its token_endpoint").href,
    registration_endpoint: optional(json.registration_endpoint, "its registration_endpoint"),
    revocation_endpoint: optional(json.revocation_endpoint, "its revocation_endpoint"),
    auth_methods: readStrings(json.token_endpoint_auth_methods_supported),
    scopes: readStrings(json.scopes_supported),
    accepts_documents: json.client_id_metadata_document_supported === true,
    sends_issuer: json.authorization_response_iss_parameter_supported === true,
  };
}

/** The default endpoints of MCP revision 2025-03-26, whose servers need not publish metadata. */
function defaultEndpoints(origin: string): AuthorizationServer {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    revocation_endpoint: null,
    auth_methods: null,
    scopes: null,
    accepts_documents: false,
    sends_issuer: false,
  };
}

/** Compares issuers as text, but ignores a slash directly after the host. */
function isSameIssuer(actual: Json | undefined, expected: string): boolean {
  if (typeof actual !== "string") return false;
  const withoutSlash = (text: string) => (/^https?:\/\/[^/]+\/$/.test(text) ? text.slice(0, -1) : text);
  return withoutSlash(actual) === withoutSlash(expected);
}

function resourceFor(server: URL): string {
  const { origin, pathname, search } = server;
  return `${origin}${pathname === "/" ? "" : pathname}${search}`;
}

function readStrings(value: Json | undefined): string[] | null {
  if (!Array.isArray(value)) return null;
  return value.filter((item): item is string => typeof item === "string");
}

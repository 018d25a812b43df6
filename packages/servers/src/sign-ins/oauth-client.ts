/**
 * Chooses the client that the gateway uses at an authorization server. The order of preference follows the MCP
 * specification: a client that a person registered there, the client metadata document at the gateway's public
 * address, then dynamic registration. A client is used only with the issuer that it was registered with.
 */

import { BackplaneError, type JsonObject } from "@backplane/contract";
import type { OAuthClient, SignInSession } from "@backplane/registry";
import type { AuthorizationServer } from "./discovery.ts";
import { excerpt, type OAuthFetch, signInFailedError } from "./oauth-fetch.ts";

export interface OAuthClientOptions {
  client_id?: string | undefined;
  client_secret?: string | undefined;
  private_key?: string | undefined;
}

export interface GatewayUrls {
  redirect_uri: string;
  /** The URL of the client metadata document; null without a public address. */
  document: string | null;
}

export async function chooseClient(
  fetch: OAuthFetch,
  server: AuthorizationServer,
  options: OAuthClientOptions,
  urls: GatewayUrls,
  previous: SignInSession | null,
): Promise<OAuthClient> {
  if (options.client_id !== undefined) {
    return {
      id: options.client_id,
      ...(options.client_secret === undefined ? {} : { secret: options.client_secret }),
      ...(options.private_key === undefined ? {} : { private_key: options.private_key }),
      kind: "given",
      redirect_uri: null,
    };
  }
  const previous_client = previous?.issuer === server.issuer ? previous.client : null;
  if (previous_client?.kind === "given") return previous_client;
  if (server.accepts_documents && urls.document !== null) {
    return { id: urls.document, kind: "document", redirect_uri: urls.redirect_uri };
  }
  if (previous_client?.kind === "registered" && previous_client.redirect_uri === urls.redirect_uri)
    return previous_client;
  if (server.registration_endpoint !== null) return await register(fetch, server, urls.redirect_uri);
  throw new BackplaneError(
    "sign_in.failed",
    `${excerpt(server.issuer)} does not support dynamic client registration.`,
    {
      fix: `Register a client there with the redirect URI ${urls.redirect_uri}, then: backplane binding login ID --client-id CLIENT_ID`,
    },
  );
}

/** Used for dynamic registration (RFC 7591) and for the client metadata document. */
export function buildClientMetadata(redirect_uri: string, auth_method: string): JsonObject {
  return {
    client_name: "Backplane",
    redirect_uris: [redirect_uri],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: auth_method,
    application_type: redirect_uri.startsWith("https:") ? "web" : "native",
  };
}

async function register(
  fetch: OAuthFetch,
  server: AuthorizationServer,
  redirect_uri: string,
): Promise<OAuthClient> {
  const preferred = ["none", "client_secret_basic", "client_secret_post"];
  const method = preferred.find((candidate) => server.auth_methods?.includes(candidate)) ?? preferred[0]!;
  const { status, json } = await fetch.postJson(
    server.registration_endpoint!,
    buildClientMetadata(redirect_uri, method),
  );
  const id = json?.client_id;
  if ((status !== 201 && status !== 200) || typeof id !== "string" || id === "") {
    const reason = typeof json?.error === "string" ? `, ${excerpt(json.error, 80)}` : "";
    throw signInFailedError(
      `${excerpt(server.issuer)} did not register the gateway as a client (HTTP ${status}${reason})`,
    );
  }
  const { client_secret, token_endpoint_auth_method } = json!;
  return {
    id,
    ...(typeof client_secret === "string" && client_secret !== "" ? { secret: client_secret } : {}),
    ...(typeof token_endpoint_auth_method === "string" ? { auth_method: token_endpoint_auth_method } : {}),
    kind: "registered",
    redirect_uri,
  };
}

/**
 * Who the gateway is to an authorization server, in the order of the MCP specification: a client that a person registered
 * there, the gateway's own description at a public address, or one registered on the spot. A client belongs to the issuer
 * that knows it and is never shown to another.
 */

import { BackplaneError, type JsonObject } from "@backplane/contract";
import type { OAuthClient, SignInSession } from "@backplane/registry";
import type { AuthorizationServer } from "./discovery.ts";
import { type OAuthFetch, short, signInFailed } from "./oauth-fetch.ts";

export interface GivenClient {
  client_id?: string | undefined;
  client_secret?: string | undefined;
  private_key?: string | undefined;
}

export interface OurPlace {
  redirect_uri: string;
  /** The address of our description, where the world can read it. */
  document: string | null;
}

export async function chooseClient(
  fetch: OAuthFetch,
  server: AuthorizationServer,
  given: GivenClient,
  place: OurPlace,
  before: SignInSession | null,
): Promise<OAuthClient> {
  if (given.client_id !== undefined) {
    return {
      id: given.client_id,
      ...(given.client_secret === undefined ? {} : { secret: given.client_secret }),
      ...(given.private_key === undefined ? {} : { private_key: given.private_key }),
      kind: "given",
      redirect_uri: null,
    };
  }
  const known = before?.issuer === server.issuer ? before.client : null;
  if (known?.kind === "given") return known;
  if (server.takes_documents && place.document !== null) {
    return { id: place.document, kind: "document", redirect_uri: place.redirect_uri };
  }
  if (known?.kind === "registered" && known.redirect_uri === place.redirect_uri) return known;
  if (server.registration_endpoint !== null) return await register(fetch, server, place.redirect_uri);
  throw new BackplaneError("sign_in.failed", `${short(server.issuer)} registers no clients by itself.`, {
    fix: `Register one there with the redirect address ${place.redirect_uri}, then: backplane binding login ID --client-id CLIENT_ID`,
  });
}

/** The same words for a registration (RFC 7591) and for the description at our address. */
export function clientMetadata(redirect_uri: string, auth_method: string): JsonObject {
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
  const wanted = ["none", "client_secret_basic", "client_secret_post"];
  const method = wanted.find((one) => server.auth_methods?.includes(one)) ?? wanted[0]!;
  const { status, json } = await fetch.postJson(
    server.registration_endpoint!,
    clientMetadata(redirect_uri, method),
  );
  const id = json?.client_id;
  if ((status !== 201 && status !== 200) || typeof id !== "string" || id === "") {
    const said = typeof json?.error === "string" ? `, ${short(json.error, 80)}` : "";
    throw signInFailed(`${short(server.issuer)} did not register us as a client (HTTP ${status}${said})`);
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
